from slotwise.wire.gen import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitBundle(_message.Message):
    __slots__ = ("clusters", "client", "key", "again")
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[ClusterSubmission]
    client: str
    key: bytes
    again: bool
    def __init__(self, clusters: _Optional[_Iterable[_Union[ClusterSubmission, _Mapping]]] = ..., client: _Optional[str] = ..., key: _Optional[bytes] = ..., again: _Optional[bool] = ...) -> None: ...

class SubmitFrame(_message.Message):
    __slots__ = ("submissions",)
    SUBMISSIONS_FIELD_NUMBER: _ClassVar[int]
    submissions: _containers.RepeatedCompositeFieldContainer[SubmitBundle]
    def __init__(self, submissions: _Optional[_Iterable[_Union[SubmitBundle, _Mapping]]] = ...) -> None: ...

class SubmitAnswers(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[SubmitAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[SubmitAnswer, _Mapping]]] = ...) -> None: ...

class SubmitAnswer(_message.Message):
    __slots__ = ("reply", "error")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    reply: SubmitReply
    error: _common_pb2.ErrorDetail
    def __init__(self, reply: _Optional[_Union[SubmitReply, _Mapping]] = ..., error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class SubmitPart(_message.Message):
    __slots__ = ("open_cluster", "more_procs", "commit", "key", "again")
    OPEN_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    MORE_PROCS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    open_cluster: ClusterSubmission
    more_procs: ProcBatch
    commit: bool
    key: bytes
    again: bool
    def __init__(self, open_cluster: _Optional[_Union[ClusterSubmission, _Mapping]] = ..., more_procs: _Optional[_Union[ProcBatch, _Mapping]] = ..., commit: _Optional[bool] = ..., key: _Optional[bytes] = ..., again: _Optional[bool] = ...) -> None: ...

class ClusterSubmission(_message.Message):
    __slots__ = ("cluster_ad", "procs", "submit_digest", "item_data", "cluster_id", "job_set_ad")
    CLUSTER_AD_FIELD_NUMBER: _ClassVar[int]
    PROCS_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ITEM_DATA_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_SET_AD_FIELD_NUMBER: _ClassVar[int]
    cluster_ad: bytes
    procs: ProcBatch
    submit_digest: bytes
    item_data: bytes
    cluster_id: int
    job_set_ad: bytes
    def __init__(self, cluster_ad: _Optional[bytes] = ..., procs: _Optional[_Union[ProcBatch, _Mapping]] = ..., submit_digest: _Optional[bytes] = ..., item_data: _Optional[bytes] = ..., cluster_id: _Optional[int] = ..., job_set_ad: _Optional[bytes] = ...) -> None: ...

class ReserveClustersRequest(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class ReserveClustersReply(_message.Message):
    __slots__ = ("first",)
    FIRST_FIELD_NUMBER: _ClassVar[int]
    first: int
    def __init__(self, first: _Optional[int] = ...) -> None: ...

class ProcBatch(_message.Message):
    __slots__ = ("count", "deltas")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DELTAS_FIELD_NUMBER: _ClassVar[int]
    count: int
    deltas: bytes
    def __init__(self, count: _Optional[int] = ..., deltas: _Optional[bytes] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("clusters", "warnings")
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[SubmittedCluster]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, clusters: _Optional[_Iterable[_Union[SubmittedCluster, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class SubmittedCluster(_message.Message):
    __slots__ = ("cluster_id", "first_proc", "num_procs")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_PROC_FIELD_NUMBER: _ClassVar[int]
    NUM_PROCS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: int
    first_proc: int
    num_procs: int
    def __init__(self, cluster_id: _Optional[int] = ..., first_proc: _Optional[int] = ..., num_procs: _Optional[int] = ...) -> None: ...

class JobSelection(_message.Message):
    __slots__ = ("ids", "owners", "constraint", "all", "file", "keep")
    IDS_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    owners: _containers.RepeatedScalarFieldContainer[str]
    constraint: str
    all: bool
    file: bytes
    keep: bool
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., owners: _Optional[_Iterable[str]] = ..., constraint: _Optional[str] = ..., all: _Optional[bool] = ..., file: _Optional[bytes] = ..., keep: _Optional[bool] = ...) -> None: ...

class ActRequest(_message.Message):
    __slots__ = ("action", "jobs", "reason", "subcode")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REMOVE: _ClassVar[ActRequest.Action]
        REMOVE_FORCE: _ClassVar[ActRequest.Action]
        HOLD: _ClassVar[ActRequest.Action]
        RELEASE: _ClassVar[ActRequest.Action]
        SUSPEND: _ClassVar[ActRequest.Action]
        CONTINUE: _ClassVar[ActRequest.Action]
        VACATE: _ClassVar[ActRequest.Action]
        VACATE_FAST: _ClassVar[ActRequest.Action]
        CLEAR_DIRTY: _ClassVar[ActRequest.Action]
        TRANSFER_AND_REMOVE: _ClassVar[ActRequest.Action]
    REMOVE: ActRequest.Action
    REMOVE_FORCE: ActRequest.Action
    HOLD: ActRequest.Action
    RELEASE: ActRequest.Action
    SUSPEND: ActRequest.Action
    CONTINUE: ActRequest.Action
    VACATE: ActRequest.Action
    VACATE_FAST: ActRequest.Action
    CLEAR_DIRTY: ActRequest.Action
    TRANSFER_AND_REMOVE: ActRequest.Action
    ACTION_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SUBCODE_FIELD_NUMBER: _ClassVar[int]
    action: ActRequest.Action
    jobs: JobSelection
    reason: str
    subcode: int
    def __init__(self, action: _Optional[_Union[ActRequest.Action, str]] = ..., jobs: _Optional[_Union[JobSelection, _Mapping]] = ..., reason: _Optional[str] = ..., subcode: _Optional[int] = ...) -> None: ...

class EditRequest(_message.Message):
    __slots__ = ("jobs", "set", "prio_change", "prio_relative", "dry_run")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    PRIO_CHANGE_FIELD_NUMBER: _ClassVar[int]
    PRIO_RELATIVE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    jobs: JobSelection
    set: _containers.ScalarMap[str, str]
    prio_change: int
    prio_relative: bool
    dry_run: bool
    def __init__(self, jobs: _Optional[_Union[JobSelection, _Mapping]] = ..., set: _Optional[_Mapping[str, str]] = ..., prio_change: _Optional[int] = ..., prio_relative: _Optional[bool] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class CredentialQuery(_message.Message):
    __slots__ = ("service", "handle", "user", "scopes", "audience")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    service: str
    handle: str
    user: str
    scopes: str
    audience: str
    def __init__(self, service: _Optional[str] = ..., handle: _Optional[str] = ..., user: _Optional[str] = ..., scopes: _Optional[str] = ..., audience: _Optional[str] = ...) -> None: ...

class CredentialStoring(_message.Message):
    __slots__ = ("credential", "content", "refreshed")
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    REFRESHED_FIELD_NUMBER: _ClassVar[int]
    credential: CredentialQuery
    content: bytes
    refreshed: bool
    def __init__(self, credential: _Optional[_Union[CredentialQuery, _Mapping]] = ..., content: _Optional[bytes] = ..., refreshed: _Optional[bool] = ...) -> None: ...

class CredentialState(_message.Message):
    __slots__ = ("user", "pending", "files", "note")
    class FilesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    USER_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    user: str
    pending: bool
    files: _containers.ScalarMap[str, float]
    note: str
    def __init__(self, user: _Optional[str] = ..., pending: _Optional[bool] = ..., files: _Optional[_Mapping[str, float]] = ..., note: _Optional[str] = ...) -> None: ...

class CredentialFile(_message.Message):
    __slots__ = ("name", "content")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    content: bytes
    def __init__(self, name: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class CredentialFiles(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[CredentialFile]
    def __init__(self, files: _Optional[_Iterable[_Union[CredentialFile, _Mapping]]] = ...) -> None: ...

class CredentialCheck(_message.Message):
    __slots__ = ("needed", "requests")
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    needed: str
    requests: str
    def __init__(self, needed: _Optional[str] = ..., requests: _Optional[str] = ...) -> None: ...

class ShowDagRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class ShowDagReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    def __init__(self, json: _Optional[bytes] = ...) -> None: ...

class RunNowRequest(_message.Message):
    __slots__ = ("job", "vacate")
    JOB_FIELD_NUMBER: _ClassVar[int]
    VACATE_FIELD_NUMBER: _ClassVar[int]
    job: str
    vacate: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[str] = ..., vacate: _Optional[_Iterable[str]] = ...) -> None: ...

class UsersEdit(_message.Message):
    __slots__ = ("what", "names", "constraint", "reason", "set", "kind")
    class What(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ADD: _ClassVar[UsersEdit.What]
        ENABLE: _ClassVar[UsersEdit.What]
        DISABLE: _ClassVar[UsersEdit.What]
        EDIT: _ClassVar[UsersEdit.What]
        REMOVE: _ClassVar[UsersEdit.What]
    ADD: UsersEdit.What
    ENABLE: UsersEdit.What
    DISABLE: UsersEdit.What
    EDIT: UsersEdit.What
    REMOVE: UsersEdit.What
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WHAT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    what: UsersEdit.What
    names: _containers.RepeatedScalarFieldContainer[str]
    constraint: str
    reason: str
    set: _containers.ScalarMap[str, str]
    kind: str
    def __init__(self, what: _Optional[_Union[UsersEdit.What, str]] = ..., names: _Optional[_Iterable[str]] = ..., constraint: _Optional[str] = ..., reason: _Optional[str] = ..., set: _Optional[_Mapping[str, str]] = ..., kind: _Optional[str] = ...) -> None: ...

class UsersReply(_message.Message):
    __slots__ = ("changed", "warnings")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    changed: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, changed: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ActReply(_message.Message):
    __slots__ = ("jobs", "totals", "background")
    class One(_message.Message):
        __slots__ = ("id", "result")
        ID_FIELD_NUMBER: _ClassVar[int]
        RESULT_FIELD_NUMBER: _ClassVar[int]
        id: str
        result: str
        def __init__(self, id: _Optional[str] = ..., result: _Optional[str] = ...) -> None: ...
    class TotalsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    JOBS_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[ActReply.One]
    totals: _containers.ScalarMap[str, int]
    background: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[ActReply.One, _Mapping]]] = ..., totals: _Optional[_Mapping[str, int]] = ..., background: _Optional[int] = ...) -> None: ...

class JobQuery(_message.Message):
    __slots__ = ("query", "jobs", "mine_only", "batches", "totals_only", "view", "width", "page", "whole_names")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    MINE_ONLY_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    TOTALS_ONLY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_NAMES_FIELD_NUMBER: _ClassVar[int]
    query: _common_pb2.AdQuery
    jobs: JobSelection
    mine_only: bool
    batches: bool
    totals_only: bool
    view: str
    width: int
    page: _common_pb2.Page
    whole_names: bool
    def __init__(self, query: _Optional[_Union[_common_pb2.AdQuery, _Mapping]] = ..., jobs: _Optional[_Union[JobSelection, _Mapping]] = ..., mine_only: _Optional[bool] = ..., batches: _Optional[bool] = ..., totals_only: _Optional[bool] = ..., view: _Optional[str] = ..., width: _Optional[int] = ..., page: _Optional[_Union[_common_pb2.Page, _Mapping]] = ..., whole_names: _Optional[bool] = ...) -> None: ...

class HistoryQuery(_message.Message):
    __slots__ = ("query", "jobs", "forwards", "scan_limit", "since", "completed_since", "runs", "kinds", "page")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    FORWARDS_FIELD_NUMBER: _ClassVar[int]
    SCAN_LIMIT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_SINCE_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    query: _common_pb2.AdQuery
    jobs: JobSelection
    forwards: bool
    scan_limit: int
    since: str
    completed_since: int
    runs: bool
    kinds: _containers.RepeatedScalarFieldContainer[str]
    page: _common_pb2.Page
    def __init__(self, query: _Optional[_Union[_common_pb2.AdQuery, _Mapping]] = ..., jobs: _Optional[_Union[JobSelection, _Mapping]] = ..., forwards: _Optional[bool] = ..., scan_limit: _Optional[int] = ..., since: _Optional[str] = ..., completed_since: _Optional[int] = ..., runs: _Optional[bool] = ..., kinds: _Optional[_Iterable[str]] = ..., page: _Optional[_Union[_common_pb2.Page, _Mapping]] = ...) -> None: ...

class SpoolPart(_message.Message):
    __slots__ = ("jobs", "file", "commit")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    file: FilePiece
    commit: bool
    def __init__(self, jobs: _Optional[_Iterable[str]] = ..., file: _Optional[_Union[FilePiece, _Mapping]] = ..., commit: _Optional[bool] = ...) -> None: ...

class SandboxPiece(_message.Message):
    __slots__ = ("job", "ad", "file", "directory")
    JOB_FIELD_NUMBER: _ClassVar[int]
    AD_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    job: str
    ad: bytes
    file: FilePiece
    directory: str
    def __init__(self, job: _Optional[str] = ..., ad: _Optional[bytes] = ..., file: _Optional[_Union[FilePiece, _Mapping]] = ..., directory: _Optional[str] = ...) -> None: ...

class EvictedQuery(_message.Message):
    __slots__ = ("id", "names_only")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_ONLY_FIELD_NUMBER: _ClassVar[int]
    id: str
    names_only: bool
    def __init__(self, id: _Optional[str] = ..., names_only: _Optional[bool] = ...) -> None: ...

class JobVisit(_message.Message):
    __slots__ = ("id", "job", "peek", "peeked", "open", "data", "taken", "resize", "end")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    PEEK_FIELD_NUMBER: _ClassVar[int]
    PEEKED_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    id: int
    job: str
    peek: Peek
    peeked: Peek
    open: OpenShell
    data: VisitData
    taken: int
    resize: Terminal
    end: VisitEnd
    def __init__(self, id: _Optional[int] = ..., job: _Optional[str] = ..., peek: _Optional[_Union[Peek, _Mapping]] = ..., peeked: _Optional[_Union[Peek, _Mapping]] = ..., open: _Optional[_Union[OpenShell, _Mapping]] = ..., data: _Optional[_Union[VisitData, _Mapping]] = ..., taken: _Optional[int] = ..., resize: _Optional[_Union[Terminal, _Mapping]] = ..., end: _Optional[_Union[VisitEnd, _Mapping]] = ...) -> None: ...

class Peek(_message.Message):
    __slots__ = ("files", "max_bytes")
    FILES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[PeekFile]
    max_bytes: int
    def __init__(self, files: _Optional[_Iterable[_Union[PeekFile, _Mapping]]] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class PeekFile(_message.Message):
    __slots__ = ("which", "name", "offset", "data", "error")
    class Which(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NAMED: _ClassVar[PeekFile.Which]
        OUTPUT: _ClassVar[PeekFile.Which]
        ERROR: _ClassVar[PeekFile.Which]
    NAMED: PeekFile.Which
    OUTPUT: PeekFile.Which
    ERROR: PeekFile.Which
    WHICH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    which: PeekFile.Which
    name: str
    offset: int
    data: bytes
    error: str
    def __init__(self, which: _Optional[_Union[PeekFile.Which, str]] = ..., name: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., error: _Optional[str] = ...) -> None: ...

class OpenShell(_message.Message):
    __slots__ = ("command", "shells", "terminal")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    SHELLS_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    command: _containers.RepeatedScalarFieldContainer[str]
    shells: _containers.RepeatedScalarFieldContainer[str]
    terminal: Terminal
    def __init__(self, command: _Optional[_Iterable[str]] = ..., shells: _Optional[_Iterable[str]] = ..., terminal: _Optional[_Union[Terminal, _Mapping]] = ...) -> None: ...

class Terminal(_message.Message):
    __slots__ = ("rows", "columns", "kind")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    kind: str
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ..., kind: _Optional[str] = ...) -> None: ...

class VisitData(_message.Message):
    __slots__ = ("bytes", "error", "last")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    bytes: bytes
    error: bool
    last: bool
    def __init__(self, bytes: _Optional[bytes] = ..., error: _Optional[bool] = ..., last: _Optional[bool] = ...) -> None: ...

class VisitEnd(_message.Message):
    __slots__ = ("status", "error")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    status: int
    error: str
    def __init__(self, status: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class ResourceRequestsQuery(_message.Message):
    __slots__ = ("significant_attributes", "submitters", "job_constraint", "max_jobs_per_submitter", "with_submitters")
    SIGNIFICANT_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SUBMITTERS_FIELD_NUMBER: _ClassVar[int]
    JOB_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_PER_SUBMITTER_FIELD_NUMBER: _ClassVar[int]
    WITH_SUBMITTERS_FIELD_NUMBER: _ClassVar[int]
    significant_attributes: _containers.RepeatedScalarFieldContainer[str]
    submitters: _containers.RepeatedScalarFieldContainer[str]
    job_constraint: str
    max_jobs_per_submitter: int
    with_submitters: bool
    def __init__(self, significant_attributes: _Optional[_Iterable[str]] = ..., submitters: _Optional[_Iterable[str]] = ..., job_constraint: _Optional[str] = ..., max_jobs_per_submitter: _Optional[int] = ..., with_submitters: _Optional[bool] = ...) -> None: ...

class RequestList(_message.Message):
    __slots__ = ("pack", "submitters", "done", "outcomes", "reports_outcomes")
    PACK_FIELD_NUMBER: _ClassVar[int]
    SUBMITTERS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    REPORTS_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    pack: bytes
    submitters: bytes
    done: bool
    outcomes: _containers.RepeatedCompositeFieldContainer[MatchOutcome]
    reports_outcomes: bool
    def __init__(self, pack: _Optional[bytes] = ..., submitters: _Optional[bytes] = ..., done: _Optional[bool] = ..., outcomes: _Optional[_Iterable[_Union[MatchOutcome, _Mapping]]] = ..., reports_outcomes: _Optional[bool] = ...) -> None: ...

class MatchOutcome(_message.Message):
    __slots__ = ("match_id", "what", "slot_names", "count")
    class What(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CLAIMED: _ClassVar[MatchOutcome.What]
        OVER: _ClassVar[MatchOutcome.What]
    CLAIMED: MatchOutcome.What
    OVER: MatchOutcome.What
    MATCH_ID_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    SLOT_NAMES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    match_id: int
    what: MatchOutcome.What
    slot_names: _containers.RepeatedScalarFieldContainer[str]
    count: int
    def __init__(self, match_id: _Optional[int] = ..., what: _Optional[_Union[MatchOutcome.What, str]] = ..., slot_names: _Optional[_Iterable[str]] = ..., count: _Optional[int] = ...) -> None: ...

class MatchBatch(_message.Message):
    __slots__ = ("cycle", "negotiator_name", "submitters", "excess", "excess_lasts_s", "piece", "more_follows")
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    NEGOTIATOR_NAME_FIELD_NUMBER: _ClassVar[int]
    SUBMITTERS_FIELD_NUMBER: _ClassVar[int]
    EXCESS_FIELD_NUMBER: _ClassVar[int]
    EXCESS_LASTS_S_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    MORE_FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    cycle: int
    negotiator_name: str
    submitters: _containers.RepeatedCompositeFieldContainer[SubmitterMatches]
    excess: _containers.RepeatedCompositeFieldContainer[ExcessClaims]
    excess_lasts_s: int
    piece: int
    more_follows: bool
    def __init__(self, cycle: _Optional[int] = ..., negotiator_name: _Optional[str] = ..., submitters: _Optional[_Iterable[_Union[SubmitterMatches, _Mapping]]] = ..., excess: _Optional[_Iterable[_Union[ExcessClaims, _Mapping]]] = ..., excess_lasts_s: _Optional[int] = ..., piece: _Optional[int] = ..., more_follows: _Optional[bool] = ...) -> None: ...

class ExcessClaims(_message.Message):
    __slots__ = ("submitter", "slot_names", "weights", "keep", "until", "reason", "goes_on")
    SUBMITTER_FIELD_NUMBER: _ClassVar[int]
    SLOT_NAMES_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GOES_ON_FIELD_NUMBER: _ClassVar[int]
    submitter: str
    slot_names: _containers.RepeatedScalarFieldContainer[str]
    weights: _containers.RepeatedScalarFieldContainer[float]
    keep: float
    until: float
    reason: str
    goes_on: bool
    def __init__(self, submitter: _Optional[str] = ..., slot_names: _Optional[_Iterable[str]] = ..., weights: _Optional[_Iterable[float]] = ..., keep: _Optional[float] = ..., until: _Optional[float] = ..., reason: _Optional[str] = ..., goes_on: _Optional[bool] = ...) -> None: ...

class SubmitterMatches(_message.Message):
    __slots__ = ("submitter", "matches", "rejections", "goes_on")
    SUBMITTER_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    REJECTIONS_FIELD_NUMBER: _ClassVar[int]
    GOES_ON_FIELD_NUMBER: _ClassVar[int]
    submitter: str
    matches: _containers.RepeatedCompositeFieldContainer[Match]
    rejections: _containers.RepeatedCompositeFieldContainer[Rejection]
    goes_on: bool
    def __init__(self, submitter: _Optional[str] = ..., matches: _Optional[_Iterable[_Union[Match, _Mapping]]] = ..., rejections: _Optional[_Iterable[_Union[Rejection, _Mapping]]] = ..., goes_on: _Optional[bool] = ...) -> None: ...

class Match(_message.Message):
    __slots__ = ("autocluster_id", "slot_name", "startd_address", "claim_id", "preempt_claim_ids", "slot_ad", "count", "first_job_id", "match_id")
    AUTOCLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_NAME_FIELD_NUMBER: _ClassVar[int]
    STARTD_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_CLAIM_IDS_FIELD_NUMBER: _ClassVar[int]
    SLOT_AD_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_JOB_ID_FIELD_NUMBER: _ClassVar[int]
    MATCH_ID_FIELD_NUMBER: _ClassVar[int]
    autocluster_id: int
    slot_name: str
    startd_address: str
    claim_id: str
    preempt_claim_ids: _containers.RepeatedScalarFieldContainer[str]
    slot_ad: bytes
    count: int
    first_job_id: str
    match_id: int
    def __init__(self, autocluster_id: _Optional[int] = ..., slot_name: _Optional[str] = ..., startd_address: _Optional[str] = ..., claim_id: _Optional[str] = ..., preempt_claim_ids: _Optional[_Iterable[str]] = ..., slot_ad: _Optional[bytes] = ..., count: _Optional[int] = ..., first_job_id: _Optional[str] = ..., match_id: _Optional[int] = ...) -> None: ...

class Rejection(_message.Message):
    __slots__ = ("autocluster_id", "reason", "count")
    AUTOCLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    autocluster_id: int
    reason: str
    count: int
    def __init__(self, autocluster_id: _Optional[int] = ..., reason: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class StarterMessage(_message.Message):
    __slots__ = ("run_id", "hello", "need_input", "started", "update", "output", "ended", "transfer", "runs", "checkpoint", "io", "visit", "stream", "outputs_wait", "common", "more")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    NEED_INPUT_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    IO_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_WAIT_FIELD_NUMBER: _ClassVar[int]
    COMMON_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    hello: RunHello
    need_input: FileNeed
    started: RunStarted
    update: _common_pb2.AdBatch
    output: FilePiece
    ended: RunEnded
    transfer: FileTransferState
    runs: RunList
    checkpoint: RunCheckpoint
    io: RemoteIo
    visit: JobVisit
    stream: StreamPiece
    outputs_wait: OutputsWait
    common: CommonInputsAnswer
    more: _containers.RepeatedCompositeFieldContainer[StarterMessage]
    def __init__(self, run_id: _Optional[str] = ..., hello: _Optional[_Union[RunHello, _Mapping]] = ..., need_input: _Optional[_Union[FileNeed, _Mapping]] = ..., started: _Optional[_Union[RunStarted, _Mapping]] = ..., update: _Optional[_Union[_common_pb2.AdBatch, _Mapping]] = ..., output: _Optional[_Union[FilePiece, _Mapping]] = ..., ended: _Optional[_Union[RunEnded, _Mapping]] = ..., transfer: _Optional[_Union[FileTransferState, _Mapping]] = ..., runs: _Optional[_Union[RunList, _Mapping]] = ..., checkpoint: _Optional[_Union[RunCheckpoint, _Mapping]] = ..., io: _Optional[_Union[RemoteIo, _Mapping]] = ..., visit: _Optional[_Union[JobVisit, _Mapping]] = ..., stream: _Optional[_Union[StreamPiece, _Mapping]] = ..., outputs_wait: _Optional[_Union[OutputsWait, _Mapping]] = ..., common: _Optional[_Union[CommonInputsAnswer, _Mapping]] = ..., more: _Optional[_Iterable[_Union[StarterMessage, _Mapping]]] = ...) -> None: ...

class CommonInputsAnswer(_message.Message):
    __slots__ = ("what",)
    class What(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OWN: _ClassVar[CommonInputsAnswer.What]
        SEND: _ClassVar[CommonInputsAnswer.What]
        WAIT: _ClassVar[CommonInputsAnswer.What]
        PLACED: _ClassVar[CommonInputsAnswer.What]
    OWN: CommonInputsAnswer.What
    SEND: CommonInputsAnswer.What
    WAIT: CommonInputsAnswer.What
    PLACED: CommonInputsAnswer.What
    WHAT_FIELD_NUMBER: _ClassVar[int]
    what: CommonInputsAnswer.What
    def __init__(self, what: _Optional[_Union[CommonInputsAnswer.What, str]] = ...) -> None: ...

class RunCheckpoint(_message.Message):
    __slots__ = ("number", "at", "ad", "stored_as", "failed", "reason")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    AD_FIELD_NUMBER: _ClassVar[int]
    STORED_AS_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    number: int
    at: int
    ad: bytes
    stored_as: int
    failed: bool
    reason: str
    def __init__(self, number: _Optional[int] = ..., at: _Optional[int] = ..., ad: _Optional[bytes] = ..., stored_as: _Optional[int] = ..., failed: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class CheckpointKept(_message.Message):
    __slots__ = ("error", "hold_code", "hold_subcode")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HOLD_CODE_FIELD_NUMBER: _ClassVar[int]
    HOLD_SUBCODE_FIELD_NUMBER: _ClassVar[int]
    error: str
    hold_code: int
    hold_subcode: int
    def __init__(self, error: _Optional[str] = ..., hold_code: _Optional[int] = ..., hold_subcode: _Optional[int] = ...) -> None: ...

class RemoteIo(_message.Message):
    __slots__ = ("id", "op", "name", "text", "data", "offset", "length", "mode")
    ID_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    id: int
    op: str
    name: str
    text: str
    data: bytes
    offset: int
    length: int
    mode: int
    def __init__(self, id: _Optional[int] = ..., op: _Optional[str] = ..., name: _Optional[str] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., mode: _Optional[int] = ...) -> None: ...

class RemoteIoDone(_message.Message):
    __slots__ = ("id", "error", "data", "text")
    ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    id: int
    error: int
    data: bytes
    text: str
    def __init__(self, id: _Optional[int] = ..., error: _Optional[int] = ..., data: _Optional[bytes] = ..., text: _Optional[str] = ...) -> None: ...

class RunList(_message.Message):
    __slots__ = ("run_ids", "starter_address")
    RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    STARTER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    run_ids: _containers.RepeatedScalarFieldContainer[str]
    starter_address: str
    def __init__(self, run_ids: _Optional[_Iterable[str]] = ..., starter_address: _Optional[str] = ...) -> None: ...

class RunHello(_message.Message):
    __slots__ = ("token", "slot_name", "resume", "starter_address", "asks_for_inputs", "keeps_common_inputs")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SLOT_NAME_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    STARTER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ASKS_FOR_INPUTS_FIELD_NUMBER: _ClassVar[int]
    KEEPS_COMMON_INPUTS_FIELD_NUMBER: _ClassVar[int]
    token: str
    slot_name: str
    resume: bool
    starter_address: str
    asks_for_inputs: bool
    keeps_common_inputs: bool
    def __init__(self, token: _Optional[str] = ..., slot_name: _Optional[str] = ..., resume: _Optional[bool] = ..., starter_address: _Optional[str] = ..., asks_for_inputs: _Optional[bool] = ..., keeps_common_inputs: _Optional[bool] = ...) -> None: ...

class FileNeed(_message.Message):
    __slots__ = ("window",)
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    window: int
    def __init__(self, window: _Optional[int] = ...) -> None: ...

class RunStarted(_message.Message):
    __slots__ = ("pid", "scratch_dir", "at", "slot_properties")
    PID_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_DIR_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    SLOT_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    pid: int
    scratch_dir: str
    at: int
    slot_properties: bytes
    def __init__(self, pid: _Optional[int] = ..., scratch_dir: _Optional[str] = ..., at: _Optional[int] = ..., slot_properties: _Optional[bytes] = ...) -> None: ...

class FilePiece(_message.Message):
    __slots__ = ("name", "mode", "data", "last", "directory", "offset")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    mode: int
    data: bytes
    last: bool
    directory: bool
    offset: int
    def __init__(self, name: _Optional[bytes] = ..., mode: _Optional[int] = ..., data: _Optional[bytes] = ..., last: _Optional[bool] = ..., directory: _Optional[bool] = ..., offset: _Optional[int] = ...) -> None: ...

class StreamPiece(_message.Message):
    __slots__ = ("error", "begin", "append", "base", "offset", "data")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    error: bool
    begin: bool
    append: bool
    base: int
    offset: int
    data: bytes
    def __init__(self, error: _Optional[bool] = ..., begin: _Optional[bool] = ..., append: _Optional[bool] = ..., base: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class StreamKept(_message.Message):
    __slots__ = ("error", "base", "end", "problem", "hold_code", "hold_subcode")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    HOLD_CODE_FIELD_NUMBER: _ClassVar[int]
    HOLD_SUBCODE_FIELD_NUMBER: _ClassVar[int]
    error: bool
    base: int
    end: int
    problem: str
    hold_code: int
    hold_subcode: int
    def __init__(self, error: _Optional[bool] = ..., base: _Optional[int] = ..., end: _Optional[int] = ..., problem: _Optional[str] = ..., hold_code: _Optional[int] = ..., hold_subcode: _Optional[int] = ...) -> None: ...

class FileTransferState(_message.Message):
    __slots__ = ("stage", "at", "host")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    stage: str
    at: int
    host: str
    def __init__(self, stage: _Optional[str] = ..., at: _Optional[int] = ..., host: _Optional[str] = ...) -> None: ...

class RunEnded(_message.Message):
    __slots__ = ("how", "code", "ad", "reason", "reason_code", "reason_subcode", "at", "core_dumped")
    class How(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EXITED: _ClassVar[RunEnded.How]
        SIGNALED: _ClassVar[RunEnded.How]
        EVICTED: _ClassVar[RunEnded.How]
        HELD: _ClassVar[RunEnded.How]
        NOT_STARTED: _ClassVar[RunEnded.How]
        STARTER_LOST: _ClassVar[RunEnded.How]
    EXITED: RunEnded.How
    SIGNALED: RunEnded.How
    EVICTED: RunEnded.How
    HELD: RunEnded.How
    NOT_STARTED: RunEnded.How
    STARTER_LOST: RunEnded.How
    HOW_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    AD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_SUBCODE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    CORE_DUMPED_FIELD_NUMBER: _ClassVar[int]
    how: RunEnded.How
    code: int
    ad: bytes
    reason: str
    reason_code: int
    reason_subcode: int
    at: int
    core_dumped: bool
    def __init__(self, how: _Optional[_Union[RunEnded.How, str]] = ..., code: _Optional[int] = ..., ad: _Optional[bytes] = ..., reason: _Optional[str] = ..., reason_code: _Optional[int] = ..., reason_subcode: _Optional[int] = ..., at: _Optional[int] = ..., core_dumped: _Optional[bool] = ...) -> None: ...

class ShadowMessage(_message.Message):
    __slots__ = ("run_id", "accepted", "input", "inputs_complete", "ack", "refused", "kill", "checkpoint_kept", "io", "visit", "streamed", "output_turn", "credentials", "common_offered", "common_sent", "more")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    INPUTS_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    KILL_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_KEPT_FIELD_NUMBER: _ClassVar[int]
    IO_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    STREAMED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TURN_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    COMMON_OFFERED_FIELD_NUMBER: _ClassVar[int]
    COMMON_SENT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    accepted: RunAccepted
    input: FilePiece
    inputs_complete: InputsComplete
    ack: RunAck
    refused: RunRefused
    kill: RunKill
    checkpoint_kept: CheckpointKept
    io: RemoteIoDone
    visit: JobVisit
    streamed: StreamKept
    output_turn: OutputTurn
    credentials: CredentialFiles
    common_offered: CommonInputsOffer
    common_sent: CommonInputsSent
    more: _containers.RepeatedCompositeFieldContainer[ShadowMessage]
    def __init__(self, run_id: _Optional[str] = ..., accepted: _Optional[_Union[RunAccepted, _Mapping]] = ..., input: _Optional[_Union[FilePiece, _Mapping]] = ..., inputs_complete: _Optional[_Union[InputsComplete, _Mapping]] = ..., ack: _Optional[_Union[RunAck, _Mapping]] = ..., refused: _Optional[_Union[RunRefused, _Mapping]] = ..., kill: _Optional[_Union[RunKill, _Mapping]] = ..., checkpoint_kept: _Optional[_Union[CheckpointKept, _Mapping]] = ..., io: _Optional[_Union[RemoteIoDone, _Mapping]] = ..., visit: _Optional[_Union[JobVisit, _Mapping]] = ..., streamed: _Optional[_Union[StreamKept, _Mapping]] = ..., output_turn: _Optional[_Union[OutputTurn, _Mapping]] = ..., credentials: _Optional[_Union[CredentialFiles, _Mapping]] = ..., common_offered: _Optional[_Union[CommonInputsOffer, _Mapping]] = ..., common_sent: _Optional[_Union[CommonInputsSent, _Mapping]] = ..., more: _Optional[_Iterable[_Union[ShadowMessage, _Mapping]]] = ...) -> None: ...

class RunAccepted(_message.Message):
    __slots__ = ("job_ad", "user", "output_turns", "credentials")
    JOB_AD_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TURNS_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    job_ad: bytes
    user: str
    output_turns: bool
    credentials: CredentialFiles
    def __init__(self, job_ad: _Optional[bytes] = ..., user: _Optional[str] = ..., output_turns: _Optional[bool] = ..., credentials: _Optional[_Union[CredentialFiles, _Mapping]] = ...) -> None: ...

class OutputsWait(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class CommonInputsOffer(_message.Message):
    __slots__ = ("digest", "bytes", "keep_s")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    KEEP_S_FIELD_NUMBER: _ClassVar[int]
    digest: str
    bytes: int
    keep_s: int
    def __init__(self, digest: _Optional[str] = ..., bytes: _Optional[int] = ..., keep_s: _Optional[int] = ...) -> None: ...

class CommonInputsSent(_message.Message):
    __slots__ = ("whole",)
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    whole: bool
    def __init__(self, whole: _Optional[bool] = ...) -> None: ...

class OutputTurn(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InputsComplete(_message.Message):
    __slots__ = ("error", "hold_code", "hold_subcode")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HOLD_CODE_FIELD_NUMBER: _ClassVar[int]
    HOLD_SUBCODE_FIELD_NUMBER: _ClassVar[int]
    error: str
    hold_code: int
    hold_subcode: int
    def __init__(self, error: _Optional[str] = ..., hold_code: _Optional[int] = ..., hold_subcode: _Optional[int] = ...) -> None: ...

class RunAck(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RunRefused(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class RunKill(_message.Message):
    __slots__ = ("fast", "reason", "reason_code", "want_outputs")
    FAST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_CODE_FIELD_NUMBER: _ClassVar[int]
    WANT_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    fast: bool
    reason: str
    reason_code: int
    want_outputs: bool
    def __init__(self, fast: _Optional[bool] = ..., reason: _Optional[str] = ..., reason_code: _Optional[int] = ..., want_outputs: _Optional[bool] = ...) -> None: ...
