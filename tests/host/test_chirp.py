"""Chirp under a real starter, with HTCondor's own client where it is installed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.jobs.chirp import main
from slotwise.errors import HostError, PeerUnavailableError
from slotwise.starter.io_proxy.listener import _OF_ACCOUNT

from tests.support.accounts import host_users
from tests.support.starter_bench import StarterBench, starter_bench

pytestmark = pytest.mark.host


@pytest_asyncio.fixture
async def talking(tmp_path: Path) -> AsyncIterator[tuple[StarterBench, str, Path]]:
    """A starter with a job that may speak; its run id, and the file with address and secret."""
    async with starter_bench(STARTER_INITIAL_UPDATE_INTERVAL=1, STARTER_UPDATE_INTERVAL=1) as bench:
        files = bench.root / "files"
        files.mkdir()
        files.chmod(0o777)
        bench.shadow.files = files
        run = bench.submit("/bin/sleep", "600", WantIOProxy=True, ChirpColour="red")
        await bench.running(run)
        (config,) = bench.execute.glob("dir_*/htcondor/.chirp.config")
        yield bench, run, config
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        await bench.ended(run)


async def say(config: Path, *words: str, stdin: str = "") -> str:
    """Run the command as the job would; what it prints."""
    out = io.StringIO()
    env = {"_CONDOR_CHIRP_CONFIG": str(config)}
    made = Invocation(cwd=config.parent, env=env, stdin=io.StringIO(stdin), stdout=out, stderr=out)
    assert await asyncio.to_thread(main, list(words), made) == 0
    return out.getvalue()


async def test_the_command_uses_attributes_log_and_files(
    talking: tuple[StarterBench, str, Path], tmp_path: Path
) -> None:
    bench, run, config = talking
    shadow = bench.shadow.runs[run]
    assert await say(config, "get_job_attr", "Owner") == "ann\n"
    await say(config, "set_job_attr", "Progress", "3 + 4")
    assert shadow.ad["Progress"] == "3 + 4"
    with pytest.raises(HostError, match="does not exist"):
        await say(config, "get_job_attr", "Nothing")
    await say(config, "ulog", "half way there")
    assert "ulog" in shadow.asked
    local = tmp_path / "local"
    local.write_bytes(bytes(range(256)) * 5000)
    await say(config, "put", str(local), "remote file")
    assert (bench.shadow.files / "remote file").read_bytes() == local.read_bytes()
    await say(config, "put", "-mode", "wa", "-", "remote file", stdin="tail")
    back = tmp_path / "back"
    await say(config, "fetch", "remote file", str(back))
    assert back.read_bytes() == local.read_bytes() + b"tail"
    assert await say(config, "getdir", ".") == "remote file\n"
    assert f"{256 * 5000 + 4} bytes" in await say(config, "stat", "remote file")
    await say(config, "remove", "remote file")
    assert not list(bench.shadow.files.iterdir())
    with pytest.raises(HostError, match="does not exist"):
        await say(config, "fetch", "remote file", "-")


async def test_delayed_attributes_go_with_the_next_update(talking: tuple[StarterBench, str, Path]) -> None:
    bench, run, config = talking
    assert await say(config, "get_job_attr_delayed", "ChirpColour") == '"red"\n'
    await say(config, "set_job_attr_delayed", "ChirpSteps", "12")
    assert await say(config, "get_job_attr_delayed", "ChirpSteps") == "12\n"
    assert bench.shadow.runs[run].asked == []
    await bench.eventually(
        lambda: any(ad.eval("ChirpSteps") == 12 for ad in bench.shadow.runs[run].updates), "the update brings it"
    )
    with pytest.raises(HostError, match="not permitted"):
        await say(config, "set_job_attr_delayed", "Other", "1")
    with pytest.raises(HostError, match="invalid"):
        await say(config, "set_job_attr_delayed", "ChirpBad", "1 +")


async def test_a_restarted_starter_listens_again(talking: tuple[StarterBench, str, Path]) -> None:
    bench, run, config = talking
    await bench.kill_9()
    await bench.start()
    await bench.eventually(lambda: bench.shadow.runs[run].accepted >= 2, "the run says hello again")
    assert await say(config, "get_job_attr", "Owner") == "ann\n"


async def test_who_has_no_secret_or_did_not_ask_for_it_gets_nothing(talking: tuple[StarterBench, str, Path]) -> None:
    bench, _run, config = talking
    assert config.stat().st_mode & 0o077 == 0
    host, port, _secret = config.read_text().split()
    reader, writer = await asyncio.open_connection(host, int(port))
    for line, answer in ((b"get_job_attr Owner", b"-1"), (b"cookie wrong", b"-1"), (b"unlink x", b"-1"), (b"", b"-8")):
        writer.write(line + b"\n")
        assert await reader.readline() == answer + b"\n"
    writer.close()
    quiet = bench.submit("/bin/sleep", "600")
    await bench.running(quiet)
    others = [path for path in bench.execute.glob("dir_*/htcondor/.chirp.config") if path != config]
    with pytest.raises(HostError, match="not permitted"):
        await say(others[0], "get_job_attr", "Owner")
    await say(others[0], "set_job_attr_delayed", "ChirpX", "1")
    with pytest.raises(PeerUnavailableError):
        await say(config.with_name("nowhere"), "ulog", "x")
    assert bench.startd is not None
    bench.startd.command(quiet, kill={"fast": True})
    await bench.ended(quiet)


#: Connects to a port as often as it may, keeps all connections, and says when it has them.
_FLOOD = """
import resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
made = []
for _ in range(min(most - 50, 2000)):
    made.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60))
    made[-1].sendall(b"cookie ")
print(len(made), flush=True)
sys.stdin.read()
"""


async def test_an_account_that_floods_the_port_keeps_no_job_from_its_access_point(
    talking: tuple[StarterBench, str, Path], root: None
) -> None:
    bench, _run, config = talking
    assert bench.process is not None
    port = config.read_text().split()[1]
    descriptors = Path(f"/proc/{bench.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    with host_users("mallory", "carol") as accounts, contextlib.ExitStack() as stack:
        for who in accounts:
            drop = ["setpriv", "--reuid", str(who.uid), "--regid", str(who.gid), "--clear-groups"]
            words = [*drop, "/usr/bin/python3", "-c", _FLOOD, port]
            flood = stack.enter_context(
                subprocess.Popen(words, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(flood.kill)
            assert flood.stdout is not None
            line = await asyncio.to_thread(flood.stdout.readline)
            assert int(line) > 500
        assert await say(config, "get_job_attr", "Owner") == "ann\n"
        await bench.eventually(
            lambda: len(list(descriptors.iterdir())) <= before + 2 * _OF_ACCOUNT + 16, "the rest is closed"
        )
        another = bench.submit("/bin/true", WantIOProxy=True)
        assert (await bench.ended(another)).code == 0


async def test_htcondors_client_is_served(talking: tuple[StarterBench, str, Path], tmp_path: Path) -> None:
    bench, run, config = talking
    try:
        htchirp: Any = importlib.import_module("htcondor2.htchirp")
    except ImportError:
        pytest.skip("needs HTCondor's bindings (htcondor)")
    host, port, secret = config.read_text().split()
    (tmp_path / "in").write_bytes(b"x" * 300_000)

    def speak() -> None:
        with htchirp.HTChirp(host, int(port), cookie=secret) as client:
            client.put(str(tmp_path / "in"), "copy")
            client.fetch("copy", str(tmp_path / "out"))
            assert client.read("copy", 7, 3) == b"x" * 7
            client.putfile(str(tmp_path / "in"), "second")
            assert client.getfile("second", str(tmp_path / "out2")) == 300_000
            assert client.stat("second")["size"] == 300_000
            client.mkdir("d")
            client.rename("second", "d/third")
            assert sorted(client.getdir(".")) == ["copy", "d"]
            client.unlink("d/third")
            client.rmdir("d")
            client.remove("copy")
            client.set_job_attr("Step", "5")
            assert client.get_job_attr("Step") == "5"
            client.ulog("said through chirp")
            client.set_job_attr_delayed("ChirpStep", "6")
            assert client.get_job_attr_delayed("ChirpStep") == "6"

    await asyncio.to_thread(speak)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "out2").read_bytes() == b"x" * 300_000
    assert list(bench.shadow.files.iterdir()) == []
    assert bench.shadow.runs[run].asked.count("ulog") == 1
