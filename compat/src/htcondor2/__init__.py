"""HTCondor's module htcondor2, for programs that use it in a Slotwise pool.

The pool is the one that ``SLOTWISE_HOME``, ``CONDOR_CONFIG`` and ``CONDOR_HOST`` name, as for the commands. What this
pool does not have (a placementd, exports of jobs, delegated proxies) raises :class:`HTCondorException` with what to do.
"""

from __future__ import annotations

import classad2 as classad

from htcondor2._collector import Collector
from htcondor2._config import RemoteParam, param, reload_config, set_subsystem
from htcondor2._credd import CredCheck, Credd
from htcondor2._enums import (
    AdType,
    CommonFilesEventType,
    CompletionType,
    CredType,
    DaemonCommand,
    DaemonType,
    DrainType,
    FileTransferEventType,
    HistorySrc,
    JobAction,
    JobEventType,
    JobStatus,
    LogLevel,
    QueryOpt,
    SubmitMethod,
    SubsystemType,
    TransactionFlag,
    VacateType,
)
from htcondor2._errors import HTCondorException
from htcondor2._functions import (
    DAGMan,
    Placementd,
    disable_debug,
    enable_debug,
    enable_log,
    log,
    ping,
    platform,
    send_alive,
    send_command,
    set_ready_state,
    version,
)
from htcondor2._job_event import JobEvent, JobEventLog
from htcondor2._negotiator import Negotiator
from htcondor2._schedd import Schedd
from htcondor2._security import SecurityContext
from htcondor2._startd import Startd
from htcondor2._submit import Submit, SubmitResult

# The names of version 1.
AdTypes = AdType
CredTypes = CredType
DaemonCommands = DaemonCommand
DaemonTypes = DaemonType
DrainTypes = DrainType
QueryOpts = QueryOpt
TransactionFlags = TransactionFlag

__all__ = [
    "AdType",
    "AdTypes",
    "Collector",
    "CommonFilesEventType",
    "CompletionType",
    "CredCheck",
    "CredType",
    "CredTypes",
    "Credd",
    "DAGMan",
    "DaemonCommand",
    "DaemonCommands",
    "DaemonType",
    "DaemonTypes",
    "DrainType",
    "DrainTypes",
    "FileTransferEventType",
    "HTCondorException",
    "HistorySrc",
    "JobAction",
    "JobEvent",
    "JobEventLog",
    "JobEventType",
    "JobStatus",
    "LogLevel",
    "Negotiator",
    "Placementd",
    "QueryOpt",
    "QueryOpts",
    "RemoteParam",
    "Schedd",
    "SecurityContext",
    "Startd",
    "Submit",
    "SubmitMethod",
    "SubmitResult",
    "SubsystemType",
    "TransactionFlag",
    "TransactionFlags",
    "VacateType",
    "classad",
    "disable_debug",
    "enable_debug",
    "enable_log",
    "log",
    "param",
    "ping",
    "platform",
    "reload_config",
    "send_alive",
    "send_command",
    "set_ready_state",
    "set_subsystem",
    "version",
]
