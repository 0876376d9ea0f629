"""Clients of ssh over a visit to a job: scp, sftp and rsync, which start ``ssh-to-job`` in place of ssh.

They copy files as they do between hosts; what they would have ssh start runs beside the job. A job is a host to them,
and ``remote`` in their words is the job.
"""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

from slotwise.errors import UsageError

#: Options of ssh that take a word; all others are flags, or have their value behind them.
_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
#: Where hosts have the server of sftp.
_SERVERS = (
    "/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server",
    "/usr/libexec/sftp-server", "/usr/lib/sftp-server",
)  # fmt: skip
_REMOTE = "remote:"


def is_call_of_ssh(args: list[str]) -> bool:
    """Whether these are words of a client that takes us for ssh."""
    options = itertools.takewhile(lambda word: word.startswith("-") and word != "--", args)
    return any(word.startswith("-o") for word in options)


def as_visit(args: list[str]) -> tuple[str, list[str]]:
    """The job and the command of such words.

    :raises UsageError: when no host is named, or a subsystem other than sftp is wanted.
    """
    rest = list(args)
    subsystem = False
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        flags = word[1:]
        for place, flag in enumerate(flags):
            subsystem = subsystem or flag == "s"
            if flag in _WITH_VALUE:
                if place == len(flags) - 1 and rest:
                    rest.pop(0)
                break
    if not rest:
        raise UsageError("the words of ssh name no host", hint="JOB:FILE names a file of a job")
    host, *command = rest
    job = host.rpartition("@")[2]
    if not subsystem:
        return job, command
    if command != ["sftp"]:
        raise UsageError(f"there is no subsystem {' '.join(command)!r} beside a job", hint="sftp is one")
    found = " ".join(_SERVERS)
    missing = "echo 'the machine of the job has no sftp-server' >&2; exit 127"
    return job, [f"for server in {found}; do [ -x $server ] && exec $server; done; {missing}"]


def command_line(client: str, job: str, words: list[str], transport: Path) -> list[str]:
    """The command that ``-ssh CLIENT JOB WORDS`` means. In CLIENT ``%h`` is the job and ``%%`` a percent sign, as for
    condor_ssh_to_job; the files and the user that its other signs stand for do not exist here.

    :param transport: the program that is started in place of ssh.
    :raises UsageError: for a client that cannot be told of another program, or a sign that stands for nothing.
    """
    try:
        program, *options = (_expanded(word, job) for word in shlex.split(client))
    except ValueError as error:
        raise UsageError(f"-ssh {client!r}: {error}") from None
    named = [f"{job}:{word.removeprefix(_REMOTE)}" if word.startswith(_REMOTE) else word for word in words]
    name = Path(program).name
    if name == "sftp":
        return [program, "-S", str(transport), *options, *named, job]
    if name == "scp":
        return [program, "-S", str(transport), *options, *named]
    if name == "rsync":
        return [program, "-e", shlex.quote(str(transport)), *options, *named]
    raise UsageError(f"-ssh {name}: no ssh is involved here", hint="scp, sftp or rsync; a shell needs no -ssh")


def _expanded(word: str, job: str) -> str:
    """A word of CLIENT with what its signs stand for."""
    first, *others = word.replace("%%", "\0").split("%")
    for sign in others:
        if not sign.startswith("h"):
            hint = "%h is the job, %% a percent sign; no key, user or proxy command of ssh takes part"
            raise UsageError(f"-ssh: unexpected %{sign[:1]} in {word!r}", hint=hint)
    return "".join((first, *(job + sign[1:] for sign in others))).replace("\0", "%")
