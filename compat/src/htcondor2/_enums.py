"""Constants of htcondor2, with HTCondor's names and numbers."""

from __future__ import annotations

import enum


class SubsystemType(enum.IntEnum):
    """Kinds of programs, for `set_subsystem`."""

    Master = 1
    Collector = 2
    Negotiator = 3
    Schedd = 4
    Shadow = 5
    Startd = 6
    Starter = 7
    GAHP = 8
    Dagman = 9
    SharedPort = 10
    Daemon = 11
    Tool = 12
    Submit = 13
    Job = 14
    Auto = 15


class DaemonType(enum.IntEnum):
    """Kinds of daemons, for `Collector.locate`."""

    none = 0
    Any = 1
    Master = 2
    Schedd = 3
    Startd = 4
    Collector = 5
    Negotiator = 6
    Credd = 13
    Placementd = 15
    HAD = 17
    Generic = 18


class AdType(enum.IntEnum):
    """Kinds of ads in a collector."""

    Startd = 0
    Schedd = 1
    Master = 2
    StartdPrivate = 5
    Submitter = 6
    Collector = 7
    License = 8
    Any = 10
    Negotiator = 13
    HAD = 14
    Generic = 15
    Credd = 16
    Grid = 19
    Placementd = 20
    Defrag = 22
    Accounting = 23
    Slot = 24
    StartDaemon = 25

    @staticmethod
    def from_MyType(name: str) -> AdType | None:
        """The kind of the ads with this MyType; None where there is none."""
        return _OF_MY_TYPE.get(name)


class DrainType(enum.IntEnum):
    """How jobs leave a machine that is drained."""

    Graceful = 0
    Quick = 10
    Fast = 20


class VacateType(enum.IntEnum):
    """How a job leaves its slot."""

    Graceful = 0
    Fast = 1


class CompletionType(enum.IntEnum):
    """What a machine does once it is drained."""

    Nothing = 0
    Resume = 1
    Exit = 2
    Restart = 3
    Reconfig = 4


class CredType(enum.IntEnum):
    """Kinds of credentials."""

    Password = 36
    Kerberos = 32
    OAuth = 40


class QueryOpt(enum.IntFlag):
    """What a query of the queue returns besides jobs."""

    Default = 0
    AutoCluster = 1
    GroupBy = 2
    DefaultMyJobsOnly = 4
    SummaryOnly = 8
    IncludeClusterAd = 16
    IncludeJobsetAds = 32


class JobAction(enum.IntEnum):
    """What can be done to jobs."""

    Hold = 1
    Release = 2
    Remove = 3
    RemoveX = 4
    Vacate = 5
    VacateFast = 6
    Suspend = 8
    Continue = 9


class TransactionFlag(enum.IntFlag):
    """How an edit is stored."""

    Default = 0
    NonDurable = 1
    SetDirty = 4
    ShouldLog = 8


class JobEventType(enum.IntEnum):
    """Numbers of events in job event logs."""

    SUBMIT = 0
    EXECUTE = 1
    EXECUTABLE_ERROR = 2
    CHECKPOINTED = 3
    JOB_EVICTED = 4
    JOB_TERMINATED = 5
    IMAGE_SIZE = 6
    SHADOW_EXCEPTION = 7
    GENERIC = 8
    JOB_ABORTED = 9
    JOB_SUSPENDED = 10
    JOB_UNSUSPENDED = 11
    JOB_HELD = 12
    JOB_RELEASED = 13
    NODE_EXECUTE = 14
    NODE_TERMINATED = 15
    POST_SCRIPT_TERMINATED = 16
    GLOBUS_SUBMIT = 17
    GLOBUS_SUBMIT_FAILED = 18
    GLOBUS_RESOURCE_UP = 19
    GLOBUS_RESOURCE_DOWN = 20
    REMOTE_ERROR = 21
    JOB_DISCONNECTED = 22
    JOB_RECONNECTED = 23
    JOB_RECONNECT_FAILED = 24
    GRID_RESOURCE_UP = 25
    GRID_RESOURCE_DOWN = 26
    GRID_SUBMIT = 27
    JOB_AD_INFORMATION = 28
    JOB_STATUS_UNKNOWN = 29
    JOB_STATUS_KNOWN = 30
    JOB_STAGE_IN = 31
    JOB_STAGE_OUT = 32
    ATTRIBUTE_UPDATE = 33
    PRESKIP = 34
    CLUSTER_SUBMIT = 35
    CLUSTER_REMOVE = 36
    FACTORY_PAUSED = 37
    FACTORY_RESUMED = 38
    NONE = 39
    FILE_TRANSFER = 40
    RESERVE_SPACE = 41
    RELEASE_SPACE = 42
    FILE_COMPLETE = 43
    FILE_USED = 44
    FILE_REMOVED = 45
    DATAFLOW_JOB_SKIPPED = 46
    COMMON_FILES = 47
    EP_STARTUP = 100
    EP_READY = 101
    EP_RECONFIG = 102
    EP_SHUTDOWN = 103
    EP_REQUEST_CLAIM = 104
    EP_RELEASE_CLAIM = 105
    EP_ACTIVATE_CLAIM = 106
    EP_DEACTIVATE_CLAIM = 107
    EP_VACATE_CLAIM = 108
    EP_DRAIN = 109
    EP_RESOURCE_BREAK = 110
    EP_RESOURCE_MEND = 111


class FileTransferEventType(enum.IntEnum):
    """Stages of file transfers."""

    IN_QUEUED = 1
    IN_STARTED = 2
    IN_FINISHED = 3
    OUT_QUEUED = 4
    OUT_STARTED = 5
    OUT_FINISHED = 6


class LogLevel(enum.IntEnum):
    """Categories of log messages."""

    Always = 0
    Error = 1
    Status = 2
    Job = 4
    Machine = 5
    Config = 6
    Protocol = 7
    Priv = 8
    DaemonCore = 9
    Verbose = 10
    Security = 11
    Network = 14
    Hostname = 22
    Audit = 24
    Terse = 0
    FullDebug = 1024
    SubSecond = 67108864
    Timestamp = 134217728
    PID = 268435456
    NoHeader = 2147483648


class DaemonCommand(enum.IntEnum):
    """Commands to daemons, for `send_command`."""

    DaemonOn = 469
    DaemonOff = 467
    DaemonOffFast = 468
    DaemonOffPeaceful = 469
    DaemonsOn = 483
    DaemonsOff = 454
    DaemonsOffFast = 461
    DaemonsOffPeaceful = 484
    OffFast = 60006
    OffForce = 60042
    OffGraceful = 60005
    OffPeaceful = 60015
    Reconfig = 60004
    Restart = 453
    RestartPeaceful = 485
    SetForceShutdown = 60041
    SetPeacefulShutdown = 60016


class SubmitMethod(enum.IntEnum):
    """What a job was submitted with (JobSubmitMethod)."""

    CondorSubmit = 0
    DAGMan = 1
    PythonBindings = 2
    HTCondorJobSubmit = 3
    HTCondorDagSubmit = 4
    HTCondorJobSetSubmit = 5
    UserSet = 100
    MinReserved = 0
    MaxReserved = 100


class HistorySrc(enum.IntEnum):
    """Which history is read."""

    ScheddJob = 0
    StartdJob = 1
    JobEpoch = 2
    Daemon = 3


class CommonFilesEventType(enum.IntEnum):
    """Stages of transfers of common files."""

    TransferQueued = 1
    TransferStarted = 2
    TransferFinished = 3
    WaitStarted = 4
    WaitFinished = 5


class JobStatus(enum.IntEnum):
    """States of jobs (JobStatus)."""

    IDLE = 1
    RUNNING = 2
    REMOVED = 3
    COMPLETED = 4
    HELD = 5
    TRANSFERRING_OUTPUT = 6
    SUSPENDED = 7


_OF_MY_TYPE = {
    "Machine": AdType.Slot,
    "Scheduler": AdType.Schedd,
    "DaemonMaster": AdType.Master,
    "MachinePrivate": AdType.StartdPrivate,
    "Submitter": AdType.Submitter,
    "Collector": AdType.Collector,
    "License": AdType.License,
    "Any": AdType.Any,
    "Negotiator": AdType.Negotiator,
    "HAD": AdType.HAD,
    "Generic": AdType.Generic,
    "CredD": AdType.Credd,
    "Grid": AdType.Grid,
    "PlacementD": AdType.Placementd,
    "Accounting": AdType.Accounting,
}
