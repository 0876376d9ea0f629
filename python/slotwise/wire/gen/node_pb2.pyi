from slotwise.wire.gen import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AuthorityReply(_message.Message):
    __slots__ = ("pool", "name", "authorities", "issues", "version")
    POOL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    AUTHORITIES_FIELD_NUMBER: _ClassVar[int]
    ISSUES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    pool: str
    name: str
    authorities: str
    issues: bool
    version: str
    def __init__(self, pool: _Optional[str] = ..., name: _Optional[str] = ..., authorities: _Optional[str] = ..., issues: _Optional[bool] = ..., version: _Optional[str] = ...) -> None: ...

class EnrollRequest(_message.Message):
    __slots__ = ("name", "roles", "csr", "public_key", "secret_digest", "join_token", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    CSR_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    SECRET_DIGEST_FIELD_NUMBER: _ClassVar[int]
    JOIN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    csr: bytes
    public_key: str
    secret_digest: str
    join_token: str
    version: str
    def __init__(self, name: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., csr: _Optional[bytes] = ..., public_key: _Optional[str] = ..., secret_digest: _Optional[str] = ..., join_token: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class EnrollReply(_message.Message):
    __slots__ = ("request_id", "code")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    code: str
    def __init__(self, request_id: _Optional[str] = ..., code: _Optional[str] = ...) -> None: ...

class CollectNodeRequest(_message.Message):
    __slots__ = ("request_id", "secret")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    secret: str
    def __init__(self, request_id: _Optional[str] = ..., secret: _Optional[str] = ...) -> None: ...

class NodeGrant(_message.Message):
    __slots__ = ("granted", "certificate", "authorities", "token", "trust", "uid_domain")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    AUTHORITIES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    UID_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    granted: bool
    certificate: str
    authorities: str
    token: str
    trust: str
    uid_domain: str
    def __init__(self, granted: _Optional[bool] = ..., certificate: _Optional[str] = ..., authorities: _Optional[str] = ..., token: _Optional[str] = ..., trust: _Optional[str] = ..., uid_domain: _Optional[str] = ...) -> None: ...

class NodeRequest(_message.Message):
    __slots__ = ("request_id", "code", "name", "roles", "peer", "asked_at", "version", "certificate")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    code: str
    name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    peer: str
    asked_at: int
    version: str
    certificate: bool
    def __init__(self, request_id: _Optional[str] = ..., code: _Optional[str] = ..., name: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., peer: _Optional[str] = ..., asked_at: _Optional[int] = ..., version: _Optional[str] = ..., certificate: _Optional[bool] = ...) -> None: ...

class NodeRequests(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[NodeRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[NodeRequest, _Mapping]]] = ...) -> None: ...

class DecideNodeRequest(_message.Message):
    __slots__ = ("code",)
    CODE_FIELD_NUMBER: _ClassVar[int]
    code: str
    def __init__(self, code: _Optional[str] = ...) -> None: ...

class JoinTokenRequest(_message.Message):
    __slots__ = ("roles", "uses", "lifetime_s", "network")
    ROLES_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    roles: _containers.RepeatedScalarFieldContainer[str]
    uses: int
    lifetime_s: int
    network: str
    def __init__(self, roles: _Optional[_Iterable[str]] = ..., uses: _Optional[int] = ..., lifetime_s: _Optional[int] = ..., network: _Optional[str] = ...) -> None: ...

class JoinTokenReply(_message.Message):
    __slots__ = ("id", "secret", "expires_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    secret: str
    expires_at: int
    def __init__(self, id: _Optional[str] = ..., secret: _Optional[str] = ..., expires_at: _Optional[int] = ...) -> None: ...

class RevokeJoinTokenRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "roles", "address", "version", "joined_at", "by", "certificate_ends_at", "state", "removed_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOINED_AT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_ENDS_AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REMOVED_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    address: str
    version: str
    joined_at: int
    by: str
    certificate_ends_at: int
    state: str
    removed_at: int
    def __init__(self, name: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., address: _Optional[str] = ..., version: _Optional[str] = ..., joined_at: _Optional[int] = ..., by: _Optional[str] = ..., certificate_ends_at: _Optional[int] = ..., state: _Optional[str] = ..., removed_at: _Optional[int] = ...) -> None: ...

class NodeList(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class NodeName(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("csr",)
    CSR_FIELD_NUMBER: _ClassVar[int]
    csr: bytes
    def __init__(self, csr: _Optional[bytes] = ...) -> None: ...

class RenewReply(_message.Message):
    __slots__ = ("certificate", "authorities")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    AUTHORITIES_FIELD_NUMBER: _ClassVar[int]
    certificate: str
    authorities: str
    def __init__(self, certificate: _Optional[str] = ..., authorities: _Optional[str] = ...) -> None: ...
