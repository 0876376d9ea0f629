"""A starter process for tests, between a pretended startd and a pretended shadow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import slotwise
from slotwise.classad import ClassAd
from slotwise.home import PoolHome
from slotwise.table import pack_ads
from slotwise.wire import address
from slotwise.wire.credential import bearer
from slotwise.wire.gen import schedd_pb2, starter_pb2
from slotwise.wire.keys import STARTER, SigningKey, mint

from tests.support import host, nursery
from tests.support.open_installation import interpreter
from tests.support.starter_neighbours import PretendedShadow, PretendedStartd, ShadowRun
from tests.support.waiting import LIMIT_S, until

#: Where the package that is tested lies: the starter must be of the same.
_PYTHON = Path(slotwise.__file__).resolve().parents[1]
_TESTS = Path(__file__).resolve().parents[2]
_STARTER = ["-m", "slotwise", "daemon", "starter"]


def job_python() -> str:
    """An interpreter that every account may start."""
    host.need(host.open_python)
    return interpreter()


class StarterBench:
    """A starter process with its neighbours."""

    def __init__(
        self, root: Path, knobs: dict[str, Any], as_user: int | None = None, groups: tuple[Path, ...] = ()
    ) -> None:
        self.root = root
        self.as_user = as_user
        #: Cgroups that the starter is put into before it starts.
        self.groups = groups
        self.home = PoolHome(root)
        self.home.create()
        self.config = root / "condor_config"
        self.configure(**knobs)
        self.shadow = PretendedShadow(root / "run" / "shadow.sock")
        self.startd: PretendedStartd | None = None
        #: What the starter's interpreter runs.
        self.program = _STARTER
        self.process: subprocess.Popen[bytes] | nursery.Born | None = None
        self._serial = 0

    def configure(self, **knobs: Any) -> None:
        """Write the configuration."""
        self.config.write_text("".join(f"{name} = {value}\n" for name, value in knobs.items()))

    @property
    def execute(self) -> Path:
        """Where runs have their directories."""
        return self.home.execute

    async def start(self) -> None:
        """Start the starter and join it as its startd."""
        env = {
            **os.environ,
            "SLOTWISE_HOME": str(self.root),
            "CONDOR_CONFIG": str(self.config),
            "PYTHONPATH": f"{_PYTHON}:{_TESTS}",
        }
        # As a master would start it once more: where the former start has moved the daemons, if it has.
        leaves = [next(iter(group.glob("*-daemons")), group) for group in self.groups]
        with open(self.root / "stderr", "ab") as said:
            if self.as_user is None and self.program == _STARTER:
                self.process = nursery.begin(
                    _STARTER[2:], env, Path.cwd(), (said.fileno(), said.fileno()), groups=leaves
                )
            else:
                command = [] if self.as_user is None else self._as_user()
                joins = "".join(f"echo $$ > {group}/cgroup.procs && " for group in leaves)
                command = ["/bin/sh", "-c", f'{joins} exec "$@"', "sh", *command] if leaves else command
                self.process = subprocess.Popen(
                    [*command, sys.executable, *self.program], env=env, stdin=subprocess.DEVNULL, stderr=said
                )
        await self.eventually(self._answers, "the starter answers")
        await self.join()

    def _as_user(self) -> list[str]:
        """A command that runs the rest as the user, to whom the pool's directory is given. The interpreter of the
        tests may lie in a closed home, so the right to read anything is kept; no right to write is."""
        host.need(host.programs("setpriv"))
        self._give_away()
        return self.as_account()

    def as_account(self) -> list[str]:
        """Words that run a program with the starter's account and rights."""
        if self.as_user is None:
            return []
        user = str(self.as_user)
        keep = ["--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search"]
        return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", *keep]

    def _give_away(self) -> None:
        subprocess.run(["chown", "-R", f"{self.as_user}:{self.as_user}", str(self.root)], check=True)

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError((self.root / "stderr").read_text() + self.log())
        with contextlib.suppress(Exception):
            return address.lookup(self.home, "starter").pid == self.process.pid
        return False

    async def join(self) -> None:
        """Open the startd's stream."""
        target = address.lookup(self.home, "starter").target
        key = SigningKey.read(self.home.run / "starter.pem")
        # Made by hand: the starter may run as another user, to whose socket a daemon of root's would show nothing.
        metadata = bearer(mint(key, "condor@startd", [STARTER], issued_at=time.time(), lifetime_s=3600))
        self.startd = PretendedStartd(target, metadata, self.shadow.changed)

    async def rejoin(self) -> None:
        """Open the startd's stream once more."""
        if self.startd is not None:
            await self.startd.close()
        await self.join()

    async def kill_9(self) -> None:
        """Kill the starter without warning."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.startd is not None:
            await self.startd.close()
            self.startd = None

    async def stop(self) -> None:
        """Stop all, in the order of `slotwise down`."""
        if self.startd is not None:
            await self.startd.close()
        if self.process is not None and self.process.poll() is None:
            await asyncio.sleep(0)
            self.process.terminate()
            try:
                await asyncio.get_running_loop().run_in_executor(None, self.process.wait, LIMIT_S)
                assert self.process.returncode == 0, (self.root / "stderr").read_text() + self.log()[-2000:]
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        await self.shadow.stop()

    def log(self) -> str:
        """The starter's log."""
        path = self.home.log / "StarterLog"
        return path.read_text() if path.exists() else ""

    def submit(
        self,
        *argv: str,
        inputs: dict[str, bytes | tuple[bytes, int]] | None = None,
        slot: dict[str, Any] | None = None,
        lease_s: int = 600,
        **ad: Any,
    ) -> str:
        """Start a job; returns its run id."""
        assert self.startd is not None
        self._serial += 1
        run_id = f"{self._serial}.0#1"
        quoted = " ".join("'" + word.replace("'", "''") + "'" for word in argv[1:])
        job = {
            "ClusterId": self._serial,
            "ProcId": 0,
            "Cmd": argv[0],
            "Arguments": quoted,
            "Owner": "ann",
            "User": "ann@elsewhere",
            "Iwd": "/",
            "ShouldTransferFiles": "YES",
            "TransferExecutable": False,
            "Out": "out.txt",
            "Err": "err.txt",
            **ad,
        }
        files = {name: data if isinstance(data, tuple) else (data, 0o644) for name, data in (inputs or {}).items()}
        self.shadow.runs[run_id] = ShadowRun(job, files)
        machine = {
            "Name": f"slot1_{self._serial}@test",
            "Cpus": 1,
            "Memory": 512,
            "Disk": 100_000,
            **(slot or {}),
        }
        start = starter_pb2.StartJob(
            job_ad=pack_ads([job]),
            slot_ad=pack_ads([machine]),
            slot_name=str(machine["Name"]),
            run_token="secret",
            shadow_address=self.shadow.address,
            lease_s=lease_s,
        )
        self.startd.command(run_id, start=start)
        return run_id

    async def eventually(self, what: Callable[..., Any], words: str, *, limit_s: float = LIMIT_S) -> Any:
        """Wait until ``what`` gives something true; it is looked at after every message, too."""
        log = self.log
        return await until(what, words, limit_s=limit_s, told=lambda: log()[-3000:], changed=self.shadow.changed)

    async def running(self, run_id: str) -> schedd_pb2.RunStarted:
        """Wait until the job runs."""
        found = await self.eventually(lambda: self.shadow.runs[run_id].started, f"{run_id} runs")
        assert isinstance(found, schedd_pb2.RunStarted)
        return found

    async def ended(self, run_id: str, *, limit_s: float = LIMIT_S) -> schedd_pb2.RunEnded:
        """Wait for the end of a run."""
        found = await self.eventually(lambda: self.shadow.runs[run_id].ended, f"{run_id} ends", limit_s=limit_s)
        assert isinstance(found, schedd_pb2.RunEnded)
        return found

    async def gone(self, run_id: str) -> starter_pb2.JobGone:
        """Wait until the startd has heard that the slot is free."""

        def heard() -> Any:
            return self.startd.of(run_id, "gone") if self.startd else None

        found = (await self.eventually(heard, f"{run_id} is gone"))[0]
        assert isinstance(found, starter_pb2.JobGone)
        return found

    async def facts(self) -> ClassAd:
        """What the starter says that this host enforces, now."""
        assert self.startd is not None
        startd = self.startd
        startd.facts = None
        startd.command(facts={})
        found = await self.eventually(lambda: startd.facts, "the starter tells what it enforces")
        assert isinstance(found, ClassAd)
        return found

    async def clean(self) -> None:
        """Wait until no directory of a run is left."""
        await self.eventually(lambda: not list(self.execute.glob("dir_*")), "EXECUTE is empty")

    def output(self, run_id: str, name: str = "_condor_stdout") -> str:
        """An output as text."""
        return self.shadow.runs[run_id].outputs[name].decode()


@contextlib.asynccontextmanager
async def starter_bench(
    as_user: int | None = None, groups: tuple[Path, ...] = (), program: list[str] | None = None, **knobs: Any
) -> AsyncIterator[StarterBench]:
    """A running starter in a directory of its own that other accounts can enter; ``program`` instead of the real."""
    root = Path(tempfile.mkdtemp(prefix="slotwise-", dir="/var/tmp"))
    root.chmod(0o755)
    bench = StarterBench(root, knobs, as_user, groups)
    bench.program = program or bench.program
    try:
        await bench.shadow.start()
        await bench.start()
        yield bench
    finally:
        await bench.stop()
        shutil.rmtree(root, ignore_errors=True)


def processes_below(directory: Path) -> list[int]:
    """Living processes whose working directory lies below ``directory`` (a keeper's own is the root directory)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and str((entry / "cwd").readlink()).startswith(str(directory)):
                found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    """True while the process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def groups_of(directory: Path) -> list[Path]:
    """Cgroups of jobs whose EXECUTE is ``directory``."""
    name = str(directory).replace("/", "_")
    root = Path("/sys/fs/cgroup")
    return [path for at in ("*/htcondor", "htcondor") for path in root.glob(f"{at}/{name}*") if path.is_dir()]


def segments() -> set[str]:
    """Shared segments (System V) of the account that jobs run as, by their ids."""
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[7] == "65534"}
