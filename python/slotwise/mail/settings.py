"""The knobs of mail."""

from __future__ import annotations

from msgspec import Struct

from slotwise.config import Config
from slotwise.errors import ConfigError

_SMTP_PORT = 25
_TLS = ("starttls", "tls", "none")
#: Servers on this host, to which a password may go in the clear.
_HERE = ("localhost", "127.0.0.1", "::1")


class MailSettings(Struct, frozen=True):
    """How mail leaves this host, and the texts of its frame.

    ``smtp`` is the host and port of a server that accepts all mail; without one, ``sendmail`` sends if that program
    exists, else ``program`` (MAIL).
    """

    host: str = ""
    smtp: tuple[str, int] | None = None
    #: How the connection to that server is encrypted: ``starttls``, ``tls`` or ``none``.
    smtp_tls: str = "none"
    #: The name to log in with there, or "", and the file with the password.
    smtp_user: str = ""
    smtp_password_file: str = ""
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

        :raises ConfigError: for an SLOTWISE_SMTP_SERVER that is not a host, or a host and a port; for a login that
            others could read on its way.
        """

        def line(name: str) -> str:
            return " ".join(config.get_str(name).split())

        server = _server(line("SLOTWISE_SMTP_SERVER"), str(config.origin("SLOTWISE_SMTP_SERVER") or ""))
        user = line("SLOTWISE_SMTP_USER")
        tls = line("SLOTWISE_SMTP_TLS").lower() or ("starttls" if user else "none")
        origin = str(config.origin("SLOTWISE_SMTP_TLS") or "")
        if tls not in _TLS:
            raise ConfigError(
                f"SLOTWISE_SMTP_TLS = {tls} is not a kind of encryption",
                hint="write STARTTLS, TLS or NONE",
                origin=origin,
                key="SLOTWISE_SMTP_TLS",
            )
        password_file = config.get_str("SLOTWISE_SMTP_PASSWORD_FILE").strip()
        if user and tls == "none" and server is not None and server[0] not in _HERE:
            raise ConfigError(
                f"SLOTWISE_SMTP_TLS = NONE would send the password of {user} to {server[0]} in the clear",
                hint="set it to STARTTLS or TLS",
                origin=origin,
                key="SLOTWISE_SMTP_TLS",
            )
        if user and not password_file:
            raise ConfigError(
                f"SLOTWISE_SMTP_USER = {user} has no password",
                hint="name a file with it in SLOTWISE_SMTP_PASSWORD_FILE",
                origin=str(config.origin("SLOTWISE_SMTP_USER") or ""),
                key="SLOTWISE_SMTP_USER",
            )
        return cls(
            host=host,
            smtp=server,
            smtp_tls=tls,
            smtp_user=user,
            smtp_password_file=password_file,
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
