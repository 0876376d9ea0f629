"""Runners of DAGs are forks of a process that has loaded them: they share its memory and nothing else of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.execution.dagman import OWN

from tests.support.dags import TRUE, Place, place_on, pool_of_a_user
from tests.support.pool import Pool


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with pool_of_a_user() as pool:
        yield pool


def begun(pool: Pool) -> Place:
    """A DAG whose first node waits for a file."""
    place = place_on(pool)
    waits = f"arguments = \"-c 'until test -e {place.work}/go; do sleep 0.1; done'\"\nqueue"
    place.write(
        x_dag="JOB A a.sub\nJOB B a.sub\nPARENT A CHILD B\n",
        a_sub=TRUE.replace("/bin/true", "/bin/sh").replace("queue", waits),
    )
    place.submit("x.dag")
    place.until("the first node runs", "x.dag.nodes.log", "^001 ")
    return place


def ended(place: Place) -> None:
    place.write(go="")
    place.ended()
    assert "EXITING WITH STATUS 0" in place.text("x.dag.dagman.out")
    assert place.submissions() == ["A", "B"]


def parent(process: int) -> int:
    found = re.search(r"^PPid:\s+(\d+)", Path(f"/proc/{process}/status").read_text(), re.M)
    assert found is not None
    return int(found[1])


def test_a_runner_shares_most_of_its_memory_and_has_the_rights_and_files_of_its_job(pool: Pool) -> None:
    places = [begun(pool), begun(pool)]
    processes = [place.runner() for place in places]
    assert len({parent(parent(process)) for process in processes}) == 1
    for place, process in zip(places, processes, strict=True):
        own = re.search(r"^Private_Dirty:\s+(\d+) kB", Path(f"/proc/{process}/smaps_rollup").read_text(), re.M)
        assert own is not None and int(own[1]) < 15 * 1024
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        assert words[:2] == [OWN.encode(), b"-f"]
        status = Path(f"/proc/{process}/status").read_text()
        owner = place.work.stat().st_uid
        assert re.findall(r"^(?:Name|Uid):\s+(.+)", status, re.M) == ["condor_dagman", "\t".join([str(owner)] * 4)]
        assert re.findall(r"^Cap(?:Prm|Eff):\s+(\w+)", status, re.M) == ["0" * 16] * 2
        # Its user may look at it, as at any process of theirs.
        as_user = [*pool.account[-6:], "cat", f"/proc/{process}/environ"]
        shown = subprocess.run(as_user, capture_output=True, text=True, check=True).stdout.split("\0")
        assert f"CONDOR_ID={place.text('x.dag.dagman.log').split('(')[1].split('.')[0].lstrip('0')}.0" in shown
        # It has files of its own job, its schedd and its pipes.
        opened = [os.readlink(entry) for entry in Path(f"/proc/{process}/fd").iterdir()]  # noqa: PTH115
        foreign = [
            name for name in opened if name.startswith("/") and not name.startswith((str(place.work), "/dev/null"))
        ]
        assert not foreign
        (ignored,) = re.findall(r"^SigIgn:\s+(\w+)", status, re.M)
        # Those of 32 and above may come from whoever started the pool: the C library keeps two of them to itself.
        assert int(ignored, 16) & 0x7FFFFFFF == 1 << (signal.SIGPIPE - 1)
    for place in places:
        ended(place)


def test_runners_go_on_without_the_zygote_and_the_next_has_another(pool: Pool) -> None:
    first = begun(pool)
    zygote = parent(parent(first.runner()))
    assert Path(f"/proc/{zygote}/cmdline").read_bytes().startswith(b"slotwise-zygote\0")
    os.kill(zygote, signal.SIGKILL)
    pool.until("it is gone", lambda: not Path(f"/proc/{zygote}").exists())
    second = begun(pool)
    assert parent(parent(second.runner())) != zygote
    ended(first)
    ended(second)
