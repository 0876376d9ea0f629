"""The knobs of mail."""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.config import Config
from slotwise.errors import ConfigError

_SMTP_PORT = 25


@dataclass(frozen=True)
class MailSettings:
    """How mail leaves this host, and the texts of its frame.

    ``smtp`` is the host and port of a server that accepts all mail; without one, ``sendmail`` sends if that program
    exists, else ``program`` (MAIL).
    """

    host: str = ""
    smtp: tuple[str, int] | None = None
    sendmail: str = ""
    program: str = ""
    sender: str = ""
    admin: str = ""
    support: str = ""
    signature: str = ""
    email_domain: str = ""
    uid_domain: str = ""
    #: The most mails within a minute; more wait.
    per_minute: int = 600

    @classmethod
    def of(cls, config: Config, host: str) -> MailSettings:
        """The settings that ``config`` gives on ``host``.

        :raises ConfigError: SLOTWISE_SMTP_SERVER is not a host, or a host and a port.
        """

        def line(name: str) -> str:
            return " ".join(config.get_str(name).split())

        return cls(
            host=host,
            smtp=_server(line("SLOTWISE_SMTP_SERVER"), str(config.origin("SLOTWISE_SMTP_SERVER") or "")),
            sendmail=config.get_str("SENDMAIL").strip(),
            program=config.get_str("MAIL").strip(),
            sender=line("MAIL_FROM"),
            admin=line("CONDOR_ADMIN"),
            support=line("CONDOR_SUPPORT_EMAIL"),
            signature=config.get_str("EMAIL_SIGNATURE").strip(),
            email_domain=line("EMAIL_DOMAIN"),
            uid_domain=line("UID_DOMAIN") or host,
            per_minute=max(1, config.get_int("SLOTWISE_MAX_MAILS_PER_MINUTE")),
        )


def _server(text: str, origin: str) -> tuple[str, int] | None:
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(_SMTP_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(
            f"SLOTWISE_SMTP_SERVER = {text} is not a mail server",
            hint="write HOST or HOST:PORT",
            origin=origin,
            key="SLOTWISE_SMTP_SERVER",
        )
    return host, int(port)
