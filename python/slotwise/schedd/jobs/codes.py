"""Numbers that users see: job states, hold codes, vacate codes, and the rule that tells holds from vacates."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """JobStatus."""

    IDLE = 1
    RUNNING = 2
    REMOVED = 3
    COMPLETED = 4
    HELD = 5
    TRANSFERRING_OUTPUT = 6
    SUSPENDED = 7


class Universe(IntEnum):
    """JobUniverse, as far as jobs of it run."""

    VANILLA = 5
    SCHEDULER = 7
    LOCAL = 12


#: Universes whose jobs run on the access point itself.
RUN_HERE = frozenset((Universe.SCHEDULER, Universe.LOCAL))


LETTERS = {1: "I", 2: "R", 3: "X", 4: "C", 5: "H", 6: ">", 7: "S"}

#: The moves a job may make; removed and completed jobs leave the queue.
MOVES: dict[int, frozenset[int]] = {
    1: frozenset({2, 3, 5}),
    2: frozenset({1, 3, 4, 5, 6, 7}),
    5: frozenset({1, 3}),
    6: frozenset({1, 2, 3, 4, 5}),
    7: frozenset({1, 2, 3, 5}),
    3: frozenset(),
    4: frozenset(),
}


class Hold(IntEnum):
    """HoldReasonCode."""

    USER_REQUEST = 1
    JOB_POLICY = 3
    JOB_POLICY_UNDEFINED = 5
    FAILED_TO_CREATE_PROCESS = 6
    UNABLE_TO_OPEN_OUTPUT = 7
    UNABLE_TO_OPEN_INPUT = 8
    TRANSFER_OUTPUT_ERROR = 12
    TRANSFER_INPUT_ERROR = 13
    IWD_ERROR = 14
    SUBMITTED_ON_HOLD = 15
    SPOOLING_INPUT = 16
    STARTD_HELD_JOB = 21
    UNABLE_TO_INIT_USER_LOG = 22
    FAILED_TO_ACCESS_USER_ACCOUNT = 23
    SYSTEM_POLICY = 26
    SYSTEM_POLICY_UNDEFINED = 27
    MAX_TRANSFER_INPUT = 32
    MAX_TRANSFER_OUTPUT = 33
    JOB_OUT_OF_RESOURCES = 34
    JOB_DURATION_EXCEEDED = 46
    JOB_EXECUTE_EXCEEDED = 47


#: Names used as keys of NumHoldsByReason.
HOLD_NAMES = {
    1: "UserRequest",
    3: "JobPolicy",
    4: "CorruptedCredential",
    5: "JobPolicyUndefined",
    6: "FailedToCreateProcess",
    7: "UnableToOpenOutput",
    8: "UnableToOpenInput",
    9: "UnableToOpenOutputStream",
    10: "UnableToOpenInputStream",
    11: "InvalidTransferAck",
    12: "TransferOutputError",
    13: "TransferInputError",
    14: "IwdError",
    15: "SubmittedOnHold",
    16: "SpoolingInput",
    17: "JobShadowMismatch",
    18: "InvalidTransferGoAhead",
    19: "HookPrepareJobFailure",
    20: "MissedDeferredExecutionTime",
    21: "StartdHeldJob",
    22: "UnableToInitUserLog",
    23: "FailedToAccessUserAccount",
    24: "NoCompatibleShadow",
    25: "InvalidCronSettings",
    26: "SystemPolicy",
    27: "SystemPolicyUndefined",
    32: "MaxTransferInputSizeExceeded",
    33: "MaxTransferOutputSizeExceeded",
    34: "JobOutOfResources",
    35: "InvalidDockerImage",
    36: "FailedToCheckpoint",
    43: "PreScriptFailed",
    44: "PostScriptFailed",
    45: "SingularityTestFailed",
    46: "JobDurationExceeded",
    47: "JobExecuteExceeded",
    48: "HookShadowPrepareJobFailure",
    49: "CannotSwitchPrimaryGroup",
}


class Vacate(IntEnum):
    """VacateReasonCode."""

    JOB_POLICY = 1000
    SYSTEM_POLICY = 1001
    SHADOW_EXCEPTION = 1002
    JOB_NOT_STARTED = 1003
    USER_VACATE = 1004
    JOB_SHOULD_REQUEUE = 1005
    FAILED_TO_ACTIVATE_CLAIM = 1006
    STARTER_ERROR = 1007
    RECONNECT_FAILED = 1008
    CLAIM_DEACTIVATED = 1009
    STARTD_VACATE_COMMAND = 1010
    SCHEDD_VACATE = 1022
    JOB_REMOVED = 1023
    SCRATCH_DIR_ERROR = 1024


#: Refusals of an activation that speak of the claim alone (cleaning, work life over, preempted, not idle, unclaimed,
#: not found, old): the job never left the queue, so nothing is counted or logged, and it may start elsewhere at once.
CLAIM_WAS_OVER = frozenset({1028, 1029, 1030, 1032, 1033, 1034, 1035})

#: Names used as keys of NumVacatesByReason.
VACATE_NAMES = {
    1000: "JobPolicy",
    1001: "SystemPolicy",
    1002: "ShadowException",
    1003: "JobNotStarted",
    1004: "UserVacateJob",
    1005: "JobShouldRequeue",
    1006: "FailedToActivateClaim",
    1007: "StarterError",
    1008: "ReconnectFailed",
    1009: "ClaimDeactivated",
    1010: "StartdVacateCommand",
    1011: "StartdPreemptExpression",
    1012: "StartdException",
    1013: "StartdShutdown",
    1014: "StartdDraining",
    1015: "StartdCoalesce",
    1016: "StartdHibernate",
    1017: "StartdReleaseCommand",
    1018: "StartdPreemptingClaimRank",
    1019: "StartdPreemptingClaimUserPrio",
    1020: "VMError",
    1021: "ContainerError",
    1022: "ScheddVacate",
    1023: "JobRemoved",
    1024: "ScratchDirError",
    1025: "SuccessfulCheckpoint",
    1037: "StartdRehoming",
}


def is_vacate(code: int, subcode: int) -> bool:
    """Whether a problem reported with these codes sends the job back to Idle; anything else holds it."""
    return code <= 0 or code >= 1000 or subcode <= -1000
