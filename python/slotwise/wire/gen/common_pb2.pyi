from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AdBatch(_message.Message):
    __slots__ = ("pack",)
    PACK_FIELD_NUMBER: _ClassVar[int]
    pack: bytes
    def __init__(self, pack: _Optional[bytes] = ...) -> None: ...

class AdQuery(_message.Message):
    __slots__ = ("kind", "constraint", "projection", "limit", "form", "count_by")
    class Form(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PACK: _ClassVar[AdQuery.Form]
        LONG: _ClassVar[AdQuery.Form]
        JSON: _ClassVar[AdQuery.Form]
        COUNT: _ClassVar[AdQuery.Form]
    PACK: AdQuery.Form
    LONG: AdQuery.Form
    JSON: AdQuery.Form
    COUNT: AdQuery.Form
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    PROJECTION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    COUNT_BY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    constraint: str
    projection: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    form: AdQuery.Form
    count_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., constraint: _Optional[str] = ..., projection: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., form: _Optional[_Union[AdQuery.Form, str]] = ..., count_by: _Optional[_Iterable[str]] = ...) -> None: ...

class AdChunk(_message.Message):
    __slots__ = ("data", "done", "total")
    DATA_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    done: bool
    total: int
    def __init__(self, data: _Optional[bytes] = ..., done: _Optional[bool] = ..., total: _Optional[int] = ...) -> None: ...
