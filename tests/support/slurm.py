"""A Slurm of one node, this host: its daemons for one test, below a directory of their own."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.support.ports import free_port
from tests.support.waiting import LIMIT_S, block_until

#: Its programs.
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")

#: Files of munge, by option.
_MUNGE = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
_CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.log
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SchedulerType=sched/builtin
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=2000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """The daemons that run."""

    def __init__(self, root: Path, env: dict[str, str]) -> None:
        self.root = root
        self.env = env

    def run(self, *words: str, who: list[str] | None = None, cwd: Path | None = None, **env: str) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run([*(who or []), *words], env=self.env | env, cwd=cwd, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def job(self, number: str) -> dict[str, str]:
        """What Slurm says of a job."""
        words = self.run("scontrol", "show", "job", "-o", number).split()
        return {name: value for name, _, value in (word.partition("=") for word in words)}

    def logs(self) -> str:
        """The ends of the daemons' logs."""
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(self.root.glob("*.log")))


@contextlib.contextmanager
def slurm(root: Path, cpus: int = 1, prefix: Sequence[str] = ()) -> Iterator[Slurm]:
    """Start the daemons, and end them afterwards with the jobs that are left; as root.

    :param prefix: words before the command of the daemon that starts jobs.
    """
    host = socket.gethostname().partition(".")[0]
    for name in ("state", "spool", "munge"):
        (root / name).mkdir()
    (root / "munge").chmod(0o711)
    (root / "munge" / "key").write_bytes(os.urandom(1024))
    (root / "munge" / "key").chmod(0o600)
    ports = {"controller": free_port(), "node": free_port()}
    (root / "slurm.conf").write_text(_CONFIG.format(root=root, host=host, cpus=cpus, **ports))
    env = {
        "SLURM_CONF": str(root / "slurm.conf"),
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        "HOME": str(root),
    }
    found = Slurm(root, env)
    munge = root / "munge"
    commands = [
        ["munged", "--foreground", "--force", *(f"--{name}={munge}/{file}" for name, file in _MUNGE.items())],
        ["slurmctld", "-D", "-c"],
        [*prefix, "slurmd", "-D", "-c"],
    ]
    with (root / "output").open("wb") as output, contextlib.ExitStack() as undo:
        for words in commands:
            running = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            undo.callback(running.wait, LIMIT_S)
            undo.callback(running.terminate)
            if words[0] == "munged":
                _until(lambda: (munge / "socket").exists(), found)
        _until(lambda: "idle" in _asked(["sinfo", "-h", "-o", "%t"], env), found)
        try:
            yield found
        finally:
            _asked(["scancel", "--state=RUNNING"], env)
            _until(lambda: not _asked(["squeue", "-h"], env).strip(), found)


def _asked(words: list[str], env: dict[str, str]) -> str:
    return subprocess.run(words, env=env, capture_output=True, text=True).stdout


def _until(true: Callable[[], bool], slurm: Slurm) -> None:
    output = slurm.root / "output"
    block_until(true, told=lambda: f"{output.read_text(errors='replace')[-1000:]}\n{slurm.logs()}")
