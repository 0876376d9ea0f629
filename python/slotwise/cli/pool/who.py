"""``slotwise who``: which jobs run on this machine, and which daemons (manual page of condor_who)."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import grpc
from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.render import output_format
from slotwise.cli.render.ads import long_text
from slotwise.cli.render.layout import Item, Layout
from slotwise.cli.render.output_format import Form
from slotwise.cli.render.pool import natural_key
from slotwise.cli.render.printas import Scene
from slotwise.cli.render.table import Column, table
from slotwise.daemon import lock
from slotwise.daemon.registry import PARTS_OF_SCHEDD
from slotwise.errors import NotFoundError, SlotwiseError, UsageError
from slotwise.table import unpack_ads
from slotwise.wire import address
from slotwise.wire.gen import common_pb2, daemon_pb2, daemon_pb2_grpc, startd_pb2_grpc
from slotwise.wire.status import to_error

_OPTIONS = [
    *output_format.options(long=1, format=1, print_format=2),
    *(Option(name, least) for name, least in (
        ("help", 1), ("verbose", 1), ("diagnostic", 4), ("snapshot", 4), ("wide", 1), ("daemons", 3),
        ("quickdaemons", 4), ("allpids", 2), ("ospool", 3), ("debug", 1),
    )),
    *(Option(name, least, 1) for name, least in (
        ("address", 4), ("logdir", 3), ("pid", 3), ("statistics", 4), ("constraint", 3), ("wait-for-ready", 4),
        ("banner-format", 6),
    )),
]  # fmt: skip
USAGE = f"""usage: slotwise who [options]
  The jobs that run on this machine, as its startd tells.
  -address HOST:PORT    of the startd that answers there
  -wide                 lines are not cut
  -snapshot             with -long and other forms: the startd's own ad and those of all slots, as they are now
  -constraint EXPR      only slots for which it is true
Daemons of this machine, as its master tells
  -daemons              a table; -verbose adds it to the table of jobs
  -quickdaemons         one ad: which lives, and whether all that should be ready are
  -wait-for-ready[:SECONDS] EXPR   that ad, as soon as the expression is true for it; status 1 after SECONDS (300)
Forms
{output_format.USAGE}"""
_JOBS = Layout(
    (
        Item("RemoteOwner", "OWNER", left=True),
        Item("ClientMachine", "CLIENT", left=True),
        Item("ShownSlot", "SLOT", left=True),
        Item("JobId", "JOB", left=True),
        Item("TotalJobRunTime", "  RUNTIME", "RUNTIME"),
        Item("JobPid", "PID", left=True, instead=" "),
        Item("JobDir", "JOB_DIR", left=True, width=20, instead=" "),
    )
)
#: How long -wait-for-ready waits unless it says otherwise, and between two looks, in seconds.
_READY_S, _LOOK_S = 300, 0.5


def main(args: list[str], inv: Invocation) -> int:
    """Show jobs or daemons of this machine."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if inv.called and parsed.has("allpids"):
        if inv.uid:
            inv.err(
                "Warning: only the root account can use -allpids to query condor_startd's not owned by the current user"
            )
        parsed.options = [given for given in parsed.options if given.name != "allpids"]
    for name in ("pid", "allpids", "logdir", "ospool", "banner-format"):
        if parsed.has(name):
            raise UsageError(f"-{name} looks for startds of others", hint="-address HOST:PORT asks one startd")
    form = Form.of(parsed, inv)
    if parsed.has("snapshot") and form.kind != "table":
        try:
            conditions = parsed.expressions("constraint")
            ads = [ad for kind in ("StartDaemon", "Machine") for ad in _asked(kind, conditions, parsed, inv)]
        except grpc.RpcError as error:
            raise to_error(error, peer="the startd") from None
        form.write(ads[: form.limit or None], inv, lambda ad: str(ad.get("Name")), Scene(time.time()))
        return 0
    if parsed.has("quickdaemons") or parsed.has("wait-for-ready"):
        return _quick(parsed, form, inv)
    if parsed.has("daemons"):
        _daemons(parsed, inv)
        return 0
    if parsed.has("verbose"):
        _daemons(parsed, inv)
    try:
        slots = _running(parsed, inv)
    except grpc.RpcError as error:
        raise to_error(error, peer="the startd") from None
    if form.limit:
        slots = slots[: form.limit]
    _locate_jobs(slots, processes(Path("/proc")))
    if form.kind != "table" and form.layout is None:
        form.write(slots, inv, lambda ad: str(ad.get("JobId")), Scene(time.time()))
        return 0
    if not slots:
        return 0
    layout = form.layout or _JOBS.with_items(form.more)
    scene = Scene(time.time())
    machine = str(slots[0].get("Machine"))
    inv.out(f"\n--Startd : {machine} has {len(slots)} job(s) running:")
    rows = form.rows(slots, scene) if form.layout else slots
    if inv.screen and not parsed.has("wide"):
        inv.draw(layout.on_terminal(rows, scene, inv.screen, coloured=inv.has_colours) + "\n")
        return 0
    cut = 0 if parsed.has("wide") or not inv.is_terminal else inv.width
    inv.out(layout.text(rows, scene, cut))
    return 0


def _running(parsed: Parsed, inv: Invocation) -> list[ClassAd]:
    """The ads of slots in which jobs run, with the slot's short name."""
    found = _asked("Machine", ["isString(JobId)", *parsed.expressions("constraint")], parsed, inv)
    for ad in found:
        ad["ShownSlot"] = str(ad.get("Name")).partition("@")[0].removeprefix("slot")
    return found


def _asked(kind: str, conditions: Sequence[str], parsed: Parsed, inv: Invocation) -> list[ClassAd]:
    """The startd's ads of a kind for which all conditions are true: its slots (Machine), or its own (StartDaemon)."""
    where = parsed.value("address")
    stub = (inv if where is None else inv.at(where)).stub(startd_pb2_grpc.StartdStub, "startd")
    query = common_pb2.AdQuery(kind=kind, constraint=" && ".join(f"({text})" for text in conditions))
    found = [ad for chunk in stub.Query(query, timeout=20) if chunk.data for ad in unpack_ads(chunk.data)]
    return sorted(found, key=natural_key)


#: Bytes of a job's ad that are looked at.
_MOST_OF_AD = 1024 * 1024


class Process(Struct, frozen=True):
    """A process of a job: which it is, the slot's name and the scratch directory that it was started with."""

    pid: int
    slot: str
    scratch: str
    cwd: str
    #: GlobalJobId of its job; empty where its ad cannot be read.
    job: str = ""

    def serves(self, slot: ClassAd) -> bool:
        """Whether it belongs to the job of this slot: other pools of the host have slots of the same name."""
        name = str(slot.get("Name")).partition("@")[0]
        return self.slot == name and self.job in ("", slot.get("GlobalJobId"))


def processes(proc: Path) -> Iterator[Process]:
    """The first processes of jobs of this host, as far as the caller may see them. Those of others show nothing."""
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
            cwd = str((entry / "cwd").readlink())
        except OSError:
            continue  # not the caller's, or gone
        found = dict(word.decode(errors="replace").split("=", 1) for word in words if b"=" in word)
        if "_CONDOR_SLOT" in found and "_CONDOR_SCRATCH_DIR" in found:
            job = _global_id(entry, found.get("_CONDOR_JOB_AD", ""))
            yield Process(int(entry.name), found["_CONDOR_SLOT"], found["_CONDOR_SCRATCH_DIR"], cwd, job)


def _global_id(process: Path, path: str) -> str:
    """GlobalJobId of the job of a process, whose ad has this path where that process is; empty without one.

    Any process may claim to be a job's: only a file is read, which nobody has to wait for, and so much of it.
    """
    if not path.startswith("/"):
        return ""
    try:
        # Not by `safe_open`: what /proc calls the root of a process is a magic link.
        descriptor = os.open(process / "root" / path[1:], os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            lines = stream.read(_MOST_OF_AD).decode(errors="replace").splitlines()
    except OSError:
        return ""
    line = next((line for line in lines if line.startswith("GlobalJobId = ")), "")
    return line.partition("=")[2].strip().strip('"')


def _locate_jobs(slots: Sequence[ClassAd], found: Iterator[Process]) -> None:
    """Tell each slot the first process of its job, and that one's directory, where they can be seen."""
    known = sorted(found, key=lambda one: one.pid)
    for ad in slots:
        process = next((one for one in known if one.serves(ad)), None)
        if process is not None and "JobPid" not in ad:
            ad["JobPid"], ad["JobDir"] = process.pid, process.cwd


def daemons_here(inv: Invocation) -> list[daemon_pb2.DaemonStatus]:
    """The daemons of this machine as its master tells, the master first.

    :raises PeerUnavailableError: the master does not answer.
    """
    try:
        reply = inv.stub(daemon_pb2_grpc.MasterStub, "master").Status(common_pb2.Empty(), timeout=20)
    except grpc.RpcError as error:
        raise to_error(error, peer="the master") from None
    own = daemon_pb2.DaemonStatus(name="master", state="running", address=address.lookup(inv.home, "master").local)
    own.pid = lock.holder(inv.home, "master") or 0
    return [own, *reply.daemons]


def _daemons(parsed: Parsed, inv: Invocation) -> None:
    """The table of daemons."""
    rows = []
    for one in sorted(daemons_here(inv), key=lambda one: one.name):
        alive = one.pid > 0
        rows.append(
            (
                one.name.title().replace("_", ""),
                "yes" if alive else "no",
                str(one.pid) if alive else "no",
                str(_parent(one.pid)) if alive else "no",
                one.last_exit or "no",
                one.address,
                _executable(one.pid) if alive else "",
            )
        )
    inv.out(f'\nLOG directory "{inv.knobs().get("LOG") or inv.home.log}"\n')
    headings = ("Daemon", "Alive", "PID", "PPID", "Exit", "Addr", "Executable")
    columns = [Column(name, width=width) for name, width in zip(headings, (12, 6, 6, 6, 6, 24, 10), strict=True)]
    dashes = ("------", "-----", "---", "----", "----", "----", "----------")
    inv.out(table(columns, [dashes, *rows]), end="")


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def _executable(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""


def readiness(daemons: Sequence[daemon_pb2.DaemonStatus], slots_answer: bool, parts: Iterable[str] = ()) -> ClassAd:
    """The ad of -quickdaemons. Pure.

    :param slots_answer: whether the startd, if there is one, answers questions about its slots.
    :param parts: daemons that DAEMON_LIST names and whose work the schedd does: they are as it is.
    """
    ad = ClassAd({"IsReady": True, "NumDaemons": len(daemons)})
    counts = dict.fromkeys(("NumAlive", "NumDead", "NumHold", "NumHung", "NumStartup"), 0)
    kinds = {"running": ("Alive", "NumAlive"), "starting": ("Startup", "NumStartup"), "backoff": ("Hold", "NumHold")}
    for one in daemons:
        word, count = kinds.get(one.state, ("Dead", "NumDead"))
        name = one.name.upper()
        ad[name] = word
        counts[count] += 1
        if one.pid:
            ad[f"{name}_PID"], ad[f"{name}_Addr"] = one.pid, one.address
        if word != "Alive":
            ad["IsReady"] = False
        if name == "STARTD":
            ad["STARTD_State"] = "Ready" if slots_answer else "Unknown"
            if not slots_answer:
                ad["IsReady"] = False
    ad.update(counts)
    if "SCHEDD" in ad:
        ad.update(dict.fromkeys((part.upper() for part in parts), ad["SCHEDD"]))
    return ad


def _slots_answer(inv: Invocation) -> bool:
    try:
        stub = inv.stub(startd_pb2_grpc.StartdStub, "startd")
        return any(True for _ in stub.Query(common_pb2.AdQuery(kind="Machine", limit=1), timeout=5))
    except (grpc.RpcError, SlotwiseError):
        return False


def _quick(parsed: Parsed, form: Form, inv: Invocation) -> int:
    """The ad of daemons, at once or as soon as it fulfils a condition."""
    waits = parsed.all("wait-for-ready")
    expression = ExprTree(parsed.expressions("wait-for-ready")[-1]) if waits else None
    letters = waits[-1].letters if waits else ""
    if letters and not letters.isdigit():
        raise UsageError(f"-wait-for-ready:{letters} is not a number of seconds")
    parts = PARTS_OF_SCHEDD & {word.lower() for word in inv.knobs().get_list("DAEMON_LIST")}
    deadline = time.monotonic() + (int(letters) if letters else _READY_S)
    while True:
        try:
            ad = readiness(daemons_here(inv), _slots_answer(inv), parts)
            fulfilled = expression is None or expression.eval(ad) is True
        except SlotwiseError:
            if expression is None:
                raise
            ad, fulfilled = ClassAd(), False
        if fulfilled or time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_S)  # the master tells nobody when a daemon gets ready
    if not len(ad):
        raise NotFoundError("the master does not answer")
    if form.kind == "table":
        inv.out(long_text([ad]), end="")
    else:
        form.write([ad], inv, lambda _: "")
    return 0 if fulfilled else 1
