"""Daemons start other programs without forking: a child of a process with gRPC could hang or die."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import slotwise
from slotwise.daemon import spawn

from tests.support import host

SOURCES = Path(slotwise.__file__).parent
#: The only modules that fork: before there is gRPC in the process, or in a program of their own that has none.
FORKS = {
    "master/forkserver.py",
    "starter/runtimes/docker/launch.py",
    "starter/runtimes/vm/emulator.py",
    "starter/sessions/launch.py",
}
#: What makes subprocess and asyncio fork truly.
TRUE_FORK = {"preexec_fn", "user", "group", "extra_groups"}


def spawning(call: ast.Call) -> bool:
    """Whether a call starts a process."""
    name = ast.unparse(call.func)
    return name.startswith("subprocess.") or "create_subprocess" in name or name.endswith("Popen")


def forking(path: Path) -> list[str]:
    """Calls in a source file that fork this process."""
    found: list[str] = []
    source = path.read_text()
    if not any(word in source for word in ("subprocess", "Popen", "fork", "multiprocessing")):
        return found
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in ("os.fork", "os.forkpty", "pty.fork") or name.startswith("multiprocessing."):
            found.append(name)
        if spawning(node):
            found += [f"{name}({k.arg}=)" for k in node.keywords if k.arg in TRUE_FORK or k.arg is None]
    return found


def test_no_daemon_forks() -> None:
    found = {
        str(path.relative_to(SOURCES)): calls for path in sorted(SOURCES.rglob("*.py")) if (calls := forking(path))
    }
    assert found.keys() == FORKS, found


def test_what_would_fork_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text(
        "subprocess.Popen(['a'], user=3)\nawait_(asyncio.create_subprocess_exec('a', **more))\nos.fork()\n"
    )
    found = {"subprocess.Popen(user=)", "asyncio.create_subprocess_exec(None=)", "os.fork"}
    assert set(forking(source)) == found


@host.needs(host.root)
def test_a_program_runs_as_another_account() -> None:
    words = [*spawn.as_account(65534, 65534, (1234,)), *spawn.program(["id"])]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said.startswith("uid=65534")
    assert "1234" in said


def test_a_missing_program_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        spawn.program(["no-such-program", "-x"])


def test_a_daemon_takes_descriptors_and_what_it_starts_does_not() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    code = (
        "import resource, subprocess\n"
        "from slotwise.daemon import spawn\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}))\n"
        "assert spawn.as_started() == []\n"
        "spawn.take_descriptors()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "command = [*spawn.as_started(), 'sh', '-c', 'ulimit -Sn; ulimit -Hn']\n"
        "print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    shown = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    assert said.split("\n")[:3] == [f"({wanted}, {hard})", "256", shown]
