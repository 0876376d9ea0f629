"""Event 028 of job event logs: what another event says, with attributes of the job, as an ad. Pure.

HTCondor writes it behind each event for jobs with JobAdInformationAttrs, and into the access point's own log for
EVENT_LOG_JOB_AD_INFORMATION_ATTRS. Its attributes are sorted by name, as HTCondor's are.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotwise.classad import ClassAd, ExprTree
from slotwise.model.job_event_reader import event_ad, parse
from slotwise.model.job_events import END, one_line

_NUMBER = 28
#: HTCondor's names of events, without ULOG_.
_NAMES = {
    0: "SUBMIT", 1: "EXECUTE", 2: "EXECUTABLE_ERROR", 3: "CHECKPOINTED", 4: "JOB_EVICTED", 5: "JOB_TERMINATED",
    6: "IMAGE_SIZE", 7: "SHADOW_EXCEPTION", 8: "GENERIC", 9: "JOB_ABORTED", 10: "JOB_SUSPENDED",
    11: "JOB_UNSUSPENDED", 12: "JOB_HELD", 13: "JOB_RELEASED", 14: "NODE_EXECUTE", 15: "NODE_TERMINATED",
    16: "POST_SCRIPT_TERMINATED", 21: "REMOTE_ERROR", 22: "JOB_DISCONNECTED", 23: "JOB_RECONNECTED",
    24: "JOB_RECONNECT_FAILED", 33: "ATTRIBUTE_UPDATE", 34: "PRESKIP", 35: "CLUSTER_SUBMIT", 36: "CLUSTER_REMOVE",
    37: "FACTORY_PAUSED", 38: "FACTORY_RESUMED", 40: "FILE_TRANSFER",
}  # fmt: skip


def ad_information(text: str, chosen: Mapping[str, bool | int | float | str], year: int) -> str:
    """The event 028 that follows an entry of a log.

    :param text: the entry, with its line of three dots.
    :param chosen: the attributes of the job, evaluated.
    :param year: the year of the entry, should its log not tell.
    """
    entry = parse(text.removesuffix(END), year)
    ad = event_ad(entry)
    ad.update(chosen)
    ad["TriggerEventTypeNumber"] = entry.number
    ad["TriggerEventTypeName"] = f"ULOG_{_NAMES.get(entry.number, 'FUTURE_EVENT')}"
    ad["EventTypeNumber"] = _NUMBER
    first = text.partition("\n")[0]
    head = f"{_NUMBER:03d}{first[3 : len(first) - len(entry.title)]}"
    lines = [f"{name} = {one_line(_value(ad, name))}\n" for name in sorted(ad, key=str.lower)]
    return f"{head}Job ad information event triggered.\n{''.join(lines)}{END}"


def _value(ad: ClassAd, name: str) -> str:
    tree = ad.lookup(name)
    return tree.print_old() if isinstance(tree, ExprTree) else str(tree)
