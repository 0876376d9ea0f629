"""``slotwise glidein``: an execution point as an ordinary user inside another system's job."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise import ids
from slotwise.cli.common.parser import Parser
from slotwise.cli.host.token_options import lifetime_s
from slotwise.daemon import process
from slotwise.errors import HostError, UsageError
from slotwise.glidein import allotment, host
from slotwise.glidein.order import FAILED, HOME, Order
from slotwise.glidein.pass_file import Pass
from slotwise.glidein.plan import Settings
from slotwise.glidein.sweep import end_daemons, kill_descendants
from slotwise.home import PoolHome
from slotwise.wire import contact

if TYPE_CHECKING:
    from argparse import Namespace

    from slotwise.cli.common.invocation import Invocation

_ABOUT = """Runs an execution point in the foreground, as an ordinary user, until its end: in a Slurm job, a Kubernetes
pod, or a plain shell. Its home is made in the work directory and removed again. Exit status 0: it has ended as planned;
3: it has no place in the pool; 4: its daemons failed."""
#: The variable with the contents of a token's file, where a file is hard to protect.
_TOKEN_VARIABLE = "SLOTWISE_GLIDEIN_TOKEN"
_PORT = 9618
_UNITS_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


def main(args: list[str], inv: Invocation) -> int:
    """Run a glide-in."""
    options = _parser(inv).take(args)
    if options is None:
        return 0
    given = _given(options, inv)
    now = time.time()
    limits = allotment.cgroup_limits(host.cgroup_texts())
    allotted = allotment.of(inv.env, limits, host.affinity(), now)
    directory = _home(options, inv)
    try:
        order = _order(options, inv, given, allotted, directory, now)
        _describe(order, allotted, inv)
        return _keep(order, inv)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _parser(inv: Invocation) -> Parser:
    parser = Parser(inv, "glidein", _ABOUT)
    add = parser.add_argument
    add("--pool", "-pool", metavar="HOST[:PORT]", help="the central manager (default: what the token's file says)")
    add("--token", "-token", metavar="FILE", help=f"file of `slotwise token glidein` (default: {_TOKEN_VARIABLE})")
    add("--ca", metavar="FILE", help="authorities of the pool's certificates (default: those in the token's file)")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--lifetime", "-lifetime", metavar="TIME", help="end after so long (default: with the job)")
    when.add_argument("--until", metavar="TIME", help="end then: epoch seconds, or as 2026-11-27T18:00")
    add("--idle", metavar="TIME", default="20m", help="end when no job has claimed it for so long (default 20m)")
    add("--reserve", metavar="TIME", help="before the end, in which no job starts (default: 10m, or a tenth of all)")
    add("--notice", metavar="TIME", default="30s", help="time from SIGTERM to the job's end (default 30s)")
    add("--cpus", type=int, metavar="N", help="cores to offer (default: what the batch system or a cgroup allots)")
    add("--memory", metavar="SIZE", help="memory to offer, as 4G, in MiB without a unit (default: as allotted)")
    add("--disk", metavar="SIZE", help="disk to offer (default: what is free in the work directory)")
    add("--gpus", type=int, metavar="N", help="0: offer none (default: the visible ones, if any were allotted)")
    add("--start", metavar="EXPR", default="True", help="condition on jobs, as 'TARGET.Owner == \"ann\"'")
    add("--site", metavar="NAME", default="", help="GlideinSite in its ads")
    add("--workdir", metavar="DIRECTORY", help="where its home is made (default: TMPDIR, else /tmp)")
    add("--listen", metavar="ADDRESS", help="address of this host to listen on (default: the one towards the pool)")
    add(
        "--broker",
        nargs="?",
        const="",
        metavar="HOST:PORT",
        help="be reached through a broker: nobody can connect here (default: that beside the collector)",
    )
    add("--knob", metavar="NAME=VALUE", action="append", default=[], help="a setting besides; may be repeated")
    add("--join-timeout", metavar="TIME", default="5m", help="wait so long for the central manager (default 5m)")
    add("--quiet", "-quiet", action="store_true", help="do not copy the daemons' logs to the output")
    return parser


def _given(options: Namespace, inv: Invocation) -> Pass:
    """The token, the pool and its authorities.

    :raises UsageError: one of them is missing.
    """
    from slotwise.wire.token import require_private

    if options.token is not None:
        path = inv.path(options.token)
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the token's file {path} cannot be read: {error}") from None
        require_private(path)
    else:
        text = inv.env.get(_TOKEN_VARIABLE, "")
    found = Pass.of_text(text)
    if not found.token:
        raise UsageError(
            "a glide-in needs a token" if not text else "there is no token in what --token names",
            hint="on the central manager: slotwise token glidein --file glidein.token; then --token glidein.token",
        )
    pool = options.pool or found.pool
    if not pool:
        raise UsageError("which pool? The token's file does not say", hint="name its central manager: --pool HOST:PORT")
    authorities = found.authorities
    if options.ca is not None:
        try:
            authorities = inv.path(options.ca).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--ca: {error}") from None
    if contact.parse(pool) is None:
        place, question, more = pool.partition("?")
        pool = contact.join(place.strip("[]"), _PORT) + question + more
    if contact.parse(pool) is None:
        raise UsageError(f"{pool!r} is not an address", hint="write host:port")
    return Pass(found.token, pool, authorities)


def _home(options: Namespace, inv: Invocation) -> Path:
    """A new directory that nobody else can enter.

    :raises HostError: it cannot be made.
    """
    above = inv.path(options.workdir) if options.workdir else Path(inv.env.get("TMPDIR") or "/tmp")
    try:
        made = Path(tempfile.mkdtemp(prefix="glidein-", dir=above.absolute()))
    except OSError as error:
        why = f"cannot make a directory in {above}: {error.strerror}"
        raise HostError(why, hint="name another: --workdir") from None
    if os.geteuid() == 0:
        made.chmod(0o711)  # jobs are other users then
    return made


def _order(
    options: Namespace, inv: Invocation, given: Pass, allotted: allotment.Allotment, directory: Path, now: float
) -> Order:
    from slotwise.wire.token import peek

    pool = contact.parse(given.pool)
    assert pool is not None, "it has been looked at"
    listen = options.listen
    if listen is None:
        try:
            listen = host.address_towards(pool.host, pool.port)
        except OSError as error:
            raise HostError(f"there is no way to {pool.address}: {error}", hint="is the name right?") from None
    authorities = ""
    if given.authorities:
        file = directory / "ca.pem"
        file.write_text(given.authorities)
        authorities = str(file)
    elif not pool.key:
        raise UsageError(
            f"nothing says how to know {pool.address}: no authority, and no key in its address",
            hint="use the file that `slotwise token glidein` writes, or name the pool's authority with --ca",
        )
    for knob in options.knob:
        if not knob.partition("=")[1] or "\n" in knob:
            raise UsageError(f"--knob {knob!r} is not NAME=VALUE")
    gpus = options.gpus if options.gpus is not None else allotted.gpus or 0
    ends = [at for at in (_end(options, allotted, now), peek(given.token)[1].get("exp")) if at is not None]
    settings = Settings(
        pool=given.pool,
        name=f"glidein-{ids.secret(32)}",
        listen=listen,
        start=_expression(options.start),
        site=options.site,
        idle_s=lifetime_s(options.idle),
        cpus=options.cpus or allotted.cpus,
        memory_mib=_mib(options.memory) if options.memory else allotted.memory_mib,
        disk_mib=_mib(options.disk) if options.disk else None,
        gpus=gpus,
        visible_gpus="CUDA_VISIBLE_DEVICES" in inv.env,
        authorities=authorities,
        broker=pool.address if options.broker == "" else options.broker or "",
        knobs=tuple(options.knob),
    )
    return Order(
        directory=str(directory),
        token=given.token,
        settings=settings,
        ends_at=min(map(float, ends), default=None),
        reserve_s=None if options.reserve is None else float(lifetime_s(options.reserve)),
        notice_s=float(lifetime_s(options.notice)),
        join_s=float(lifetime_s(options.join_timeout)),
        shows_logs=not options.quiet,
    )


def _expression(text: str) -> str:
    from slotwise.classad import ExprTree
    from slotwise.errors import SlotwiseError

    try:
        ExprTree(text, old=True)
    except (SlotwiseError, ValueError) as error:
        raise UsageError(f"--start: {error}") from None
    if "\n" in text:
        raise UsageError("--start: an expression is one line")
    return text


def _end(options: Namespace, allotted: allotment.Allotment, now: float) -> float | None:
    if options.lifetime is not None:
        return now + lifetime_s(options.lifetime)
    if options.until is None:
        return allotted.ends_at
    try:
        ends = float(options.until) if options.until.isdigit() else datetime.fromisoformat(options.until).timestamp()
    except ValueError:
        raise UsageError(
            f"--until {options.until!r} is not a time", hint="epoch seconds, or as 2026-11-27T18:00"
        ) from None
    if ends <= now:
        raise UsageError(f"--until {options.until} is past")
    return ends


def _mib(text: str) -> int:
    number, unit = (text[:-1], text[-1].upper()) if text[-1].upper() in _UNITS_MIB else (text, "M")
    try:
        found = int(float(number) * _UNITS_MIB[unit])
    except ValueError:
        found = 0
    if found <= 0:
        raise UsageError(f"{text!r} is not a size", hint="write it as 4096, 4096M or 4G")
    return found


def _describe(order: Order, allotted: allotment.Allotment, inv: Invocation) -> None:
    settings = order.settings
    ends = "none" if order.ends_at is None else datetime.fromtimestamp(order.ends_at).strftime("%Y-%m-%d %H:%M:%S")
    words = {
        "cpus": settings.cpus,
        "memory": None if settings.memory_mib is None else f"{settings.memory_mib} MiB",
        "gpus": settings.gpus or None,
        "end": ends,
    }
    shown = []
    for what, value in words.items():
        if value is not None:
            source = allotted.sources.get(what)
            shown.append(f"{what} {value}" + (f" ({source})" if source and value != "none" else ""))
    place = settings.pool.partition("?")[0]
    inv.out(f"glide-in {settings.name} for {place}: {', '.join(shown)}")
    inv.stdout.flush()


def _keep(order: Order, inv: Invocation) -> int:
    """Have a guard keep the glide-in, hand it signals, and end what it leaves when it is killed."""
    process.adopt_orphans()
    guard = subprocess.Popen(
        [sys.executable, "-m", "slotwise.glidein.guard"],
        stdin=subprocess.PIPE,
        env=dict(inv.env),
        cwd="/",
        start_new_session=True,
        text=True,
    )
    assert guard.stdin is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda which, _frame: process.send(guard.pid, signal.Signals(which)))
    with contextlib.suppress(BrokenPipeError):
        guard.stdin.write(order.text())
        guard.stdin.flush()  # and stays open: its end tells the guard that this process is no more
    status = guard.wait()
    if status < 0:
        inv.err(f"ERROR: the guard of the glide-in was killed by {signal.Signals(-status).name}")
        end_daemons(PoolHome(Path(order.directory) / HOME))
        kill_descendants()
        return FAILED
    return status
