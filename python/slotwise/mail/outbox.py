"""Sends mails one after the other, beside the event loop. The edge: processes, sockets, time.

The number of waiting mails, their length, the mails per minute, and the time for one mail are bounded; users take
turns. A mail that cannot be sent is logged and discarded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import smtplib
import socket
import ssl
import stat
from collections import deque
from collections.abc import Mapping

from slotwise.daemon import children
from slotwise.daemon.privileges import account, as_daemon_account
from slotwise.daemon.spawn import program
from slotwise.mail.message import Mail, ProgramCall, as_message, line_of, mail_call, sendmail_call
from slotwise.mail.settings import MailSettings
from slotwise.mail.waiting import WaitingMails

_log = logging.getLogger(__name__)
#: The most mails that wait, and characters in their texts; beyond them, those of the user with most are discarded.
_WAITING_MOST = 10_000
_WAITING_LONGEST = 32 * 1024 * 1024
#: How long a mail program or an SMTP server may take for one mail, in seconds; for each reply of the server, a third.
_PATIENCE_S = 60.0
_MINUTE_S = 60.0
#: Where mail programs are, besides the daemon's own PATH.
_PLACES = "/usr/sbin:/usr/lib:/usr/bin:/sbin:/bin"
#: The longest password, in characters.
_PASSWORD_MOST = 1024
#: How much of a failed program's output is logged, in bytes.
_LOGGED = 500


class CannotSendError(Exception):
    """Why a mail could not be sent, for the log."""


class Outbox:
    """A daemon's outgoing mails. All calls come from the event loop's thread.

    :param env: the daemon's environment; mail programs get its PATH alone.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self.settings = MailSettings()
        self._path = env.get("PATH", os.defpath)
        self._waiting = WaitingMails()
        self._posted = asyncio.Event()
        self._sent_at: deque[float] = deque()
        self._discarded = 0

    def post(self, mail: Mail, whose: str = "") -> None:
        """Send the mail soon; where too many wait, one of the user who has most is discarded.

        :param whose: the user whose job it is about; empty: it is the pool's own.
        """
        discarded = self._waiting.put(mail, whose, _WAITING_MOST, _WAITING_LONGEST)
        if discarded and not self._discarded:
            _log.warning("mails are discarded: %d wait to be sent already", len(self._waiting))
        self._discarded += discarded
        self._posted.set()

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            while True:
                while not self._waiting:
                    if self._discarded:
                        _log.warning("%d mails were discarded", self._discarded)
                        self._discarded = 0
                    self._posted.clear()
                    await self._posted.wait()
                await self._room()
                await self._deliver(self._waiting.take())
        except asyncio.CancelledError:
            if self._waiting:
                _log.warning("the daemon stops: %d mails were not sent", len(self._waiting))
            raise

    async def _room(self) -> None:
        """Wait until another mail may be sent within this minute."""
        clock, sent = asyncio.get_running_loop().time, self._sent_at
        while sent and sent[0] <= clock() - _MINUTE_S:
            sent.popleft()
        if len(sent) >= self.settings.per_minute:
            await asyncio.sleep(sent[len(sent) - self.settings.per_minute] + _MINUTE_S - clock())
        sent.append(clock())

    async def send(self, mail: Mail) -> None:
        """Send a mail at once.

        :raises CannotSendError: no program or server has taken it.
        """
        if self.settings.smtp is not None:
            await asyncio.to_thread(_send_by_smtp, mail, self.settings)
        else:
            await self._call(self._call_for(mail))

    async def _deliver(self, mail: Mail) -> None:
        to = ", ".join(mail.recipients)
        try:
            await self.send(mail)
        except CannotSendError as error:
            _log.warning("could not send mail to %s (%s): %s", to, mail.subject, error)
        except Exception:  # the next mail may do better
            _log.exception("error while sending mail to %s (%s)", to, mail.subject)
        else:
            _log.info("sent mail to %s: %s", to, mail.subject)

    def _call_for(self, mail: Mail) -> ProgramCall:
        """SENDMAIL if that program exists, else MAIL, as in HTCondor."""
        settings, path = self.settings, f"{self._path}:{_PLACES}"
        if settings.sendmail and (found := shutil.which(settings.sendmail, path=path)):
            return sendmail_call(found, mail)
        if settings.program and (found := shutil.which(settings.program, path=path)):
            return mail_call(found, mail)
        raise CannotSendError(
            f"no mail program: neither SENDMAIL = {settings.sendmail or '(empty)'} nor MAIL ="
            f" {settings.program or '(empty)'} can be run; install one, or set SLOTWISE_SMTP_SERVER"
        )

    async def _call(self, call: ProgramCall) -> None:
        words = list(call.words)
        who = as_daemon_account()
        try:
            if who:
                words = [*program(who), *words]
            ended = await children.run_command(
                words, limit_s=_PATIENCE_S, given=call.text, cwd="/", env=self._environment()
            )
        except OSError as error:
            raise CannotSendError(f"could not start {call.words[0]}: {error.strerror or error}") from error
        if ended.timed_out:
            raise CannotSendError(f"{call.words[0]} took longer than {_PATIENCE_S:.0f} s")
        if ended.status:
            raise CannotSendError(f"{call.words[0]}: exit status {ended.status}: {line_of(ended.said[:_LOGGED])}")

    def _environment(self) -> dict[str, str]:
        who = account()
        name = who.name if who is not None else ""
        found = {"PATH": f"{self._path}:{_PLACES}", "LANG": "C.UTF-8"}
        return found | ({"LOGNAME": name, "USER": name} if name else {})


def _send_by_smtp(mail: Mail, settings: MailSettings) -> None:
    """:raises CannotSendError: the server does not accept the mail."""
    assert settings.smtp is not None
    message, server = as_message(mail), settings.smtp
    sender = mail.sender or f"condor@{settings.host}"
    if not mail.sender:
        message["From"] = sender
    place = f"{server[0]}:{server[1]}"
    password = _password(settings.smtp_password_file) if settings.smtp_user else ""
    try:
        with _connected(settings, server) as smtp:
            if settings.smtp_user:
                smtp.login(settings.smtp_user, password)
            refused = smtp.send_message(message, from_addr=sender, to_addrs=list(mail.recipients))
    except (OSError, smtplib.SMTPException, socket.gaierror) as error:
        raise CannotSendError(f"{place}: {line_of(str(error), _LOGGED)}") from error
    if refused:
        raise CannotSendError(f"{place} does not take mail for {', '.join(refused)}")


def _connected(settings: MailSettings, server: tuple[str, int]) -> smtplib.SMTP:
    """A connection to the server, encrypted as the settings say; the server proves its name."""
    patience = _PATIENCE_S / 3
    if settings.smtp_tls == "none":
        return smtplib.SMTP(*server, local_hostname=settings.host, timeout=patience)
    context = ssl.create_default_context()
    if settings.smtp_tls == "tls":
        return smtplib.SMTP_SSL(*server, local_hostname=settings.host, timeout=patience, context=context)
    smtp = smtplib.SMTP(*server, local_hostname=settings.host, timeout=patience)
    try:
        smtp.starttls(context=context)
    except BaseException:
        smtp.close()
        raise
    return smtp


def _password(path: str) -> str:
    """The password in the file.

    :raises CannotSendError: when it cannot be read, or by others as well.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            text = stream.readline(_PASSWORD_MOST).rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        raise CannotSendError(f"SLOTWISE_SMTP_PASSWORD_FILE: {error}") from error
    if mode & 0o077:
        raise CannotSendError(f"SLOTWISE_SMTP_PASSWORD_FILE: others may read {path} (mode {mode:04o}); chmod 600 it")
    return text
