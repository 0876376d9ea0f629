"""A job's private /tmp is closed to the other users of its host, and to their jobs."""

from __future__ import annotations

import pytest

from tests.support import host
from tests.support.accounts import host_users
from tests.support.starter_bench import starter_bench

pytestmark = pytest.mark.host


@host.needs(host.process_namespaces)
async def test_another_user_neither_reads_nor_plants_files(root: None) -> None:
    with host_users("mallory") as (mallory,):
        async with starter_bench() as bench:
            script = "echo secret > /tmp/work; touch up; while [ ! -e /tmp/stop ]; do sleep 0.05; done; ls /tmp"
            run = bench.submit("/bin/sh", "-c", script)
            await bench.running(run)
            await bench.eventually(lambda: list(bench.execute.glob("dir_*/scratch/up")), "the job has written")
            tries = f"""for dir in {bench.execute}/dir_* {bench.execute}/dir_*/*; do
                for name in tmp var_tmp; do
                    cat $dir/$name/work && echo read || true
                    touch $dir/$name/planted && echo planted || true
                    ls $dir/$name && echo listed || true
                done
            done
            """
            said = mallory.run(tries).stdout
            assert said == ""
            (private,) = bench.execute.glob("dir_*/private/tmp")
            (private / "stop").touch()
            await bench.ended(run)
            assert bench.output(run).split() == ["stop", "work"]
