from slotwise.wire.gen import common_pb2 as _common_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RescheduleRequest(_message.Message):
    __slots__ = ("schedd_name", "on_demand", "schedd_address")
    SCHEDD_NAME_FIELD_NUMBER: _ClassVar[int]
    ON_DEMAND_FIELD_NUMBER: _ClassVar[int]
    SCHEDD_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    schedd_name: str
    on_demand: bool
    schedd_address: str
    def __init__(self, schedd_name: _Optional[str] = ..., on_demand: _Optional[bool] = ..., schedd_address: _Optional[str] = ...) -> None: ...

class RescheduleReply(_message.Message):
    __slots__ = ("started",)
    STARTED_FIELD_NUMBER: _ClassVar[int]
    started: bool
    def __init__(self, started: _Optional[bool] = ...) -> None: ...

class AccountingEdit(_message.Message):
    __slots__ = ("what", "submitter", "value", "duration_s")
    class What(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PRIORITY: _ClassVar[AccountingEdit.What]
        FACTOR: _ClassVar[AccountingEdit.What]
        CEILING: _ClassVar[AccountingEdit.What]
        FLOOR: _ClassVar[AccountingEdit.What]
        ACCUMULATED_USAGE: _ClassVar[AccountingEdit.What]
        BEGIN_TIME: _ClassVar[AccountingEdit.What]
        LAST_TIME: _ClassVar[AccountingEdit.What]
        DELETE: _ClassVar[AccountingEdit.What]
        RESET_USAGE: _ClassVar[AccountingEdit.What]
        RESET_ALL: _ClassVar[AccountingEdit.What]
        CANCEL_FACTOR_LEASE: _ClassVar[AccountingEdit.What]
        CANCEL_CEILING_LEASE: _ClassVar[AccountingEdit.What]
        CANCEL_FLOOR_LEASE: _ClassVar[AccountingEdit.What]
    PRIORITY: AccountingEdit.What
    FACTOR: AccountingEdit.What
    CEILING: AccountingEdit.What
    FLOOR: AccountingEdit.What
    ACCUMULATED_USAGE: AccountingEdit.What
    BEGIN_TIME: AccountingEdit.What
    LAST_TIME: AccountingEdit.What
    DELETE: AccountingEdit.What
    RESET_USAGE: AccountingEdit.What
    RESET_ALL: AccountingEdit.What
    CANCEL_FACTOR_LEASE: AccountingEdit.What
    CANCEL_CEILING_LEASE: AccountingEdit.What
    CANCEL_FLOOR_LEASE: AccountingEdit.What
    WHAT_FIELD_NUMBER: _ClassVar[int]
    SUBMITTER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    what: AccountingEdit.What
    submitter: str
    value: float
    duration_s: int
    def __init__(self, what: _Optional[_Union[AccountingEdit.What, str]] = ..., submitter: _Optional[str] = ..., value: _Optional[float] = ..., duration_s: _Optional[int] = ...) -> None: ...

class SnapshotRequest(_message.Message):
    __slots__ = ("dry_run",)
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    def __init__(self, dry_run: _Optional[bool] = ...) -> None: ...

class SnapshotFile(_message.Message):
    __slots__ = ("name", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    data: bytes
    def __init__(self, name: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class AnalyzeRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: bytes
    def __init__(self, job: _Optional[bytes] = ...) -> None: ...

class AnalyzeReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class LastCycleReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...
