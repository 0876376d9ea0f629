from slotwise.wire.gen import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobCommand(_message.Message):
    __slots__ = ("run_id", "start", "kill", "suspend", "list", "forget", "facts", "left_noted", "slot_usage", "end_noted", "repair_noted", "shadow_moved", "more")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    KILL_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    LEFT_NOTED_FIELD_NUMBER: _ClassVar[int]
    SLOT_USAGE_FIELD_NUMBER: _ClassVar[int]
    END_NOTED_FIELD_NUMBER: _ClassVar[int]
    REPAIR_NOTED_FIELD_NUMBER: _ClassVar[int]
    SHADOW_MOVED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    start: StartJob
    kill: KillJob
    suspend: SuspendJob
    list: ListJobs
    forget: ForgetJob
    facts: HostFactsQuery
    left_noted: LeftNoted
    slot_usage: _common_pb2.AdBatch
    end_noted: EndNoted
    repair_noted: RepairNoted
    shadow_moved: ShadowMoved
    more: _containers.RepeatedCompositeFieldContainer[JobCommand]
    def __init__(self, run_id: _Optional[str] = ..., start: _Optional[_Union[StartJob, _Mapping]] = ..., kill: _Optional[_Union[KillJob, _Mapping]] = ..., suspend: _Optional[_Union[SuspendJob, _Mapping]] = ..., list: _Optional[_Union[ListJobs, _Mapping]] = ..., forget: _Optional[_Union[ForgetJob, _Mapping]] = ..., facts: _Optional[_Union[HostFactsQuery, _Mapping]] = ..., left_noted: _Optional[_Union[LeftNoted, _Mapping]] = ..., slot_usage: _Optional[_Union[_common_pb2.AdBatch, _Mapping]] = ..., end_noted: _Optional[_Union[EndNoted, _Mapping]] = ..., repair_noted: _Optional[_Union[RepairNoted, _Mapping]] = ..., shadow_moved: _Optional[_Union[ShadowMoved, _Mapping]] = ..., more: _Optional[_Iterable[_Union[JobCommand, _Mapping]]] = ...) -> None: ...

class StartJob(_message.Message):
    __slots__ = ("job_ad", "slot_ad", "slot_name", "run_token", "shadow_address", "limits", "lease_s", "fetched_for")
    JOB_AD_FIELD_NUMBER: _ClassVar[int]
    SLOT_AD_FIELD_NUMBER: _ClassVar[int]
    SLOT_NAME_FIELD_NUMBER: _ClassVar[int]
    RUN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SHADOW_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    FETCHED_FOR_FIELD_NUMBER: _ClassVar[int]
    job_ad: bytes
    slot_ad: bytes
    slot_name: str
    run_token: str
    shadow_address: str
    limits: bytes
    lease_s: int
    fetched_for: str
    def __init__(self, job_ad: _Optional[bytes] = ..., slot_ad: _Optional[bytes] = ..., slot_name: _Optional[str] = ..., run_token: _Optional[str] = ..., shadow_address: _Optional[str] = ..., limits: _Optional[bytes] = ..., lease_s: _Optional[int] = ..., fetched_for: _Optional[str] = ...) -> None: ...

class EndNoted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KillJob(_message.Message):
    __slots__ = ("fast", "reason", "reason_code", "reason_subcode", "vacate_s", "hold")
    FAST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_SUBCODE_FIELD_NUMBER: _ClassVar[int]
    VACATE_S_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    fast: bool
    reason: str
    reason_code: int
    reason_subcode: int
    vacate_s: int
    hold: bool
    def __init__(self, fast: _Optional[bool] = ..., reason: _Optional[str] = ..., reason_code: _Optional[int] = ..., reason_subcode: _Optional[int] = ..., vacate_s: _Optional[int] = ..., hold: _Optional[bool] = ...) -> None: ...

class SuspendJob(_message.Message):
    __slots__ = ("resume",)
    RESUME_FIELD_NUMBER: _ClassVar[int]
    resume: bool
    def __init__(self, resume: _Optional[bool] = ...) -> None: ...

class ListJobs(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ForgetJob(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeftNoted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RepairNoted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShadowMoved(_message.Message):
    __slots__ = ("address", "run_ids")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    address: str
    run_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, address: _Optional[str] = ..., run_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class JobEvent(_message.Message):
    __slots__ = ("run_id", "running", "gone", "usage", "suspended", "jobs", "refused", "repaired", "host_facts", "more")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_FIELD_NUMBER: _ClassVar[int]
    HOST_FACTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    running: JobRunning
    gone: JobGone
    usage: _common_pb2.AdBatch
    suspended: JobSuspended
    jobs: JobList
    refused: JobRefused
    repaired: JobRepaired
    host_facts: _common_pb2.AdBatch
    more: _containers.RepeatedCompositeFieldContainer[JobEvent]
    def __init__(self, run_id: _Optional[str] = ..., running: _Optional[_Union[JobRunning, _Mapping]] = ..., gone: _Optional[_Union[JobGone, _Mapping]] = ..., usage: _Optional[_Union[_common_pb2.AdBatch, _Mapping]] = ..., suspended: _Optional[_Union[JobSuspended, _Mapping]] = ..., jobs: _Optional[_Union[JobList, _Mapping]] = ..., refused: _Optional[_Union[JobRefused, _Mapping]] = ..., repaired: _Optional[_Union[JobRepaired, _Mapping]] = ..., host_facts: _Optional[_Union[_common_pb2.AdBatch, _Mapping]] = ..., more: _Optional[_Iterable[_Union[JobEvent, _Mapping]]] = ...) -> None: ...

class HostFactsQuery(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class JobRunning(_message.Message):
    __slots__ = ("pid", "phase")
    PID_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    pid: int
    phase: str
    def __init__(self, pid: _Optional[int] = ..., phase: _Optional[str] = ...) -> None: ...

class JobGone(_message.Message):
    __slots__ = ("how", "broken", "reason", "code", "cpu_s", "left", "bytes_received", "bytes_sent", "fetched", "finished")
    HOW_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    BYTES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    how: str
    broken: bool
    reason: str
    code: int
    cpu_s: float
    left: JobLeft
    bytes_received: float
    bytes_sent: float
    fetched: bool
    finished: bool
    def __init__(self, how: _Optional[str] = ..., broken: _Optional[bool] = ..., reason: _Optional[str] = ..., code: _Optional[int] = ..., cpu_s: _Optional[float] = ..., left: _Optional[_Union[JobLeft, _Mapping]] = ..., bytes_received: _Optional[float] = ..., bytes_sent: _Optional[float] = ..., fetched: _Optional[bool] = ..., finished: _Optional[bool] = ...) -> None: ...

class JobRepaired(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class JobSuspended(_message.Message):
    __slots__ = ("resumed",)
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    resumed: bool
    def __init__(self, resumed: _Optional[bool] = ...) -> None: ...

class JobList(_message.Message):
    __slots__ = ("jobs", "left", "repaired")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobListed]
    left: _containers.RepeatedCompositeFieldContainer[JobLeft]
    repaired: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobListed, _Mapping]]] = ..., left: _Optional[_Iterable[_Union[JobLeft, _Mapping]]] = ..., repaired: _Optional[_Iterable[str]] = ...) -> None: ...

class JobLeft(_message.Message):
    __slots__ = ("run_id", "slot_name", "reason", "code", "cpus", "memory_mib", "disk_kib", "assigned")
    class AssignedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    DISK_KIB_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    slot_name: str
    reason: str
    code: int
    cpus: float
    memory_mib: int
    disk_kib: int
    assigned: _containers.ScalarMap[str, str]
    def __init__(self, run_id: _Optional[str] = ..., slot_name: _Optional[str] = ..., reason: _Optional[str] = ..., code: _Optional[int] = ..., cpus: _Optional[float] = ..., memory_mib: _Optional[int] = ..., disk_kib: _Optional[int] = ..., assigned: _Optional[_Mapping[str, str]] = ...) -> None: ...

class JobListed(_message.Message):
    __slots__ = ("run_id", "slot_name", "pid", "phase", "suspended", "shadow_address")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_NAME_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    SHADOW_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    slot_name: str
    pid: int
    phase: str
    suspended: bool
    shadow_address: str
    def __init__(self, run_id: _Optional[str] = ..., slot_name: _Optional[str] = ..., pid: _Optional[int] = ..., phase: _Optional[str] = ..., suspended: _Optional[bool] = ..., shadow_address: _Optional[str] = ...) -> None: ...

class JobRefused(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...
