"""Real clients of HTCondor on a personal pool, with the modules of compat/ and HTCondor's names of the commands.

`make test-clients` installs them into .clients; a client that is not there is skipped by name.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import slotwise

from tests.support import host
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

_ROOT = Path(__file__).resolve().parents[2]
_PYTHON = _ROOT / ".clients" / "bin" / "python"
_PROGRAMS = Path(__file__).parent / "programs"
_COMPAT = _ROOT / "compat" / "src"
_NOBODY = 65534
#: Jobs of root's run as nobody, with whom no files are shared: those that could run in place are made to do so, as they
#: do for any other account. No directory is hidden from them, wherever this checkout lies.
_CONFIG = """\
NUM_CPUS = 8
MEMORY = 8192
RUNBENCHMARKS = False
MOUNT_UNDER_SCRATCH =
"""
_IN_PLACE = """\
JOB_TRANSFORM_NAMES = InPlace
JOB_TRANSFORM_InPlace @=end
   REQUIREMENTS Owner == "root" && ShouldTransferFiles == "IF_NEEDED"
   SET ShouldTransferFiles "NO"
@end
"""

#: For a program as a whole, on a loaded machine; each of its waits has a limit of its own (programs/waiting.py).
PROGRAM_S = 5 * LIMIT_S

#: A frame of our modules or commands in a traceback; clients print some of their own (distributed's scheduler does as a
#: worker leaves).
_OURS_IN_TRACEBACK = re.compile(
    rf'^\s*File "(?:{re.escape(str(_COMPAT))}|.*/(?:modules|site-packages)/slotwise)/', re.MULTILINE
)

#: Runs a program of programs/, by its name, with the client whose module it needs; ``as_job`` under the account that
#: the jobs have, for clients that use the modules alone and share files with their jobs.
RunClient = Callable[..., None]


def _why_not(module: str) -> str:
    """Why the client with this module cannot run here; empty when it can."""
    if not _PYTHON.exists():
        return "make test-clients installs it"
    if not _COMPAT.exists():
        return "it needs the sources of compat"
    words = [str(_PYTHON), "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"]
    try:
        if subprocess.run(words, user=_account()).returncode:
            return "make test-clients installs it"
    except PermissionError:
        return f"the account nobody, as whom jobs of root's run, cannot start {_PYTHON}"
    return ""


def _account() -> int | None:
    """The account of the jobs, where it is not this process's."""
    return _NOBODY if os.geteuid() == 0 else None


@pytest.fixture(scope="session")
def run_client() -> Iterator[RunClient]:
    """One pool for all clients that run in this process."""
    host.need(host.launcher)
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as text:
        directory = Path(text)
        directory.chmod(0o755)
        pool = Pool(directory / "p", _CONFIG + (_IN_PLACE if os.geteuid() == 0 else ""))
        started: list[str] = []

        def run(program: str, module: str, *, as_job: bool = False) -> None:
            if reason := _why_not(module):
                pytest.skip(f"no {module}: {reason}")
            if not started:
                pool.up()
                started.append(pool.run("condor-names", "--in", str(directory / "names")).stdout.strip())
                (directory / "modules").mkdir()
                (directory / "modules" / "slotwise").symlink_to(Path(slotwise.__file__).parent)
            work = directory / program
            work.mkdir()
            work.chmod(0o777)
            env = pool.env | {
                "PATH": f"{started[0]}:{_PYTHON.parent}:/usr/bin:/bin",
                "PYTHONPATH": f"{_COMPAT}:{directory / 'modules'}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "HOME": str(work),
                "SLOTWISE_TEST_LIMIT_S": f"{2 * LIMIT_S:g}",
            }
            account = _account() if as_job else None
            outputs = directory / f"{program}.out", directory / f"{program}.err"
            with outputs[0].open("w") as out, outputs[1].open("w") as err:
                try:
                    status: int | str = subprocess.run(
                        [str(_PYTHON), str(_PROGRAMS / f"{program}.py")],
                        env=env, cwd=work, stdout=out, stderr=err, timeout=PROGRAM_S, user=account, group=account,
                        extra_groups=None if account is None else [], check=False,
                    ).returncode  # fmt: skip
                except subprocess.TimeoutExpired:
                    status = f"not done within {PROGRAM_S:.0f} s"
            said, complained = (path.read_text(errors="replace") for path in outputs)
            assert status == 0 and said.endswith("done\n"), (
                f"{status}\n{said[-3000:]}\n{complained[-5000:]}\n{pool.jobs()}\n{pool.logs()}"
            )
            assert not _OURS_IN_TRACEBACK.search(complained), complained[-5000:]

        try:
            yield run
            if started:
                pool.down()
        finally:
            if started:
                pool.destroy()
