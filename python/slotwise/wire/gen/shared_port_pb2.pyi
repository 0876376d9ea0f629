from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Registration(_message.Message):
    __slots__ = ("host_secret", "connection", "error")
    HOST_SECRET_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    host_secret: str
    connection: str
    error: str
    def __init__(self, host_secret: _Optional[str] = ..., connection: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class ConnectionRequest(_message.Message):
    __slots__ = ("host_id", "connection", "sock", "caller")
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    SOCK_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    host_id: str
    connection: str
    sock: str
    caller: str
    def __init__(self, host_id: _Optional[str] = ..., connection: _Optional[str] = ..., sock: _Optional[str] = ..., caller: _Optional[str] = ...) -> None: ...
