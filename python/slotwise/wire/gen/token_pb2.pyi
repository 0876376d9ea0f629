from slotwise.wire.gen import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FetchTokenRequest(_message.Message):
    __slots__ = ("scopes", "lifetime_s")
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    scopes: _containers.RepeatedScalarFieldContainer[str]
    lifetime_s: int
    def __init__(self, scopes: _Optional[_Iterable[str]] = ..., lifetime_s: _Optional[int] = ...) -> None: ...

class TokenReply(_message.Message):
    __slots__ = ("token", "trust")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    token: str
    trust: str
    def __init__(self, token: _Optional[str] = ..., trust: _Optional[str] = ...) -> None: ...

class TokenRequest(_message.Message):
    __slots__ = ("identity", "scopes", "lifetime_s", "client_id", "secret_digest", "public_key")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    identity: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    lifetime_s: int
    client_id: str
    secret_digest: str
    public_key: str
    def __init__(self, identity: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., lifetime_s: _Optional[int] = ..., client_id: _Optional[str] = ..., secret_digest: _Optional[str] = ..., public_key: _Optional[str] = ...) -> None: ...

class TokenRequestReply(_message.Message):
    __slots__ = ("request_id", "code")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    code: str
    def __init__(self, request_id: _Optional[str] = ..., code: _Optional[str] = ...) -> None: ...

class CollectTokenRequest(_message.Message):
    __slots__ = ("request_id", "secret")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    secret: str
    def __init__(self, request_id: _Optional[str] = ..., secret: _Optional[str] = ...) -> None: ...

class PendingToken(_message.Message):
    __slots__ = ("request_id", "code", "identity", "scopes", "lifetime_s", "client_id", "peer", "asked_at", "bound")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    code: str
    identity: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    lifetime_s: int
    client_id: str
    peer: str
    asked_at: int
    bound: bool
    def __init__(self, request_id: _Optional[str] = ..., code: _Optional[str] = ..., identity: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., lifetime_s: _Optional[int] = ..., client_id: _Optional[str] = ..., peer: _Optional[str] = ..., asked_at: _Optional[int] = ..., bound: _Optional[bool] = ...) -> None: ...

class TokenRequests(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[PendingToken]
    def __init__(self, requests: _Optional[_Iterable[_Union[PendingToken, _Mapping]]] = ...) -> None: ...

class ApproveTokenRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class AutoApproveRule(_message.Message):
    __slots__ = ("netblock", "lifetime_s")
    NETBLOCK_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    netblock: str
    lifetime_s: int
    def __init__(self, netblock: _Optional[str] = ..., lifetime_s: _Optional[int] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("token_id",)
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    def __init__(self, token_id: _Optional[str] = ...) -> None: ...

class SyncReply(_message.Message):
    __slots__ = ("trust", "token")
    TRUST_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    trust: str
    token: str
    def __init__(self, trust: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...
