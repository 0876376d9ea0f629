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
    __slots__ = ("kind", "constraint", "projection", "limit", "form", "count_by", "alone")
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
    ALONE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    constraint: str
    projection: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    form: AdQuery.Form
    count_by: _containers.RepeatedScalarFieldContainer[str]
    alone: bool
    def __init__(self, kind: _Optional[str] = ..., constraint: _Optional[str] = ..., projection: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., form: _Optional[_Union[AdQuery.Form, str]] = ..., count_by: _Optional[_Iterable[str]] = ..., alone: _Optional[bool] = ...) -> None: ...

class Page(_message.Message):
    __slots__ = ("order_by", "descending", "after")
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    DESCENDING_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    order_by: str
    descending: bool
    after: str
    def __init__(self, order_by: _Optional[str] = ..., descending: _Optional[bool] = ..., after: _Optional[str] = ...) -> None: ...

class AdChunk(_message.Message):
    __slots__ = ("data", "done", "total", "next")
    DATA_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    done: bool
    total: int
    next: str
    def __init__(self, data: _Optional[bytes] = ..., done: _Optional[bool] = ..., total: _Optional[int] = ..., next: _Optional[str] = ...) -> None: ...

class ErrorDetail(_message.Message):
    __slots__ = ("kind", "code", "message", "hint", "retry_after_s", "path", "errno", "origin", "key", "line", "column", "source")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    code: str
    message: str
    hint: str
    retry_after_s: float
    path: str
    errno: int
    origin: str
    key: str
    line: int
    column: int
    source: str
    def __init__(self, kind: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ..., retry_after_s: _Optional[float] = ..., path: _Optional[str] = ..., errno: _Optional[int] = ..., origin: _Optional[str] = ..., key: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., source: _Optional[str] = ...) -> None: ...
