"""Becomes a program beside a running job: same user, groups, limits, namespaces, directory and environment.

The starter runs this file in an interpreter of its own (it imports nothing of the package), because joining namespaces
and dropping rights cannot be undone. Arguments: the job's spec file, its process id, 1 when standard input is a
terminal, TERM, shells separated by colons, 1 when the environment is to be that of the process, the working directory
as it is seen from there (empty: the job's), and the command, if any. What it becomes bears the job's marker in its
environment, so that it ends with the job's family.

The process is opened once, and must be of the job's user: a job decides when its processes end, and an id that another
user's process has got meanwhile would show that one's environment and files. What it becomes gains no more rights by
programs that have some than the process: runtimes that give a job its own /etc and setuid programs rely on that.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import shutil
import sys
import termios
from collections.abc import Iterable
from pathlib import Path

#: The keeper's instructions, in the control directory of a run (see `keeper_spec`).
SPEC = "spec"
_CAP_SYS_ADMIN = 21
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 23, 24, 38
_NAMESPACES = ("ipc", "pid", "mnt")  # the last takes the paths of the others away


def read_fields(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Key and value of each field of a spec file."""
    with open(path, "rb") as file:
        texts = file.read().decode("utf-8", "surrogateescape").split("\0")
    pairs = (text.partition("=") for text in texts if text)
    return [(key, value) for key, _, value in pairs]


class Spec:
    """The fields that matter here."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._fields = list(fields)

    def all(self, key: str) -> list[str]:
        """Every value of a key, in order."""
        return [value for name, value in self._fields if name == key]

    def one(self, key: str, default: str = "") -> str:
        """The last value."""
        return (self.all(key) or [default])[-1]


def main(spec_path: str, pid: str, terminal: str, kind: str, shells: str, own: str, cwd: str, *command: str) -> None:
    """Do it all; returns only when something is refused."""
    spec = Spec(read_fields(spec_path))
    if terminal == "1":
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for group in spec.all("cg.join"):
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write("0")
    process, bounds = _open(pid, spec)
    theirs = _environment(process) if own == "1" else {}
    bare_root = os.getuid() == 0 and not _may_join()
    if bare_root:  # which may join no more than the job's user may, as that user
        _bound(bounds)
        _become(spec)
    user_namespace = _enter(process)
    _limit(spec)
    _bound(bounds)
    if not bare_root:
        _become(spec)
    if user_namespace is not None:
        _join("user", user_namespace)
        _bound(bounds)  # it came with all capabilities there
    env = theirs or dict(text.partition("=")[::2] for text in spec.all("env"))
    env["_CONDOR_JOB_PIDS"] = pid
    if kind:
        env["TERM"] = kind
    env.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    os.umask(int(spec.one("umask", "18")))
    os.chdir(cwd or spec.one("cwd", "/"))
    shell = next((found for name in shells.split(":") if (found := shutil.which(name, path=env["PATH"]))), "/bin/sh")
    env["SHELL"] = shell
    words = [shell, "-c", " ".join(command)] if command else [shell, "-i"] if terminal == "1" else [shell]
    os.execve(shell, words, env)


def _open(pid: str, spec: Spec) -> tuple[int, dict[str, str]]:
    """A descriptor of the process's directory in /proc, which stands for no other process when that one has ended, and
    what its ``status`` says.

    :raises PermissionError: when it is not the job's user's.
    """
    process = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    lines = _read(process, "status").splitlines()
    status = {key: text.strip() for key, _, text in (line.partition(":") for line in lines)}
    uid = spec.one("user", f"{os.getuid()}").partition(":")[0]
    if set(status["Uid"].split()) != {uid}:
        raise PermissionError(f"process {pid} is not, or not any more, one of the job's")
    return process, status


def _read(process: int, name: str) -> str:
    """A file of a process, by its directory's descriptor."""
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=process), "rb") as file:
        return file.read().decode("utf-8", "surrogateescape")


def _environment(process: int) -> dict[str, str]:
    """The environment that a process began with."""
    texts = _read(process, "environ").split("\0")
    return dict(text.partition("=")[::2] for text in texts if "=" in text)


def _enter(process: int) -> int | None:
    """Join the job's namespaces where they differ from ours. A process namespace is for children, so one is made.

    A user namespace is joined first by an ordinary user, as it gives the right to join the others. Root joins it when
    it has become the user (its descriptor is returned): the namespace need not know root.
    """
    opened: dict[str, int] = {}
    for name in ("user", *_NAMESPACES):
        theirs = os.open(f"ns/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
        if os.fstat(theirs).st_ino != Path(f"/proc/self/ns/{name}").stat().st_ino:
            opened[name] = theirs
    by_root = os.getuid() == 0
    if not by_root and "user" not in opened:
        return None
    for name, fd in opened.items():
        if not (by_root and name == "user"):
            _join(name, fd)
    if "pid" in opened:
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    return opened.get("user") if by_root else None


def _may_join() -> bool:
    """Whether this process may join any namespace: whether it has CAP_SYS_ADMIN."""
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> _CAP_SYS_ADMIN & 1)


def _join(name: str, fd: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot join the job's {name} namespace: {os.strerror(number)}")


def _limit(spec: Spec) -> None:
    for text in spec.all("rlimit"):
        number, soft, hard = (int(part) for part in text.split(":"))
        _, present = resource.getrlimit(number)
        ceiling = present if present != resource.RLIM_INFINITY else 2**64 - 1
        hard = min(hard, ceiling)
        shown = [resource.RLIM_INFINITY if amount >= 2**63 else amount for amount in (min(soft, hard), hard)]
        resource.setrlimit(number, (shown[0], shown[1]))
    if int(spec.one("nice", "0")):
        os.nice(int(spec.one("nice")))


def _bound(status: dict[str, str]) -> None:
    """Keep from gaining what a process of this ``status`` cannot gain by starting programs that have rights."""
    libc = ctypes.CDLL(None, use_errno=True)
    theirs, number = int(status["CapBnd"], 16), 0
    while (has := libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0)) >= 0:
        if has and not theirs >> number & 1:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # refused to whoever has none to give up
        number += 1
    if int(status.get("NoNewPrivs", "0")) and libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot give up gaining rights as the job did")


def _become(spec: Spec) -> None:
    """Drop to the job's user. Never root."""
    if user := spec.one("user"):
        uid, gid = (int(part) for part in user.split(":"))
        groups = [int(group) for group in (*spec.all("group"), *spec.all("tracking_gid"))]
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if 0 in os.getresuid():
        raise PermissionError("a shell beside a job never runs as root")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"slotwise: {error}\n")
        sys.exit(255)
