"""Slotwise from Python: submit, query and act on jobs, and query the daemons of any pool.

>>> schedd = Schedd()                                       # the pool named by SLOTWISE_HOME
>>> result = schedd.submit({"executable": "/bin/sleep", "arguments": "10"}, count=5)
>>> schedd.query(f"ClusterId == {result.cluster}", ["ProcId", "JobStatus"])
>>> schedd.act("hold", f"{result.cluster}.0", reason="later")
>>> schedd.act("release", f"{result.cluster}.0")
>>> [job["ExitCode"] for job in schedd.wait(result)]

:class:`Collector`, :class:`Negotiator` and :class:`Startd` talk to the other daemons. Each class has a twin for asyncio
(:class:`AsyncSchedd`, ...) with the same calls as coroutines; many may be under way at once, and the schedd makes those
that arrive together durable together. :class:`EventLog` reads job event logs, :class:`JobExecutor` runs Python calls as
jobs, :class:`Dag` makes and submits DAGs. Ads come as an :class:`AdList`, which is a table in notebooks and makes
frames for pandas and polars.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slotwise.client.ad_list import AdList
    from slotwise.client.collector import AsyncCollector, Collector
    from slotwise.client.convert import ActResult, SubmitResult
    from slotwise.client.dag import Dag, DagJob, DagNode, NodeState, submit_dag
    from slotwise.client.descriptions import Description
    from slotwise.client.event_log import EventLog
    from slotwise.client.executor import JobExecutor, JobFailedError, JobFuture
    from slotwise.client.negotiator import AsyncNegotiator, Negotiator
    from slotwise.client.schedd import AsyncSchedd, Schedd
    from slotwise.client.startd import AsyncStartd, Startd
    from slotwise.model.job_status import JobStatus

#: Where each name is defined; loaded on first use, so that users of one part do not load all of it.
_MODULES = {
    "ActResult": "convert",
    "AdList": "ad_list",
    "AsyncCollector": "collector",
    "AsyncNegotiator": "negotiator",
    "AsyncSchedd": "schedd",
    "AsyncStartd": "startd",
    "Collector": "collector",
    "Dag": "dag",
    "DagJob": "dag",
    "DagNode": "dag",
    "Description": "descriptions",
    "EventLog": "event_log",
    "JobExecutor": "executor",
    "JobFailedError": "executor",
    "JobFuture": "executor",
    "JobStatus": "waiting",
    "Negotiator": "negotiator",
    "NodeState": "dag",
    "Schedd": "schedd",
    "Startd": "startd",
    "SubmitResult": "convert",
    "submit_dag": "dag",
}

__all__ = [
    "ActResult",
    "AdList",
    "AsyncCollector",
    "AsyncNegotiator",
    "AsyncSchedd",
    "AsyncStartd",
    "Collector",
    "Dag",
    "DagJob",
    "DagNode",
    "Description",
    "EventLog",
    "JobExecutor",
    "JobFailedError",
    "JobFuture",
    "JobStatus",
    "Negotiator",
    "NodeState",
    "Schedd",
    "Startd",
    "SubmitResult",
    "submit_dag",
]


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "annotations", "import_module"})
