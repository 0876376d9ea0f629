"""Runs tests of HTCondor's on pools of ours: ``python -m tests.peer CHECKOUT [test_x.py ...]``, at the top of the tree.

Each file runs in a directory of its own, with the configuration that HTCondor's test driver would write for it, for at
most LIMIT seconds. As root the tests are run by an account made for them, since jobs of a pool of root's run as
others, which the tests do not suppose. Exit status 1: something failed that is expected to pass.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from slotwise.errors import SlotwiseError, UsageError

from tests.peer.expected import files, table
from tests.peer.outcomes import Outcome, Record, is_as_expected, outcomes, summary
from tests.support.accounts import host_users
from tests.support.open_installation import opened

ROOT = Path(__file__).resolve().parents[2]
_HARNESS = Path(__file__).with_name("harness")
#: Beside a test file, what test files import or start.
_BESIDE = (
    "ornithology",
    "conftest.py",
    "libcmr.py",
    "libcontainer.py",
    "simplehttpwrapper.py",
    "miniserver.py",
    "dagman_recovery_utils.py",
    "x_job_filexfer_stream.pl",
)
#: What HTCondor's test driver writes; NAMES, where the commands are, and EVENTS, which the plugin reads, are ours.
_CONFIGURATION = """
LOCAL_DIR = {run}/local_dir
LOCAL_CONFIG_DIR = $(LOCAL_DIR)/config.d
use security: user_based
use role: personal
CONDOR_HOST = $(FULL_HOSTNAME)
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_MIN_INTERVAL = 1
SCHEDD_INTERVAL = 1
SCHEDD_MIN_INTERVAL = 1
MAIL = /bin/true
SENDMAIL = /bin/true
LOCAL_CONFIG_FILE = {run}/condor_config.local
DOCKER_PERFORM_TEST = false
DAEMON_SHUTDOWN = time() - DaemonStartTime > 600
JAVA =
BIN = {names}
EVENT_LOG = $(LOCAL_DIR)/peer_events
{asked}
"""
#: A package that some of the files import.
_SERVER = "pytest_httpserver"
#: Seconds that pytest may take to end its pools once it is told to.
_GOODBYE_S = 25


def asked(text: str) -> str:
    """The knobs that a test file asks the driver for, in a comment or string of its own."""
    found = re.search(r'<<CONDOR_TESTREQ_CONFIG\s*\n(.*?)\n\s*(?:"""|CONDOR_TESTREQ_CONFIG)', text, re.DOTALL)
    return "\n".join(line.strip() for line in found[1].splitlines()) if found else ""


class Suite:
    """Runs files in turn, some at a time."""

    def __init__(
        self, tests: Path, work: Path, logs: Path, *, user: tuple[str, int, int] | None, limit_s: float
    ) -> None:
        self._tests = tests
        self._work = work
        self._logs = logs
        self._user = user
        self._limit_s = limit_s
        names = subprocess.run(
            [ROOT / ".venv/bin/slotwise", "condor-names"], capture_output=True, text=True, check=True
        )
        self._names = names.stdout.strip()
        #: Files that were ended at the limit.
        self.late: list[str] = []

    async def run(self, name: str) -> list[Outcome]:
        """Run one file; what came of its functions."""
        place = self._prepare(name)
        log_path = self._logs / f"{name}.log"
        with log_path.open("wb") as log:
            tests = await asyncio.create_subprocess_exec(
                *self._words(place, name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(place),
                cwd=place,
                start_new_session=True,
            )
            try:
                await asyncio.wait_for(tests.wait(), self._limit_s)
            except TimeoutError:
                self.late.append(name)
                await _end(tests)
        _kill_what_is_left(place)
        records = place / "records.jsonl"
        lines = records.read_bytes().splitlines() if records.exists() else []
        found = outcomes(name, [msgspec.json.decode(line, type=Record) for line in lines])
        said = [outcome.said for outcome in found]
        print(f"{name}: {said.count('pass')} pass, {said.count('fail')} fail, {said.count('skip')} skipped", flush=True)
        return found

    def _prepare(self, name: str) -> Path:
        place = self._work / name.removeprefix("test_").removesuffix(".py")
        for folder in ("local_dir/config.d", "home", "t", "tmp"):
            (place / folder).mkdir(parents=True)
        for beside in (*_BESIDE, name):
            source = self._tests / beside
            if source.is_dir():
                shutil.copytree(source, place / beside)
            elif source.exists():
                shutil.copy(source, place / beside)
        for plugin in _HARNESS.glob("*.py"):
            shutil.copy(plugin, place / plugin.name)
        (place / "condor_config.local").touch()
        text = _CONFIGURATION.format(run=place, names=self._names, asked=asked((self._tests / name).read_text()))
        (place / "base_config").write_text(text)
        if self._user is not None:
            for path in (place, *place.rglob("*")):
                os.lchown(path, self._user[1], self._user[2])
        return place

    def _words(self, place: Path, name: str) -> list[str]:
        words: list[str] = []
        if self._user is not None:
            prefix = opened()
            if prefix is None:
                raise UsageError(f"other accounts cannot enter the directory of {sys.base_prefix}, where Python is")
            drop = ["setpriv", f"--reuid={self._user[1]}", f"--regid={self._user[2]}", "--clear-groups", "--"]
            words = [*prefix, *drop]
        plugins = ["-p", "no:cacheprovider", "-p", "slotwise_harness"]
        python = [str(ROOT / ".venv/bin/python"), "-m", "pytest", *plugins, "-q", "-rA"]
        return [*words, *python, "--base-test-dir", str(place / "t"), name]

    def _environment(self, place: Path) -> dict[str, str]:
        user = self._user[0] if self._user is not None else os.environ.get("USER", "")
        modules = [place, ROOT / "compat/src", sysconfig.get_paths()["purelib"]]
        return {
            "HOME": f"{place}/home",
            "TMPDIR": f"{place}/tmp",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "USER": user,
            "LOGNAME": user,
            "CONDOR_CONFIG": f"{place}/base_config",
            "PATH": f"{self._names}:{ROOT}/.venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            # Jobs of the tests import the modules, too, by the host's own Python.
            "PYTHONPATH": ":".join(map(str, modules)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PEER_RECORDS": f"{place}/records.jsonl",
        }


async def _end(tests: asyncio.subprocess.Process) -> None:
    """Have pytest end its pools, or kill it."""
    tests.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(tests.wait(), _GOODBYE_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(tests.pid, signal.SIGKILL)
        await tests.wait()


def _kill_what_is_left(place: Path) -> None:
    """Kill the daemons and jobs of a file's pools that are still there: their environment names its directory."""
    mark = f"{place}/".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


@contextlib.contextmanager
def _account() -> Iterator[tuple[str, int, int] | None]:
    """Who runs the tests: the caller, or instead of root an account that is made for them."""
    if os.geteuid() != 0:
        yield None
        return
    with host_users("peer") as (user,):
        yield user.name, user.uid, user.gid


async def _all(suite: Suite, names: Sequence[str], jobs: int) -> dict[str, list[Outcome]]:
    turns = asyncio.Semaphore(jobs)

    async def one(name: str) -> list[Outcome]:
        async with turns:
            return await suite.run(name)

    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


def main() -> int:
    """Run the files, print the summary; the exit status."""
    parser = argparse.ArgumentParser(description="Run tests of HTCondor's on pools of Slotwise.")
    parser.add_argument("checkout", type=Path, help="HTCondor's sources")
    parser.add_argument("files", nargs="*", help="test files (default: those of tests/peer/functions.tsv)")
    parser.add_argument("--jobs", type=int, default=3, help="files at a time (3)")
    parser.add_argument("--limit", type=float, default=180, help="seconds for each file (180)")
    options = parser.parse_args()
    tests = options.checkout / "src" / "condor_tests"
    if not (tests / "ornithology").is_dir():
        parser.error(f"{tests} has no package ornithology: {options.checkout} is no checkout of HTCondor's sources")
    rows = table()
    logs = ROOT / "build" / "peer"
    logs.mkdir(parents=True, exist_ok=True)
    names = options.files or files(rows)
    if missing := [name for name in names if not (tests / name).is_file()]:
        parser.error(f"there is no {missing[0]} in {tests}")
    if importlib.util.find_spec(_SERVER) is None:
        wanting = [name for name in names if _SERVER in (tests / name).read_text(encoding="utf-8")]
        names = [name for name in names if name not in wanting]
        for name in wanting:
            print(f"{name}: not run, since it wants the package {_SERVER.replace('_', '-')} (install it in .venv)")
    # Sockets below it have short paths, and every account may enter it.
    with (
        tempfile.TemporaryDirectory(prefix="sw-peer-", dir="/tmp", ignore_cleanup_errors=True) as work,
        _account() as user,
    ):
        Path(work).chmod(0o755)
        suite = Suite(tests, Path(work), logs, user=user, limit_s=options.limit)
        try:
            found = asyncio.run(_all(suite, names, options.jobs))
        except SlotwiseError as error:
            parser.error(str(error))
    print("\n".join(summary(rows, found, suite.late)))
    return 0 if is_as_expected(rows, found) else 1


if __name__ == "__main__":
    sys.exit(main())
