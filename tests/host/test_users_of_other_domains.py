"""A user of another domain has no account at the access point: no file is read or written for it with root's rights."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.errors import HostError
from slotwise.schedd.shadow.chirp import on_files
from slotwise.schedd.transfer.spool_directories import Sandbox
from slotwise.schedd.user_files import proxies
from slotwise.schedd.user_files.owner_rights import SCHEDD
from slotwise.schedd.userlog.planned_text import PlannedText
from slotwise.schedd.userlog.writer import LogSizes, append
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.pool import Pool

pytestmark = [pytest.mark.host, host.needs(host.root)]
WORDS = "only root knows"
_PROXY = Path(__file__).parent.parent / "unit" / "proxy.pem"
_TRUE = "arguments = -c true"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    # Where every account may go: what is out of reach is so for a reason of its own.
    root = Path(tempfile.mkdtemp(prefix="sw-", dir="/var/tmp"))
    root.chmod(0o755)
    pool = Pool(root, "UID_DOMAIN = here\nNUM_CPUS = 2\n")
    (pool.root / "secret").write_text(WORDS)
    (pool.root / "secret").chmod(0o600)
    (pool.root / "closed").mkdir(mode=0o700)
    try:
        pool.up()
        pool.run(
            "token",
            "create",
            "--identity",
            "bob@other.university",
            "--scope",
            "WRITE",
            "--file",
            str(pool.root / "bob.token"),
        )
        yield pool
    finally:
        pool.destroy()
        shutil.rmtree(root, ignore_errors=True)


def ended(pool: Pool, *lines: str) -> tuple[str, str]:
    """The hold reason of bob's job with these lines in its submit file, and what is below the closed directory."""
    text = [
        "executable = /bin/sh",
        "transfer_executable = false",
        "should_transfer_files = YES",
        f"initialdir = {pool.root}",
        *lines,
        "queue",
    ]
    (pool.root / "job.sub").write_text("\n".join(text) + "\n")
    said = pool.run("submit", "job.sub", SLOTWISE_TOKEN_FILE=str(pool.root / "bob.token")).stdout
    cluster = said.split("cluster ")[-1].split(".")[0].strip()
    (ad,) = pool.until(
        "the job is held",
        lambda: [ad for ad in pool.json("q", "-allusers", cluster) if ad["JobStatus"] == 5],
    )
    pool.run("rm", cluster)
    return str(ad["HoldReason"]), " ".join(path.name for path in (pool.root / "closed").iterdir())


@pytest.mark.parametrize(
    "lines",
    [
        [_TRUE, "transfer_input_files = secret"],
        [_TRUE, "input = secret"],
        ["arguments = \"-c 'echo x > made'\"", 'transfer_output_remaps = "made = closed/made"'],
        ["arguments = \"-c 'echo x'\"", "output = closed/out"],
        ["arguments = \"-c 'echo x; sleep 1'\"", "output = closed/out", "stream_output = true"],
        [_TRUE, "log = closed/log"],
    ],
    ids=["input", "stdin", "remap", "output", "stream", "log"],
)
def test_files_of_root_stay_out_of_reach(pool: Pool, lines: list[str]) -> None:
    reason, made = ended(pool, *lines)
    assert "ermission denied" in reason or "cannot" in reason.lower(), reason
    assert not made
    spooled = [path for path in Path(pool.home.root).rglob("*") if path.is_file() and path.stat().st_size < 4096]
    assert not [path for path in spooled if WORDS.encode() in path.read_bytes()]


@pytest.mark.parametrize("operation", ["read", "write", "getdir", "unlink", "mkdir", "rename"])
def test_neither_does_chirp_reach_them(pool: Pool, operation: str) -> None:
    name = "closed" if operation == "getdir" else "closed/x" if operation in ("write", "mkdir") else "secret"
    io = schedd_pb2.RemoteIo(op=operation, name=name, text="stolen", length=100, data=b"x", mode=0o777)
    assert on_files(io, str(pool.root), "", "nobody").error == errno.EACCES
    assert (pool.root / "secret").read_text() == WORDS and not any((pool.root / "closed").iterdir())


def test_neither_do_proxies_logs_and_spooled_files(pool: Pool) -> None:
    proxy = pool.root / "proxy"
    shutil.copy(_PROXY, proxy)
    proxy.chmod(0o600)
    assert proxies.read(str(proxy), SCHEDD, "nobody"), "the schedd itself could"
    assert proxies.read(str(proxy), "", "nobody") == {}
    text = PlannedText(1, str(pool.root / "closed" / "log"), "", 0, "000\n")
    _, (failure,) = append([text], LogSizes())
    assert failure.errno == errno.EACCES
    sandbox = Sandbox(str(pool.root / "closed"), "")
    with pytest.raises(HostError, match="ermission"):
        sandbox.write("x", 0o600, b"x", 0, directory=False)
