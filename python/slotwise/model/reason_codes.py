"""The codes with which a hold or a vacate is reported, and the rule that tells the two apart.

Execution points report them and access points write them into job ads: HoldReasonCode, VacateReasonCode and their
subcodes. Manual, "Job ClassAd Attributes".
"""

from __future__ import annotations

from enum import IntEnum


class Hold(IntEnum):
    """HoldReasonCode."""

    USER_REQUEST = 1
    JOB_POLICY = 3
    CORRUPTED_CREDENTIAL = 4
    JOB_POLICY_UNDEFINED = 5
    FAILED_TO_CREATE_PROCESS = 6
    UNABLE_TO_OPEN_OUTPUT = 7
    UNABLE_TO_OPEN_INPUT = 8
    TRANSFER_OUTPUT_ERROR = 12
    TRANSFER_INPUT_ERROR = 13
    IWD_ERROR = 14
    SUBMITTED_ON_HOLD = 15
    SPOOLING_INPUT = 16
    HOOK_PREPARE_JOB_FAILURE = 19
    MISSED_DEFERRED_EXECUTION_TIME = 20
    STARTD_HELD_JOB = 21
    UNABLE_TO_INIT_USER_LOG = 22
    FAILED_TO_ACCESS_USER_ACCOUNT = 23
    SYSTEM_POLICY = 26
    SYSTEM_POLICY_UNDEFINED = 27
    MAX_TRANSFER_INPUT = 32
    MAX_TRANSFER_OUTPUT = 33
    JOB_OUT_OF_RESOURCES = 34
    INVALID_DOCKER_IMAGE = 35
    FAILED_TO_CHECKPOINT = 36
    JOB_DURATION_EXCEEDED = 46
    JOB_EXECUTE_EXCEEDED = 47
    HOOK_SHADOW_PREPARE_JOB_FAILURE = 48


#: HoldReasonSubCode with JOB_OUT_OF_RESOURCES: which resource the job used up.
OUT_OF_MEMORY_SUBCODE, OUT_OF_DISK_SUBCODE = 102, 104

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


class PluginFault(IntEnum):
    """Subcodes of a transfer that a plugin could not do, and a plugin elsewhere may (CONDOR_HOLD_SUBCODE)."""

    NOT_FOUND = -1001
    NOT_OPERATIONAL = -1002
    EXEC_FAILED = -1003
    NO_RESULT_REPORTED = -1004


def ends_in_hold(code: int, subcode: int) -> bool:
    """Whether a problem reported with these codes holds the job; any other sends it back to Idle."""
    return 0 < code < 1000 and subcode > -1000
