from slotwise.wire.gen import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingReply(_message.Message):
    __slots__ = ("daemon", "name", "version", "started_at", "identity", "scopes", "method", "access", "certificate_port", "account", "certificate_sock")
    DAEMON_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_PORT_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_SOCK_FIELD_NUMBER: _ClassVar[int]
    daemon: str
    name: str
    version: str
    started_at: int
    identity: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    method: str
    access: _containers.RepeatedCompositeFieldContainer[Access]
    certificate_port: int
    account: str
    certificate_sock: str
    def __init__(self, daemon: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[str] = ..., started_at: _Optional[int] = ..., identity: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., method: _Optional[str] = ..., access: _Optional[_Iterable[_Union[Access, _Mapping]]] = ..., certificate_port: _Optional[int] = ..., account: _Optional[str] = ..., certificate_sock: _Optional[str] = ...) -> None: ...

class Access(_message.Message):
    __slots__ = ("level", "allowed", "reason", "knob", "entry", "origin")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    KNOB_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    level: str
    allowed: bool
    reason: str
    knob: str
    entry: str
    origin: str
    def __init__(self, level: _Optional[str] = ..., allowed: _Optional[bool] = ..., reason: _Optional[str] = ..., knob: _Optional[str] = ..., entry: _Optional[str] = ..., origin: _Optional[str] = ...) -> None: ...

class ReconfigReply(_message.Message):
    __slots__ = ("warnings",)
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ("mode",)
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        GRACEFUL: _ClassVar[ShutdownRequest.Mode]
        FAST: _ClassVar[ShutdownRequest.Mode]
        PEACEFUL: _ClassVar[ShutdownRequest.Mode]
    GRACEFUL: ShutdownRequest.Mode
    FAST: ShutdownRequest.Mode
    PEACEFUL: ShutdownRequest.Mode
    MODE_FIELD_NUMBER: _ClassVar[int]
    mode: ShutdownRequest.Mode
    def __init__(self, mode: _Optional[_Union[ShutdownRequest.Mode, str]] = ...) -> None: ...

class ConfigValuesRequest(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class SetConfigRequest(_message.Message):
    __slots__ = ("name", "value", "runtime")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    runtime: bool
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., runtime: _Optional[bool] = ...) -> None: ...

class FetchLogRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class LogPiece(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class StatisticsRequest(_message.Message):
    __slots__ = ("publish",)
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    publish: str
    def __init__(self, publish: _Optional[str] = ...) -> None: ...

class StatisticsReply(_message.Message):
    __slots__ = ("values",)
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, float]
    def __init__(self, values: _Optional[_Mapping[str, float]] = ...) -> None: ...

class MetricsReply(_message.Message):
    __slots__ = ("families",)
    FAMILIES_FIELD_NUMBER: _ClassVar[int]
    families: _containers.RepeatedCompositeFieldContainer[MetricFamily]
    def __init__(self, families: _Optional[_Iterable[_Union[MetricFamily, _Mapping]]] = ...) -> None: ...

class MetricFamily(_message.Message):
    __slots__ = ("name", "type", "help", "samples")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    HELP_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    help: str
    samples: _containers.RepeatedCompositeFieldContainer[MetricSample]
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., help: _Optional[str] = ..., samples: _Optional[_Iterable[_Union[MetricSample, _Mapping]]] = ...) -> None: ...

class MetricSample(_message.Message):
    __slots__ = ("name", "labels", "value")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    labels: _containers.ScalarMap[str, str]
    value: float
    def __init__(self, name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., value: _Optional[float] = ...) -> None: ...

class ConfigValuesReply(_message.Message):
    __slots__ = ("values",)
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, str]
    def __init__(self, values: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DaemonNames(_message.Message):
    __slots__ = ("names", "mode")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    mode: ShutdownRequest.Mode
    def __init__(self, names: _Optional[_Iterable[str]] = ..., mode: _Optional[_Union[ShutdownRequest.Mode, str]] = ...) -> None: ...

class ShutdownProgram(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ("names", "mode", "at_once")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    mode: ShutdownRequest.Mode
    at_once: bool
    def __init__(self, names: _Optional[_Iterable[str]] = ..., mode: _Optional[_Union[ShutdownRequest.Mode, str]] = ..., at_once: _Optional[bool] = ...) -> None: ...

class MasterStatus(_message.Message):
    __slots__ = ("daemons",)
    DAEMONS_FIELD_NUMBER: _ClassVar[int]
    daemons: _containers.RepeatedCompositeFieldContainer[DaemonStatus]
    def __init__(self, daemons: _Optional[_Iterable[_Union[DaemonStatus, _Mapping]]] = ...) -> None: ...

class DaemonStatus(_message.Message):
    __slots__ = ("name", "pid", "state", "started_at", "restarts", "address", "last_exit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LAST_EXIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    pid: int
    state: str
    started_at: int
    restarts: int
    address: str
    last_exit: str
    def __init__(self, name: _Optional[str] = ..., pid: _Optional[int] = ..., state: _Optional[str] = ..., started_at: _Optional[int] = ..., restarts: _Optional[int] = ..., address: _Optional[str] = ..., last_exit: _Optional[str] = ...) -> None: ...
