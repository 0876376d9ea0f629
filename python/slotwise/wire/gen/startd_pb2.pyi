from slotwise.wire.gen import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClaimRequest(_message.Message):
    __slots__ = ("serial", "claim_id", "request", "activate", "deactivate", "release", "keep_alive", "suspend", "hello", "more")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ACTIVATE_FIELD_NUMBER: _ClassVar[int]
    DEACTIVATE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    KEEP_ALIVE_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    serial: int
    claim_id: str
    request: RequestClaim
    activate: ActivateClaim
    deactivate: DeactivateClaim
    release: ReleaseClaim
    keep_alive: KeepAlive
    suspend: SuspendClaim
    hello: ScheddHello
    more: _containers.RepeatedCompositeFieldContainer[ClaimRequest]
    def __init__(self, serial: _Optional[int] = ..., claim_id: _Optional[str] = ..., request: _Optional[_Union[RequestClaim, _Mapping]] = ..., activate: _Optional[_Union[ActivateClaim, _Mapping]] = ..., deactivate: _Optional[_Union[DeactivateClaim, _Mapping]] = ..., release: _Optional[_Union[ReleaseClaim, _Mapping]] = ..., keep_alive: _Optional[_Union[KeepAlive, _Mapping]] = ..., suspend: _Optional[_Union[SuspendClaim, _Mapping]] = ..., hello: _Optional[_Union[ScheddHello, _Mapping]] = ..., more: _Optional[_Iterable[_Union[ClaimRequest, _Mapping]]] = ...) -> None: ...

class ScheddHello(_message.Message):
    __slots__ = ("schedd_name", "schedd_address", "claim_ids", "startd_name")
    SCHEDD_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDD_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_IDS_FIELD_NUMBER: _ClassVar[int]
    STARTD_NAME_FIELD_NUMBER: _ClassVar[int]
    schedd_name: str
    schedd_address: str
    claim_ids: _containers.RepeatedScalarFieldContainer[str]
    startd_name: str
    def __init__(self, schedd_name: _Optional[str] = ..., schedd_address: _Optional[str] = ..., claim_ids: _Optional[_Iterable[str]] = ..., startd_name: _Optional[str] = ...) -> None: ...

class RequestClaim(_message.Message):
    __slots__ = ("job_ad", "lease_s", "alive_interval_s", "num_dynamic_slots", "claim_pslot_itself", "want_leftovers", "preempt_claim_ids", "pslot_claim_s", "submitter", "user", "coalesce_claim_ids")
    JOB_AD_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    ALIVE_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    NUM_DYNAMIC_SLOTS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_PSLOT_ITSELF_FIELD_NUMBER: _ClassVar[int]
    WANT_LEFTOVERS_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_CLAIM_IDS_FIELD_NUMBER: _ClassVar[int]
    PSLOT_CLAIM_S_FIELD_NUMBER: _ClassVar[int]
    SUBMITTER_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    COALESCE_CLAIM_IDS_FIELD_NUMBER: _ClassVar[int]
    job_ad: bytes
    lease_s: int
    alive_interval_s: int
    num_dynamic_slots: int
    claim_pslot_itself: bool
    want_leftovers: bool
    preempt_claim_ids: _containers.RepeatedScalarFieldContainer[str]
    pslot_claim_s: int
    submitter: str
    user: str
    coalesce_claim_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_ad: _Optional[bytes] = ..., lease_s: _Optional[int] = ..., alive_interval_s: _Optional[int] = ..., num_dynamic_slots: _Optional[int] = ..., claim_pslot_itself: _Optional[bool] = ..., want_leftovers: _Optional[bool] = ..., preempt_claim_ids: _Optional[_Iterable[str]] = ..., pslot_claim_s: _Optional[int] = ..., submitter: _Optional[str] = ..., user: _Optional[str] = ..., coalesce_claim_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ActivateClaim(_message.Message):
    __slots__ = ("run_id", "run_token", "job_ad", "shadow_address", "user")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    JOB_AD_FIELD_NUMBER: _ClassVar[int]
    SHADOW_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    run_token: str
    job_ad: bytes
    shadow_address: str
    user: str
    def __init__(self, run_id: _Optional[str] = ..., run_token: _Optional[str] = ..., job_ad: _Optional[bytes] = ..., shadow_address: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class DeactivateClaim(_message.Message):
    __slots__ = ("fast", "reason", "reason_code")
    FAST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_CODE_FIELD_NUMBER: _ClassVar[int]
    fast: bool
    reason: str
    reason_code: int
    def __init__(self, fast: _Optional[bool] = ..., reason: _Optional[str] = ..., reason_code: _Optional[int] = ...) -> None: ...

class ReleaseClaim(_message.Message):
    __slots__ = ("fast", "reason", "reason_code")
    FAST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_CODE_FIELD_NUMBER: _ClassVar[int]
    fast: bool
    reason: str
    reason_code: int
    def __init__(self, fast: _Optional[bool] = ..., reason: _Optional[str] = ..., reason_code: _Optional[int] = ...) -> None: ...

class KeepAlive(_message.Message):
    __slots__ = ("claim_ids",)
    CLAIM_IDS_FIELD_NUMBER: _ClassVar[int]
    claim_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, claim_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class SuspendClaim(_message.Message):
    __slots__ = ("resume",)
    RESUME_FIELD_NUMBER: _ClassVar[int]
    resume: bool
    def __init__(self, resume: _Optional[bool] = ...) -> None: ...

class ClaimEvent(_message.Message):
    __slots__ = ("serial", "claim_id", "granted", "refused", "activated", "activation_refused", "state", "ended", "alive", "known", "more")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ACTIVATED_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_REFUSED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    serial: int
    claim_id: str
    granted: ClaimGranted
    refused: ClaimRefused
    activated: Activated
    activation_refused: ActivationRefused
    state: ClaimState
    ended: ClaimEnded
    alive: KeepAliveReply
    known: ClaimsKnown
    more: _containers.RepeatedCompositeFieldContainer[ClaimEvent]
    def __init__(self, serial: _Optional[int] = ..., claim_id: _Optional[str] = ..., granted: _Optional[_Union[ClaimGranted, _Mapping]] = ..., refused: _Optional[_Union[ClaimRefused, _Mapping]] = ..., activated: _Optional[_Union[Activated, _Mapping]] = ..., activation_refused: _Optional[_Union[ActivationRefused, _Mapping]] = ..., state: _Optional[_Union[ClaimState, _Mapping]] = ..., ended: _Optional[_Union[ClaimEnded, _Mapping]] = ..., alive: _Optional[_Union[KeepAliveReply, _Mapping]] = ..., known: _Optional[_Union[ClaimsKnown, _Mapping]] = ..., more: _Optional[_Iterable[_Union[ClaimEvent, _Mapping]]] = ...) -> None: ...

class ClaimGranted(_message.Message):
    __slots__ = ("slots", "leftover_claim_id", "leftover_slot_ad")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    LEFTOVER_CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    LEFTOVER_SLOT_AD_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[GrantedSlot]
    leftover_claim_id: str
    leftover_slot_ad: bytes
    def __init__(self, slots: _Optional[_Iterable[_Union[GrantedSlot, _Mapping]]] = ..., leftover_claim_id: _Optional[str] = ..., leftover_slot_ad: _Optional[bytes] = ...) -> None: ...

class GrantedSlot(_message.Message):
    __slots__ = ("claim_id", "slot_name", "slot_ad")
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_NAME_FIELD_NUMBER: _ClassVar[int]
    SLOT_AD_FIELD_NUMBER: _ClassVar[int]
    claim_id: str
    slot_name: str
    slot_ad: bytes
    def __init__(self, claim_id: _Optional[str] = ..., slot_name: _Optional[str] = ..., slot_ad: _Optional[bytes] = ...) -> None: ...

class ClaimRefused(_message.Message):
    __slots__ = ("code", "reason")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Activated(_message.Message):
    __slots__ = ("run_id", "starter_address")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STARTER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    starter_address: str
    def __init__(self, run_id: _Optional[str] = ..., starter_address: _Optional[str] = ...) -> None: ...

class ActivationRefused(_message.Message):
    __slots__ = ("run_id", "code", "reason")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    code: int
    reason: str
    def __init__(self, run_id: _Optional[str] = ..., code: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ClaimState(_message.Message):
    __slots__ = ("state", "activity", "at", "run_id")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    state: str
    activity: str
    at: int
    run_id: str
    def __init__(self, state: _Optional[str] = ..., activity: _Optional[str] = ..., at: _Optional[int] = ..., run_id: _Optional[str] = ...) -> None: ...

class ClaimEnded(_message.Message):
    __slots__ = ("reason", "reason_code", "reason_subcode", "hold")
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_SUBCODE_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    reason: str
    reason_code: int
    reason_subcode: int
    hold: bool
    def __init__(self, reason: _Optional[str] = ..., reason_code: _Optional[int] = ..., reason_subcode: _Optional[int] = ..., hold: _Optional[bool] = ...) -> None: ...

class KeepAliveReply(_message.Message):
    __slots__ = ("unknown",)
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    unknown: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, unknown: _Optional[_Iterable[str]] = ...) -> None: ...

class ClaimsKnown(_message.Message):
    __slots__ = ("claims", "startd_name")
    class One(_message.Message):
        __slots__ = ("claim_id", "slot_name", "state", "activity", "run_id", "slot_ad")
        CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
        SLOT_NAME_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        ACTIVITY_FIELD_NUMBER: _ClassVar[int]
        RUN_ID_FIELD_NUMBER: _ClassVar[int]
        SLOT_AD_FIELD_NUMBER: _ClassVar[int]
        claim_id: str
        slot_name: str
        state: str
        activity: str
        run_id: str
        slot_ad: bytes
        def __init__(self, claim_id: _Optional[str] = ..., slot_name: _Optional[str] = ..., state: _Optional[str] = ..., activity: _Optional[str] = ..., run_id: _Optional[str] = ..., slot_ad: _Optional[bytes] = ...) -> None: ...
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    STARTD_NAME_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[ClaimsKnown.One]
    startd_name: str
    def __init__(self, claims: _Optional[_Iterable[_Union[ClaimsKnown.One, _Mapping]]] = ..., startd_name: _Optional[str] = ...) -> None: ...

class MatchNotice(_message.Message):
    __slots__ = ("claim_ids",)
    CLAIM_IDS_FIELD_NUMBER: _ClassVar[int]
    claim_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, claim_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("schedule", "reason", "on_completion", "check", "start", "deadline")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ON_COMPLETION_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    schedule: int
    reason: str
    on_completion: str
    check: str
    start: str
    deadline: int
    def __init__(self, schedule: _Optional[int] = ..., reason: _Optional[str] = ..., on_completion: _Optional[str] = ..., check: _Optional[str] = ..., start: _Optional[str] = ..., deadline: _Optional[int] = ...) -> None: ...

class DrainReply(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class CancelDrainRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class VacateRequest(_message.Message):
    __slots__ = ("slots", "fast")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FAST_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedScalarFieldContainer[str]
    fast: bool
    def __init__(self, slots: _Optional[_Iterable[str]] = ..., fast: _Optional[bool] = ...) -> None: ...
