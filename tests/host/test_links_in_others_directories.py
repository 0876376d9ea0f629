"""Files that root's daemons append to in directories of other accounts: no link there leads to a file of root's."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from slotwise.classad import ClassAd
from slotwise.config.daemon_account import DaemonAccount
from slotwise.daemon import privileges
from slotwise.startd.monitor import boinc
from slotwise.starter.transfer import plugin_results

from tests.support.accounts import HostUser, host_users
from tests.support.waiting import LIMIT_S

#: What an account may lay in place of a file, to a file that is root's.
LAID: dict[str, Callable[[Path, Path], None]] = {
    "a link": Path.symlink_to,
    "a link to what is not there yet": lambda path, valuable: path.symlink_to(valuable.with_name("made")),
    "a pipe": lambda path, _: os.mkfifo(path),
}


@dataclass
class Place:
    """``valuable`` is root's, ``top`` below it the account's."""

    who: HostUser
    valuable: Path
    top: Path


@pytest.fixture
def place() -> Iterator[Place]:
    with host_users("account") as (who,), tempfile.TemporaryDirectory(prefix="sw-links-") as name:
        Path(name).chmod(0o755)
        valuable, top = Path(name) / "valuable", Path(name) / "top"
        valuable.write_text("root's\n")
        top.mkdir()
        os.chown(top, who.uid, who.gid)
        yield Place(who, valuable, top)


def unharmed(place: Place) -> bool:
    return place.valuable.read_text() == "root's\n" and not place.valuable.with_name("made").exists()


class _Knobs(dict[str, str]):
    def get_text(self, name: str) -> str:
        return self.get(name, "")


async def client_says(place: Place) -> None:
    """What the backfill client says, as root's startd has it written."""
    knobs = _Knobs(
        BOINC_Executable="/bin/echo", BOINC_InitialDir=str(place.top), BOINC_Owner=place.who.name,
        BOINC_Arguments="x::0:0::/:/bin/sh", BOINC_Output="out",
    )  # fmt: skip
    client = boinc.Client(lambda: cast(Any, knobs), cast(Any, None), lambda *_: None)
    async with asyncio.timeout(LIMIT_S):
        process = await client._spawn()
        await process.wait()


async def test_what_a_backfill_client_says_goes_to_a_file_of_its_account(place: Place) -> None:
    await client_says(place)
    out = place.top / "out"
    assert (out.read_text(), out.stat().st_uid) == ("x::0:0::/:/bin/sh\n", place.who.uid)


@pytest.mark.parametrize("what", LAID)
async def test_a_backfill_client_lays_no_link_to_a_file_of_roots(place: Place, what: str) -> None:
    LAID[what](place.top / "out", place.valuable)
    with pytest.raises(OSError):
        await client_says(place)
    assert unharmed(place)


def append_statistics(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plugin's result, whose words are the job's, as root's starter has it written."""
    who = place.who
    monkeypatch.setattr(privileges, "_account", DaemonAccount(who.name, who.uid, who.gid, (who.gid,)))
    path = place.top / "transfer_stats"
    job = ClassAd({"ClusterId": 1, "ProcId": 0, "Owner": "bob"})
    plugin_results.append(str(path), [ClassAd({"TransferError": "x::0:0::/:/bin/sh"})], job)
    return path


def test_statistics_of_transfers_are_the_daemons_accounts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    path = append_statistics(place, monkeypatch)
    assert "x::0:0" in path.read_text() and path.stat().st_uid == place.who.uid


@pytest.mark.parametrize("what", LAID)
def test_statistics_of_transfers_go_by_no_link_to_a_file_of_roots(
    place: Place, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    LAID[what](place.top / "transfer_stats", place.valuable)
    append_statistics(place, monkeypatch)
    assert unharmed(place)
