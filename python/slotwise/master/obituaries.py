"""Obituaries: mails to the administrator about daemons that ended by themselves, with HTCondor's texts.

The decision to mail does no I/O; :class:`Obituaries` reads the daemon's log and sends the mail.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from slotwise.config import Config
from slotwise.daemon.privileges import own_files
from slotwise.home import PoolHome
from slotwise.mail.message import framed, line_of, recipients
from slotwise.mail.outbox import Outbox
from slotwise.mail.settings import MailSettings
from slotwise.observe.log import log_file, open_log

_log = logging.getLogger(__name__)
#: HTCondor's exit status of a daemon that must not be restarted.
_NO_RESTART = 99
#: The most consecutive deaths that are mailed, and the most lines and bytes of a log in a mail.
_IN_A_ROW_MOST, _LINES_MOST, _BYTES_MOST = 4, 1024, 256 * 1024


class Death(Struct, frozen=True):
    """The death of a daemon that should be running.

    ``code``: its exit status, or the negative number of the signal that it died of. ``hung``: the master killed it
    because it no longer answered. ``in_a_row``: consecutive deaths soon after a start, this one included.
    ``restart_s``: seconds until it is restarted.
    """

    daemon: str
    code: int
    hung: bool = False
    in_a_row: int = 1
    restart_s: float = 0.0


class ObituarySettings(Struct, frozen=True):
    """PUBLISH_OBITUARIES, OBITUARY_LOG_LENGTH, and <DAEMON>_ADMIN_EMAIL or CONDOR_ADMIN for each daemon."""

    published: bool
    lines: int
    mail: MailSettings
    config: Config

    @classmethod
    def of(cls, config: Config, host: str) -> ObituarySettings:
        """The settings that ``config`` gives on ``host``."""
        return cls(
            config.get_bool("PUBLISH_OBITUARIES"),
            max(0, min(_LINES_MOST, config.get_int("OBITUARY_LOG_LENGTH"))),
            MailSettings.of(config, host),
            config,
        )

    def address_of(self, daemon: str) -> str:
        """Who gets the mails about this daemon."""
        return self.config.get_str(f"{daemon.upper()}_ADMIN_EMAIL").strip() or self.mail.admin


def is_mailed(death: Death) -> bool:
    """Whether it is mailed to the administrator: not an intended exit, a SIGKILL by hand, or the fifth in a row."""
    if death.hung:
        return death.in_a_row <= _IN_A_ROW_MOST
    return death.in_a_row <= _IN_A_ROW_MOST and death.code not in (0, _NO_RESTART, -signal.SIGKILL)


def subject_of(death: Death, host: str) -> str:
    """The subject, as HTCondor writes it."""
    if death.hung:
        how = "killed (unresponsive)"
    else:
        how = f"died ({-death.code})" if death.code < 0 else f"exited ({death.code})"
    return f"Problem {host}: {death.daemon} {how}"


def text_of(death: Death, host: str, path: Path, lines: Sequence[str], asked: int) -> str:
    """The text, with the last ``lines`` of the log at ``path``, of which ``asked`` were wanted."""
    if death.hung:
        how = "was killed because\nit was no longer responding."
    elif death.code < 0:
        how = f"died due to signal {-death.code} ({signal.strsignal(-death.code)})."
    else:
        how = f"exited with status {death.code}."
    text = (
        f'"{death.daemon}" on "{host}" {how}\n'
        f"Condor will automatically restart this process in {int(death.restart_s)} seconds.\n"
    )
    if lines:
        tail = "".join(f"{line_of(line)}\n" for line in lines)
        text += f"\n*** Last {asked} line(s) of file {path}:\n{tail}*** End of file {path.name}\n\n"
    return text


class Obituaries:
    """Sends mails about the deaths of this master's daemons."""

    def __init__(self, home: PoolHome, outbox: Outbox, settings: Callable[[], ObituarySettings]) -> None:
        self._home = home
        self._outbox = outbox
        self._settings = settings
        self._tasks: set[asyncio.Task[None]] = set()

    def report(self, death: Death) -> None:
        """Mail it if it is mailed to the administrator at all; returns at once."""
        settings = self._settings()
        if not settings.published or not is_mailed(death):
            return
        task = asyncio.get_running_loop().create_task(self._mail(death, settings), name="obituary")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _mail(self, death: Death, settings: ObituarySettings) -> None:
        to = recipients(settings.address_of(death.daemon), settings.mail.email_domain or settings.mail.uid_domain)
        if not to.addresses:
            return
        host = settings.mail.host
        path = log_file(self._home, death.daemon, settings.config)
        lines = await asyncio.to_thread(_last_lines, path, settings.lines)
        _log.info('sending an obituary of "%s" to %s', death.daemon, ", ".join(to.addresses))
        text = text_of(death, host, path, lines, settings.lines)
        self._outbox.post(framed(to.addresses, subject_of(death, host), text, settings.mail))


def _last_lines(path: Path, most: int) -> list[str]:
    """The last lines of a log, without empty ones; none when it cannot be read."""
    try:
        with own_files():
            descriptor = open_log(path)
        with open(descriptor, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _BYTES_MOST))
            text = file.read(_BYTES_MOST).decode(errors="replace")
    except OSError as error:
        _log.warning("could not read %s for an obituary: %s", path, error.strerror)
        return []
    return [line for line in text.split("\n") if line][-most:] if most else []
