"""Names of the attributes that ads of slots, jobs and submitters have."""

from __future__ import annotations

from difflib import get_close_matches

#: What HTCondor's manual (25.14) lists for machines, jobs, submitters and the negotiator, with those of Slotwise.
KNOWN: frozenset[str] = frozenset(
    """
    Absent AcceptedWhileDraining AccountingGroup AcctGroup AcctGroupUser AccumulatedUsage ActivationDuration
    ActivationExecutionDuration ActivationSetupDuration ActivationTeardownDuration Activity AllowedExecuteDuration
    AllowedJobDuration AllRemoteHosts Arch Args Arguments AsleepWatts AuthenticatedIdentity AuthenticationMethod
    AuthTokenGroups AuthTokenId AuthTokenIssuer AuthTokenScopes AuthTokenSubject AvgTransferInputMB AvgTransferOutputMB
    BackfillSlot BatchExtraSubmitArgs BatchProject BatchQueue BatchRuntime BeginUsageTime BlockReadKbytes BlockReads
    BlockWriteKbytes BlockWrites BrokenContextAds BrokenSlotCpus BrokenSlotDisk BrokenSlotMemory CanHibernate
    CgroupEnforced CheckpointDestination ChildAccountingGroup ChildActivity ChildCpus ChildCurrentRank
    ChildEnteredCurrentState ChildMemory ChildName ChildRemoteOwner ChildRemoteUser ChildRetirementTimeRemaining
    ChildState ClaimEndTime CleanupCategoryCounts ClientMachine ClockDay ClockMin CloudImage CloudInstanceID
    CloudInterruptible CloudLabelNames CloudPlatform CloudProvider CloudRegion CloudVMType CloudZone ClusterId Cmd
    CommittedSlotTime CommittedSuspensionTime CommittedTime CompletionDate ConcurrencyLimits CondorLoadAvg
    CondorPlatform CondorVersion ConfigQuota ConsoleIdle ContainerImageSource ContainerTargetDir CpuCacheSize CpuFamily
    CpuModelNumber Cpus CpusProvisioned CpusUsage CronDayOfMonth CronDayOfWeek CronHour CronMinute CronMonth
    CumulativeRemoteSysCpu CumulativeRemoteUserCpu CumulativeSlotTime CumulativeSuspensionTime CumulativeTransferTime
    CurrentHosts CurrentRank CurrentTime DaemonLastReconfigTime DaemonStartTime DAG_AdUpdateTime DAG_InRecovery
    DAG_JobsCompleted DAG_JobsHeld DAG_JobsIdle DAG_JobsRunning DAG_JobsSubmitted DAG_NodesDone DAG_NodesFailed
    DAG_NodesFutile DAG_NodesPostrun DAG_NodesPrerun DAG_NodesQueued DAG_NodesReady DAG_NodesTotal DAG_NodesUnready
    DAG_Status DAGLifetimeJob DAGMan_MaxHoldScripts DAGMan_MaxIdle DAGMan_MaxJobs DAGMan_MaxPostScripts
    DAGMan_MaxPreScripts DAGMan_MaxSubmitsPerInterval DAGManJobId DAGManNodeRetry DAGManNodesLog DAGManNodesMask
    DAGNodeName DAGParentNodeNames DeferralPrepTime DeferralTime DeferralWindow DelegateJobGSICredentialsLifetime
    DetectedCpus DetectedDisk DetectedMemory DeviceGPUsAverageUsage DeviceGPUsMemoryPeakUsage Disk DiskProvisioned
    DiskUsage DockerCachedImageSizeMb DockerImage DockerNetworks DockerOfflineReason DockerVersion DotNetVersions
    Draining DrainingRequestId DynamicSlot EC2AccessKeyId EC2AmiID EC2BlockDeviceMapping EC2ElasticIp EC2IamProfileArn
    EC2IamProfileName EC2InstanceName EC2InstanceType EC2KeyPair EC2KeyPairFile EC2ParameterNames
    EC2RemoteVirtualMachineName EC2SecretAccessKey EC2SecurityGroups EC2SecurityIDs EC2SpotPrice EC2SpotRequestID
    EC2StatusReasonCode EC2TagNames EC2UserData EC2UserDataFile EmailAttributes EncryptExecuteDirectory
    EnteredCurrentActivity EnteredCurrentStatus Env Environment EraseOutputAndErrorOnRestart ExecutableSize
    ExecuteDirWasEncrypted ExitBySignal ExitCode ExitSignal ExitStatus ExpectedMachineGracefulDrainingBadput
    ExpectedMachineGracefulDrainingCompletion ExpectedMachineQuickDrainingBadput ExpectedMachineQuickDrainingCompletion
    FileSystemDomain FirstJobMatchDate FlockedJobs GceAuthFile GceImage GceJsonFile GceMachineType GceMetadata
    GceMetadataFile GcePreemptible GlobalJobId GPUsMaxCapability GPUsMinCapability GPUsMinMemory GPUsMinRuntime
    GridJobId GridJobStatus GridResource GridResourceUnavailableTime has_avx has_avx2 has_avx512dnni has_avx512dq
    has_avx512f Has_sse4_1 Has_sse4_2 has_ssse3 HasCommonFilesTransfer HasContainer HasDocker
    HasDockerReason HasDockerURL
    HasEncryptExecuteDirectory HasFileTransfer HasFileTransferPluginMethods HasJobDeferral HasPerFileEncryption
    HasReconnect HasRotationalScratch HasSandboxImage HasSelfCheckpointTransfers HasSIF HasSingularity HasSshd
    HasUserNamespaces HasVM HeldJobs HibernationLevel HibernationState HibernationSupportedStates HoldKillSig HoldReason
    HoldReasonCode HoldReasonSubCode HookKeyword IdleJobs IdleWatts ImageSize InitialWaitDuration Interactive
    InteractiveJob IOWait IsAccountingGroup IsDataSlot IsEnforcingDiskUsage IsWakeAble IsWakeEnabled IsWakeOnLanEnabled
    IsWakeOnLanSupported Iwd IwdFlushNFSCache JobAdInformationAttrs JobBatchName JobBusyTimeAvg JobBusyTimeCount
    JobBusyTimeMax JobBusyTimeMin JobCoolDownExpiration JobCurrentFinishTransferInputDate
    JobCurrentFinishTransferOutputDate JobCurrentReconnectAttempt JobCurrentStartDate JobCurrentStartExecutingDate
    JobCurrentStartTransferInputDate JobCurrentStartTransferOutputDate JobDescription JobDisconnectedDate JobDurationAvg
    JobDurationCount JobDurationMax JobDurationMin JobId JobLeaseDuration JobMaterializePaused JobMaxVacateTime
    JobNotification JobPreemptions JobPrio JobRankPreemptions JobRunCount JobStart JobStartDate JobStarterDebug
    JobStarterLog JobStarts JobStatus JobSubmitFile JobSubmitMethod JobUniverse JobUserPrioPreemptions JobVM_VCPUS
    KeepClaimIdle KeyboardIdle KFlops KillSig KillSigTimeout LastDrainStartTime LastDrainStopTime LastHeardFrom
    LastMatchTime LastNegotiationCycleActiveSubmitterCount LastNegotiationCycleCandidateSlots LastPeriodicCheckpoint
    LastRejMatchReason LastRejMatchTime LastRemotePool LastRemoteWallClockTime LastShadowException LastSuspensionTime
    LastUsageTime LastVacateTime LastWakeupCall LeaveJobInQueue LoadAvg LocalJobsIdle LocalJobsRunning LvmBackingStore
    LvmDetectedDisk LvmIsThinProvisioning LvmNonCondorDiskUsage LvmUsingLoopback Machine MachineLastMatchTime
    MachineMaxVacateTime MaxClaimTime MaxHosts MaxJobRetirementTime MaxTransferInputMB MaxTransferOutputMB Memory
    MemoryProvisioned MemoryUsage Microarch MinHosts Mips MonitorSelfAge MonitorSelfCPUUsage MonitorSelfImageSize
    MonitorSelfRegisteredSocketCount MonitorSelfResidentSetSize MonitorSelfSecuritySessions MonitorSelfTime MyAddress
    MyCurrentTime MyType Name NegotiatorIpAddr NextJobStartDelay NiceUser Nonessential NTDomain NumDynamicSlots NumHolds
    NumHoldsByReason NumInputTransferStarts NumJobCompletions NumJobCoolDowns NumJobMatches NumJobReconnects
    NumJobStarts NumOutputTransferStarts NumPids NumRestarts NumShadowExceptions NumShadowStarts NumSystemHolds
    NumVacates NumVacatesByReason NumVacatesByReasonPreExecution NumVacatesPreExecution Offline OfflineUniverses OpSys
    OpSysAndVer OpSysLegacy OpSysLongName OpSysMajorVer OpSysName OpSysShortName OpSysVer OSHomeDir OsUser
    OtherJobRemoveRequirements OutputDestination OutputDirectory Owner ParallelShutdownPolicy PartitionableSlot
    PeriodicVacate PostArgs PostArguments PostCmd PostCmdExitBySignal PostCmdExitCode PostCmdExitSignal PostEnv
    PostEnvironment PostJobPrio1 PostJobPrio2 PreArgs PreArguments PreCmd PreCmdExitBySignal PreCmdExitCode
    PreCmdExitSignal PreemptingOwner PreemptingRank PreemptingUser PreEnv PreEnvironment PreJobPrio1 PreJobPrio2
    PreserveRelativeExecutable PreserveRelativePaths Priority PriorityFactor ProcId ProportionalSetSizeKb
    ProvisionerState PslotRollupInformation PublicNetworkIpAddr QDate RecentBlockReadKbytes RecentBlockReads
    RecentBlockWriteKbytes RecentBlockWrites RecentJobBusyTimeAvg RecentJobBusyTimeCount RecentJobBusyTimeMax
    RecentJobBusyTimeMin RecentJobDurationAvg RecentJobDurationCount RecentJobDurationMax RecentJobDurationMin
    RecentJobPreemptions RecentJobRankPreemptions RecentJobStarts RecentJobUserPrioPreemptions ReleaseReason
    RemoteAutoregroup RemoteGroup RemoteGroupQuota RemoteGroupResourcesInUse RemoteHost RemoteIwd RemoteNegotiatingGroup
    RemoteOwner RemotePool RemoteProject RemoteScheddName RemoteSysCpu RemoteUser RemoteUserCpu RemoteUserPrio
    RemoteUserResourcesInUse RemoteWallClockTime RemoveKillSig RequestCpus RequestDisk RequestedChroot RequestGPUs
    RequestMemory RequireGPUs Requirements ResidentSetSize ResourcesUsed RetirementTimeRemaining RunningJobs
    ScheddIpAddr ScheddName SchedulerJobsIdle SchedulerJobsRunning ScitokensFile ScratchDirFileCount ServerTime
    SingularityOfflineReason SingularityUserNamespaces SingularityVersion SlotBrokenCode SlotBrokenReason SlotID
    SlotType SlotTypeID SlotWeight SpoolOnEvict StackSize StageOutFinish StageOutStart Start StartdIpAddr State
    StderrMtime StdoutMtime StreamErr StreamOut SubmitEventNotes SubmitEventNotesAttrs SubmitEventUserNotes
    SubmitterAutoregroup SubmitterGlobalJobId SubmitterGroup SubmitterGroupQuota SubmitterGroupResourcesInUse
    SubmitterLimit SubmitterNegotiatingGroup SubmitterShare SubmitterTag SubmitterUserPrio SubmitterUserResourcesInUse
    SubmitVersion SuccessCheckpointExitBySignal SuccessCheckpointExitCode SuccessCheckpointExitSignal
    SuccessPostExitBySignal SuccessPostExitCode SuccessPostExitSignal SuccessPreExitBySignal SuccessPreExitCode
    SuccessPreExitSignal TargetType TotalClaimRunTime TotalClaimSuspendTime TotalCondorLoadAvg TotalCpus TotalDisk
    TotalJobReconnectAttempts TotalJobRunTime TotalJobSuspendTime TotalLoadAvg TotalMachineDrainingBadput
    TotalMachineDrainingUnclaimedTime TotalMemory TotalSlotCpus TotalSlotDisk TotalSlotMemory TotalSlots
    TotalSuspensions TotalTimeBackfillBusy TotalTimeBackfillIdle TotalTimeBackfillKilling TotalTimeClaimedBusy
    TotalTimeClaimedCleaning TotalTimeClaimedIdle TotalTimeClaimedRetiring TotalTimeClaimedSuspended
    TotalTimeMatchedIdle TotalTimeOwnerIdle TotalTimePreemptingKilling TotalTimePreemptingVacating
    TotalTimeUnclaimedBenchmarking TotalTimeUnclaimedIdle TotalTransferInputMB TotalTransferOutputMB TransferCheckpoint
    TransferContainer TransferErr TransferExecutable TransferIn TransferInFinished TransferInput TransferInputFileCounts
    TransferInputSizeMB TransferInputStats TransferInQueued TransferInStarted TransferOut TransferOutFinished
    TransferOutput TransferOutputStats TransferOutQueued TransferOutStarted TransferPlugins TransferQueued
    TransferringInput TransferringOutput UidDomain UnclaimedSince Unhibernate UpdateSequenceNumber UpdatesHistory
    UpdatesLost UpdatesSequenced UpdatesTotal User UserLog VacateReason VacateReasonCode VacateReasonSubCode
    VirtualMemory VM_AvailNum VM_Guest_Mem VM_MACAddr VM_Memory VM_Networking VM_Type VMOfflineReason VMOfflineTime
    WakeOnLanEnabledFlags WakeOnLanSupportedFlags WakeupCalls WakeupFailures WantContainer WantDocker WantFTOnCheckpoint
    WantGracefulRemoval WantTransferPluginMethods WeightedAccumulatedUsage WeightedIdleJobs WeightedResourcesUsed
    WeightedRunningJobs WindowsBuildNumber WindowsMajorVersion WindowsMinorVersion X509UserProxy X509UserProxyEmail
    X509UserProxyExpiration X509UserProxyFirstFQAN X509UserProxyFQAN X509UserProxySubject X509UserProxyVOName
    """.split()  # noqa: SIM905 - one name a line would be as long as a module
)

_SPELLED = {name.lower(): name for name in KNOWN}
#: How alike a name without a meaning and an attribute's must be, and how long a name: short ones are alike by chance.
_ALIKE, _SHORTEST = 0.88, 6


def meant_by(name: str) -> str | None:
    """The attribute that a misspelled name stands for; None for known names, and for those that are like none."""
    lowered = name.lower()
    if len(name) < _SHORTEST or lowered in _SPELLED:
        return None
    swapped = (lowered[:at] + lowered[at + 1] + lowered[at] + lowered[at + 2 :] for at in range(len(lowered) - 1))
    if (transposed := next((name for name in swapped if name in _SPELLED), None)) is not None:
        return _SPELLED[transposed]
    near = get_close_matches(lowered, _SPELLED, n=1, cutoff=_ALIKE)
    return _SPELLED[near[0]] if near else None
