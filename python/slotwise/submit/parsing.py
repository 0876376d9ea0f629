"""Reads submit descriptions."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

import slotwise._native as _native
from slotwise import environment
from slotwise.config import Config, detect
from slotwise.config.refusal import submit_error
from slotwise.errors import SubmitError
from slotwise.model import proxy
from slotwise.submit import support
from slotwise.submit.submission import Cluster, Submission


def parse(
    text: str,
    *,
    filename: str = "",
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    owner: str = "",
    uid: int | None = None,
    now: float | None = None,
    config: Config | None = None,
    queue_args: str | None = None,
    before: Sequence[str] = (),
    append: Sequence[str] = (),
    spool: bool = False,
    check_files: bool = True,
    elsewhere: bool = False,
    check_support: bool = False,
    first_cluster: int | None = None,
    stdin: str | None = None,
    seed: int | None = None,
) -> Submission:
    """Make jobs from a description. Bytes that are not UTF-8 are lone surrogates in ``text``, as in names of files.

    :param filename: name of the description, for messages and ``$(SUBMIT_FILE)``.
    :param cwd: where relative names start; the process's directory if None.
    :param env: for ``getenv`` and ``$ENV``; the process's if None.
    :param owner: who submits, for accounting names.
    :param uid: user id of the submitter, for the default place of a proxy; the process's if None.
    :param now: submission time in seconds since the epoch; the present if None.
    :param config: knobs such as JOB_DEFAULT_REQUESTMEMORY; None: no knobs.
    :param queue_args: queue statement that replaces those of the description.
    :param before: statements that stand before the description.
    :param append: statements that stand before each queue statement.
    :param spool: inputs are spooled; the jobs wait on hold for them.
    :param check_files: whether the executable and input files must exist. Proxies must in any case: their end is put
        into the ads.
    :param elsewhere: the description is another's: no file, directory or variable of this process is looked at.
    :param check_support: whether commands that the pool does not carry out are rejected or warned about.
    :param first_cluster: id of the first cluster, when reserved.
    :param stdin: what ``queue from -`` reads.
    :param seed: makes random choices repeatable.
    :raises SubmitError: names line, command and remedy; nothing must be queued.
    """
    moment = time.time() if now is None else now
    facts = _facts(
        text, filename=filename, cwd=cwd, env=env, owner=owner, uid=uid, moment=moment, config=config,
        queue_args=queue_args, before=before, append=append, spool=spool, check_files=check_files and not elsewhere,
        first_cluster=first_cluster, stdin=stdin, seed=seed,
    )  # fmt: skip
    facts["elsewhere"] = elsewhere
    try:
        data = _native.parse_submit(_held(text), facts, None if config is None else config.data)
    except ValueError as error:
        error.args = tuple(_released(part) if isinstance(part, str) else part for part in error.args)
        raise submit_error(error) from None
    clusters = tuple(Cluster(data, index, count) for index, count in enumerate(data.counts()))
    if not elsewhere and not support.skips_file_checks((text, *before, *append)):
        _check_proxies(clusters, filename or "the description", moment, config)
    warnings = [_released(warning) for warning in data.warnings]
    if check_support and support.is_suspect((text, *before, *append)):
        firsts = (cluster.job(0) for cluster in clusters if cluster.count)
        warnings += support.check(firsts, text, filename or "the description")
    return Submission(clusters, tuple(warnings), data.mentions_cluster, data.max_materialize)


class Outline(Struct, frozen=True):
    """A description up to its first queue statement, for programs that read or change it.

    ``statements``: key, text as written, and the text with its macros expanded (None if that is not possible).
    ``queue``: arguments of the queue statement, if there is one. ``items``: its items, by variable; None for a
    statement without items.
    """

    statements: tuple[tuple[str, str, str | None], ...]
    queue: str | None
    variables: tuple[str, ...]
    items: tuple[tuple[str, ...], ...] | None


def outline(
    text: str, *, cwd: Path | str | None = None, config: Config | None = None, queue_args: str | None = None
) -> Outline:
    """Read a description up to its first queue statement, and the items of that.

    :param queue_args: replaces the description's queue statement; items may follow on lines of their own.
    :raises SubmitError: names line, command and remedy.
    """
    facts = _facts(
        text, filename="", cwd=cwd, env=None, owner="", uid=None, moment=time.time(), config=config,
        queue_args=queue_args, before=(), append=(), spool=False, check_files=False, first_cluster=None, stdin=None,
        seed=None,
    )  # fmt: skip
    try:
        found = _native.outline_submit(_held(text), facts, None if config is None else config.data)
    except ValueError as error:
        raise submit_error(error) from None
    statements, queue, variables, items = found
    kept = tuple(
        (_released(key), _released(raw), None if value is None else _released(value)) for key, raw, value in statements
    )
    rows = None if items is None else tuple(tuple(map(_released, item)) for item in items)
    return Outline(kept, queue, tuple(variables), rows)


def _facts(
    text: str,
    *,
    filename: str,
    cwd: Path | str | None,
    env: Mapping[str, str] | None,
    owner: str,
    uid: int | None,
    moment: float,
    config: Config | None,
    queue_args: str | None,
    before: Sequence[str],
    append: Sequence[str],
    spool: bool,
    check_files: bool,
    first_cluster: int | None,
    stdin: str | None,
    seed: int | None,
) -> dict[str, object]:
    """The facts of a submission for the native language."""
    env = environment() if env is None else env
    local = time.localtime(moment)
    return {
        "file": _held(filename),
        "cwd": _held(str(cwd or Path.cwd())),
        "owner": owner,
        "uid": os.getuid() if uid is None else uid,
        "now": int(moment),
        "date": (local.tm_year, local.tm_mon, local.tm_mday),
        "macros": _macros(config),
        "spool": spool,
        "check_files": check_files and not support.skips_file_checks((text, *before, *append)),
        "first_cluster": first_cluster,
        "before": [_held(line) for line in before],
        "append": [_held(line) for line in append],
        "queue": None if queue_args is None else _held(queue_args),
        "stdin": None if stdin is None else _held(stdin),
        "environment": _environment(env),
        "seed": random.getrandbits(64) if seed is None else seed,
    }


def _check_proxies(clusters: Sequence[Cluster], origin: str, now: float, config: Config | None) -> None:
    """Check that the proxies of jobs can be used.

    :raises SubmitError: one cannot be read, or is not valid long enough (CRED_MIN_TIME_LEFT).
    """
    for cluster in clusters:
        path = cluster.ad.get("x509userproxy") if cluster.count else None
        if not isinstance(path, str):
            continue
        try:
            with open(path, "rb") as file:
                ends_at = proxy.parse(file.read(proxy.LARGEST)).expires_at
        except OSError as error:
            raise SubmitError(f"unable to read proxy file {path}: {error.strerror}", origin=origin) from None
        except proxy.ProxyError as error:
            raise SubmitError(f"{error.message}: {path}", hint=error.hint, origin=origin) from None
        least = config.get_int("CRED_MIN_TIME_LEFT") if config else 0
        if ends_at < now + least:
            text = "proxy has expired" if ends_at < now else "proxy lifetime too short"
            raise SubmitError(f"{text}: {path}", hint="make a new one", origin=origin)


#: How the native language holds bytes that are not UTF-8 in text (its module ``bytes``): each as one character, and
#: likewise the four bytes of a character that would be mistaken for one.
_HOLD = {0xDC00 + byte: 0x10FD00 + byte for byte in range(0x80, 0x100)} | {
    0x10FD00 + byte: "".join(chr(0x10FD00 + part) for part in chr(0x10FD00 + byte).encode())
    for byte in range(0x80, 0x100)
}
_RELEASE = {0x10FD00 + byte: 0xDC00 + byte for byte in range(0x80, 0x100)}


def _held(text: str) -> str:
    """Python's text (bytes that are not UTF-8 are lone surrogates) in the form of the native language."""
    return text if text.isascii() else text.translate(_HOLD)


def _released(text: str) -> str:
    """The native language's text in Python's form."""
    return text if text.isascii() else text.translate(_RELEASE)


def _environment(env: Mapping[str, str]) -> list[tuple[str, str]]:
    if all(map(str.isascii, env)) and all(map(str.isascii, env.values())):
        return list(env.items())
    return [(_held(name), _held(value)) for name, value in env.items()]


def _macros(config: Config | None) -> list[tuple[str, str]]:
    """ARCH, OPSYS and their relatives: the configuration's, else the host's."""
    system = detect.operating_system()
    names = (
        "ARCH",
        "OPSYS",
        "OPSYSVER",
        "OPSYSANDVER",
        "OPSYSMAJORVER",
        "OPSYSNAME",
        "OPSYSLONGNAME",
        "OPSYSSHORTNAME",
    )
    found = [(name.lower(), (config.get(name) if config else None) or system[name]) for name in names]
    spool = config.get("SPOOL") if config else None
    return [*found, ("spool", spool)] if spool else found
