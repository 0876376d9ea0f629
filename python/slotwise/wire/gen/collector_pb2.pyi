from slotwise.wire.gen import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AdvertiseRequest(_message.Message):
    __slots__ = ("kind", "pack", "serial", "private", "goes_offline")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_FIELD_NUMBER: _ClassVar[int]
    GOES_OFFLINE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    pack: bytes
    serial: int
    private: bool
    goes_offline: bool
    def __init__(self, kind: _Optional[str] = ..., pack: _Optional[bytes] = ..., serial: _Optional[int] = ..., private: _Optional[bool] = ..., goes_offline: _Optional[bool] = ...) -> None: ...

class AdvertiseReply(_message.Message):
    __slots__ = ("serial", "accepted", "resend", "refused")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    RESEND_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    serial: int
    accepted: int
    resend: _containers.RepeatedScalarFieldContainer[str]
    refused: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, serial: _Optional[int] = ..., accepted: _Optional[int] = ..., resend: _Optional[_Iterable[str]] = ..., refused: _Optional[_Iterable[str]] = ...) -> None: ...

class InvalidateRequest(_message.Message):
    __slots__ = ("kind", "keys", "constraint")
    KIND_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    constraint: str
    def __init__(self, kind: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., constraint: _Optional[str] = ...) -> None: ...

class InvalidateReply(_message.Message):
    __slots__ = ("removed",)
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: int
    def __init__(self, removed: _Optional[int] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("kinds", "include_private", "max_delay_ms")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_PRIVATE_FIELD_NUMBER: _ClassVar[int]
    MAX_DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    include_private: bool
    max_delay_ms: int
    def __init__(self, kinds: _Optional[_Iterable[str]] = ..., include_private: _Optional[bool] = ..., max_delay_ms: _Optional[int] = ...) -> None: ...

class SubscribeReply(_message.Message):
    __slots__ = ("kind", "pack", "complete", "private", "version")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    pack: bytes
    complete: bool
    private: bool
    version: int
    def __init__(self, kind: _Optional[str] = ..., pack: _Optional[bytes] = ..., complete: _Optional[bool] = ..., private: _Optional[bool] = ..., version: _Optional[int] = ...) -> None: ...

class SleepsRequest(_message.Message):
    __slots__ = ("since", "until", "machines")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    since: int
    until: int
    machines: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, since: _Optional[int] = ..., until: _Optional[int] = ..., machines: _Optional[_Iterable[str]] = ...) -> None: ...

class Sleep(_message.Message):
    __slots__ = ("machine", "level", "began", "ended", "saved_watts")
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    SAVED_WATTS_FIELD_NUMBER: _ClassVar[int]
    machine: str
    level: int
    began: int
    ended: int
    saved_watts: float
    def __init__(self, machine: _Optional[str] = ..., level: _Optional[int] = ..., began: _Optional[int] = ..., ended: _Optional[int] = ..., saved_watts: _Optional[float] = ...) -> None: ...

class SleepsReply(_message.Message):
    __slots__ = ("sleeps",)
    SLEEPS_FIELD_NUMBER: _ClassVar[int]
    sleeps: _containers.RepeatedCompositeFieldContainer[Sleep]
    def __init__(self, sleeps: _Optional[_Iterable[_Union[Sleep, _Mapping]]] = ...) -> None: ...
