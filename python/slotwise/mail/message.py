"""Mails, pure: who gets one, its frame, and how a mail program or an SMTP server takes it.

Addresses and texts come from users. An address that a mail program could take for an option, a file or a command is
rejected, and a text cannot end its line, so that it reaches neither the headers nor the commands of a mail program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP

from msgspec import Struct

from slotwise.mail.settings import MailSettings
from slotwise.observe.log import one_line

#: The most recipients of one mail, and the longest address, in characters.
_RECIPIENTS_MOST, _ADDRESS_MOST = 20, 254
#: No slash: mailx takes whatever has one before an ``@`` for a file, and appends the mail to it.
_ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=-]*(@[A-Za-z0-9][A-Za-z0-9.-]*)?")
#: The longest text of a user in a mail, in characters.
_TEXT_MOST = 4096
#: Lines up to the length that mail allows stay unchanged, so that bodies need no encoding.
_POLICY = SMTP.clone(max_line_length=998)
_SUBJECT_PROLOG = "[Condor] "
_HOMEPAGE = "https://htcondor.org/"


class Mail(Struct, frozen=True):
    """An outgoing mail: addresses, and subject and body in HTCondor's frame."""

    recipients: tuple[str, ...]
    subject: str
    body: str
    sender: str = ""


class Recipients(Struct, frozen=True):
    """The recipients in a list of addresses, and those of its words that are not addresses."""

    addresses: tuple[str, ...]
    refused: tuple[str, ...] = ()


def recipients(text: str, domain: str = "") -> Recipients:
    """The addresses of a list separated by commas or spaces.

    As in HTCondor, ``domain`` completes a list without ``@``: a list of several names gets it once, at its end.
    """
    if domain and "@" not in text:
        text = f"{text.rstrip(', ')}@{domain}"
    found: dict[str, None] = {}
    refused = []
    for word in re.split(r"[, ]+", text):
        if not word:
            continue
        if len(word) > _ADDRESS_MOST or not _ADDRESS.fullmatch(word) or len(found) >= _RECIPIENTS_MOST:
            refused.append(line_of(word))
        else:
            found[word] = None
    return Recipients(tuple(found), tuple(refused))


def line_of(text: str, most: int = _TEXT_MOST) -> str:
    """A user's text on one line, cut after ``most`` characters."""
    return one_line(text) if len(text) <= most else one_line(text[:most]) + "..."


def framed(to: Sequence[str], subject: str, text: str, settings: MailSettings) -> Mail:
    """A mail with HTCondor's prolog and signature around ``text``."""
    prolog = f'This is an automated email from the Condor system\non machine "{settings.host}".  Do not reply.\n\n'
    body = prolog + text + _signature(settings)
    return Mail(tuple(to), line_of(_SUBJECT_PROLOG + subject, 200), body, settings.sender)


def _signature(settings: MailSettings) -> str:
    if settings.signature:
        return f"\n\n{settings.signature}\n"
    whom = settings.support or settings.admin
    local = f"Email address of the local HTCondor administrator: {whom}\n" if whom else ""
    return (
        "\n\n-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=\n"
        "Questions about this message or HTCondor in general?\n"
        f"{local}The Official HTCondor Homepage is {_HOMEPAGE}\n"
    )


def as_message(mail: Mail) -> EmailMessage:
    """The mail with its headers, for ``sendmail -t`` and SMTP."""
    message = EmailMessage(policy=_POLICY)
    if mail.sender:
        message["From"] = mail.sender
    message["Subject"] = mail.subject
    message["To"] = ", ".join(mail.recipients)
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(mail.body.encode(errors="replace").decode())
    return message


class ProgramCall(Struct, frozen=True):
    """The command line of a mail program and its input."""

    words: tuple[str, ...]
    text: bytes


def sendmail_call(sendmail: str, mail: Mail) -> ProgramCall:
    """The call of sendmail, which takes the addresses from the headers; a line with a dot does not end the mail."""
    text = as_message(mail).as_bytes(policy=_POLICY.clone(linesep="\n"))
    return ProgramCall((sendmail, "-t", "-i"), text)


def mail_call(program: str, mail: Mail) -> ProgramCall:
    """The call of MAIL. Some mail programs take lines that begin with a tilde, or are a dot, for commands."""
    words = [program, "-s", mail.subject]
    if mail.sender:
        words += ["-r", mail.sender]
    body = re.sub(r"(?m)^(?=~|\.$)", " ", mail.body)
    return ProgramCall((*words, *mail.recipients), body.encode(errors="replace"))
