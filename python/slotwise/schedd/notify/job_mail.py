"""Which mails jobs ask for (JobNotification), and their texts, as HTCondor's shadow and schedd write them. Pure."""

from __future__ import annotations

import re
import time
from enum import IntEnum

from slotwise.classad import ClassAd
from slotwise.mail.message import Mail, framed, line_of, recipients
from slotwise.mail.settings import MailSettings
from slotwise.model.durations import days_and_time
from slotwise.model.reason_codes import Hold
from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.decision import Notice, NoticeKind
from slotwise.schedd.jobs.job import finite

#: The most attributes of EmailAttributes that a mail lists.
_ATTRIBUTES_MOST = 100
_UNITS = ("B ", "KB", "MB", "GB", "TB")
#: Holds that somebody wanted, of which Error does not tell.
_WANTED_HOLDS = frozenset({Hold.USER_REQUEST, Hold.JOB_POLICY, Hold.SUBMITTED_ON_HOLD})


class Notification(IntEnum):
    """The values of JobNotification."""

    NEVER = 0
    ALWAYS = 1
    COMPLETE = 2
    ERROR = 3
    START = 4


def is_wanted(notice: Notice, ad: ClassAd) -> bool:
    """Whether the job asks for a mail about this. A value that is none of HTCondor's counts as Always, as there."""
    wish = int(_number(ad, "JobNotification"))
    if notice.kind is NoticeKind.STARTED:
        return wish == Notification.START
    if wish in (Notification.NEVER, Notification.START):
        return False
    if wish == Notification.COMPLETE:
        return notice.kind is NoticeKind.EXITED
    if wish == Notification.ERROR:
        return _is_error(notice, ad)
    return True


def _is_error(notice: Notice, ad: ClassAd) -> bool:
    if notice.kind is NoticeKind.EXITED and (notice.core or ad.get("ExitBySignal") is True):
        return True
    held = notice.kind is NoticeKind.HELD or int(_number(ad, "JobStatus")) == Status.HELD
    if held and notice.hold_code not in _WANTED_HOLDS:
        return True
    return int(_number(ad, "ExitCode")) != int(_number(ad, "JobSuccessExitCode"))


def compose(notice: Notice, ad: ClassAd, now: float, settings: MailSettings) -> tuple[Mail | None, tuple[str, ...]]:
    """The mail of a notice, and the addresses that are refused. None when there is nobody left to write to."""
    to = recipients(_whom(ad), settings.email_domain or _text(ad, "UidDomain") or settings.uid_domain)
    if not to.addresses:
        return None, to.refused
    subject = f"Condor Job {notice.job.key}{_SUBJECTS[notice.kind]}"
    return framed(to.addresses, subject, _body(notice, ad, now), settings), to.refused


_SUBJECTS = {
    NoticeKind.STARTED: "",
    NoticeKind.EXITED: "",
    NoticeKind.REQUEUED: "",
    NoticeKind.HELD: " put on hold",
    NoticeKind.REMOVED: " removed",
}


def _whom(ad: ClassAd) -> str:
    return _text(ad, "NotifyUser") or _text(ad, "Owner")


def _body(notice: Notice, ad: ClassAd, now: float) -> str:
    about = _about(notice, ad)
    reason = line_of(notice.reason)
    match notice.kind:
        case NoticeKind.STARTED:
            return f"{about}\nhas started on {line_of(_text(ad, 'RemoteHost'))}\n\n"
        case NoticeKind.HELD:
            return f"{about}\nis being put on hold.\n\n{reason}"
        case NoticeKind.REMOVED:
            return f"{about}\nis being removed.\n\n{reason}"
    return about + _exit(notice, ad, now) + _network(notice, ad) + _attributes(ad)


def _about(notice: Notice, ad: ClassAd) -> str:
    lines = [f"Condor job {notice.job.key}"]
    arguments = _text(ad, "Arguments") or _text(ad, "Args")
    if command := _text(ad, "Cmd"):
        lines.append("\t" + line_of(f"{command} {arguments}" if arguments else command))
    if batch := _text(ad, "JobBatchName"):
        lines.append(f"\tfrom batch {line_of(batch)}")
    if directory := _text(ad, "Iwd"):
        lines.append(f"\tsubmitted from directory {line_of(directory)}")
    return "".join(f"{line}\n" for line in lines)


def _exit(notice: Notice, ad: ClassAd, now: float) -> str:
    submitted = _number(ad, "QDate")
    user_s, system_s = _number(ad, "RemoteUserCpu"), _number(ad, "RemoteSysCpu")
    times = f"Submitted at:        {_date(submitted)}\n"
    if notice.kind is NoticeKind.EXITED:
        times += f"Completed at:        {_date(now)}\nReal Time:           {_duration(now - submitted)}\n"
    return (
        f"{_how(notice, ad)}\n"
        f"{'Core file generated' + chr(10) if notice.core else ''}"
        f"\n\n{times}\n"
        f"Virtual Image Size:  {int(_number(ad, 'ImageSize'))} Kilobytes\n\n"
        "Statistics from last run:\n"
        f"Allocation/Run time:     {_duration(_number(ad, 'LastRemoteWallClockTime'))}\n"
        f"Remote User CPU Time:    {_duration(user_s)}\n"
        f"Remote System CPU Time:  {_duration(system_s)}\n"
        f"Total Remote CPU Time:   {_duration(user_s + system_s)}\n\n"
        "Statistics totaled from all runs:\n"
        f"Allocation/Run time:     {_duration(_number(ad, 'RemoteWallClockTime'))}\n"
    )


def _how(notice: Notice, ad: ClassAd) -> str:
    if notice.kind is NoticeKind.REQUEUED:
        return "was evicted by condor, without a checkpoint"
    if ad.get("ExitBySignal") is True:
        return line_of(_text(ad, "ExitReason")) or f"died on signal {int(_number(ad, 'ExitSignal'))}"
    return f"exited normally with status {int(_number(ad, 'ExitCode'))}"


def _network(notice: Notice, ad: ClassAd) -> str:
    if int(_number(ad, "JobUniverse")) in (Universe.LOCAL, Universe.SCHEDULER):
        return ""
    return (
        "\nNetwork:\n"
        f"{_bytes(notice.received):>10} Run Bytes Received By Job\n"
        f"{_bytes(notice.sent):>10} Run Bytes Sent By Job\n"
        f"{_bytes(_number(ad, 'BytesRecvd')):>10} Total Bytes Received By Job\n"
        f"{_bytes(_number(ad, 'BytesSent')):>10} Total Bytes Sent By Job\n"
    )


def _attributes(ad: ClassAd) -> str:
    names = [name for name in re.split(r"[,\s]+", _text(ad, "EmailAttributes")) if name]
    lines = [f"{name} = {line_of(ad.lookup(name).print_old())}\n" for name in names[:_ATTRIBUTES_MOST] if name in ad]
    return "\n\n" + "".join(lines) if lines else ""


def _text(ad: ClassAd, name: str) -> str:
    value = ad.get(name)
    return value if isinstance(value, str) else ""


def _number(ad: ClassAd, name: str) -> float:
    return finite(ad.get(name))


#: The last second of the year 9999.
_LAST_DATE = 253_402_300_799


def _date(at: float) -> str:
    """As C's ``ctime`` without its newline, in the host's time."""
    return time.ctime(max(0.0, min(_LAST_DATE, at)))


def _duration(seconds: float) -> str:
    """HTCondor's ``days+hours:minutes:seconds``."""
    return f"{days_and_time(seconds):>12}"


def _bytes(value: float) -> str:
    power = 0
    while value > 1024.0 and power < len(_UNITS) - 1:
        value, power = value / 1024.0, power + 1
    return f"{value:.1f} {_UNITS[power]}"
