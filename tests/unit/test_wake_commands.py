"""The guide's examples of ROOSTER_WAKEUP_CMD, run as they stand: IPMI, Redfish and a cloud, with stand-ins."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.rooster.waking import wake

from tests.support import host

GUIDE = Path(__file__).parents[2] / "docs/guides/power.md"
#: Notes its arguments, and says what it is told to say.
STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" > "${0%/*}/arguments"
exit ${STATUS:-0}
"""


def example(directory: Path, word: str) -> Path:
    """The script of the guide that has this word in it, as a file."""
    scripts = re.findall(r"```sh\n(#!/bin/sh\n.*?)```", GUIDE.read_text(), re.DOTALL)
    (found,) = [text for text in scripts if word in text]
    path = directory / "wake"
    path.write_text(found)
    path.chmod(0o755)
    return path


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in front of PATH, for programs that are not there."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def program(directory: Path, name: str) -> None:
    path = directory / name
    path.write_text(STAND_IN)
    path.chmod(0o755)


def machine(**attributes: object) -> ClassAd:
    return ClassAd({"Name": "slot1@node7", "Machine": "node7", "Offline": True, **attributes})


async def test_ipmi(stand_in: Path) -> None:
    program(stand_in, "ipmitool")
    command = [str(example(stand_in, "ipmitool"))]
    assert await wake(machine(Controller="bmc-7.example.org"), command)
    assert (stand_in / "arguments").read_text().split("\n")[:-1] == [
        "-I", "lanplus", "-H", "bmc-7.example.org", "-U", "rooster", "-f", "/etc/slotwise/bmc-password",
        "chassis", "power", "on",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["$(touch hacked)", "a b", "-f/etc/shadow", "bmc; reboot", "", 'x" ; y'])
@pytest.mark.parametrize("word", ["ipmitool", "curl", "aws"])
async def test_an_ad_that_says_something_else_calls_nothing(stand_in: Path, word: str, name: str) -> None:
    program(stand_in, word)
    command = [str(example(stand_in, word))]
    assert not await wake(machine(Controller=name, InstanceId=name), command)
    assert not (stand_in / "arguments").exists() and not (stand_in / "hacked").exists()


async def test_a_program_that_fails_is_a_call_that_failed(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(stand_in, "ipmitool")
    monkeypatch.setenv("STATUS", "1")
    assert not await wake(machine(Controller="bmc"), [str(example(stand_in, "ipmitool"))])


async def test_a_cloud(stand_in: Path) -> None:
    program(stand_in, "aws")
    assert await wake(machine(InstanceId="i-0abc123def4567890"), [str(example(stand_in, "aws"))])
    assert (stand_in / "arguments").read_text().split() == [
        "ec2", "start-instances", "--instance-ids", "i-0abc123def4567890", "--output", "text",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ Redfish


@dataclass
class Controller:
    """A management controller: its system is off until it is told to be on."""

    port: int
    power: str = "Off"
    asked: list[tuple[str, str | None, object]] = field(default_factory=list)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    """The part of Redfish that a reset needs, over TLS."""
    host.need(host.programs("curl", "openssl"))
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=DNS:localhost", "-keyout", "bmc.key", "-out", "bmc.pem"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.asked.append((self.path, self.headers["Authorization"], body))
            is_known = self.headers["Authorization"] == "Basic cm9vc3RlcjpzZWNyZXQ="  # rooster:secret
            reset = self.path == "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
            if is_known and reset and body == {"ResetType": "On"}:
                found.power = "On"
            self.send_response(204 if found.power == "On" else 401 if not is_known else 400)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "bmc.pem", tmp_path / "bmc.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        found = Controller(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("password", "power"), [("secret", "On"), ("wrong", "Off")])
async def test_redfish(
    tmp_path: Path, controller: Controller, monkeypatch: pytest.MonkeyPatch, password: str, power: str
) -> None:
    script = example(tmp_path, "curl")
    (tmp_path / "redfish.curl").write_text(f'user = "rooster:{password}"\ncacert = "{tmp_path}/bmc.pem"\n')
    assert "/etc/slotwise/redfish.curl" in script.read_text()
    script.write_text(script.read_text().replace("/etc/slotwise/redfish.curl", f"{tmp_path}/redfish.curl"))
    assert await wake(machine(Controller=f"localhost:{controller.port}"), [str(script)]) is (power == "On")
    assert controller.power == power
    ((path, _, body),) = controller.asked
    assert (path, body) == ("/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", {"ResetType": "On"})
