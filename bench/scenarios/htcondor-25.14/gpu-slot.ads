AcceptedWhileDraining = false
ActivationRequests = 0
Activity = "Idle"
AddressV1 = "{[ p=\"primary\"; a=\"127.0.0.1\"; port=19730; n=\"Internet\"; alias=\"127-0-0-1.peer.local\"; spid=\"startd_24658_3ac6\"; noUDP=true; ], [ p=\"IPv4\"; a=\"127.0.0.1\"; port=19730; n=\"Internet\"; alias=\"127-0-0-1.peer.local\"; spid=\"startd_24658_3ac6\"; noUDP=true; ]}"
Arch = "X86_64"
AssignedGPUs = "MIG-06223300-4445-5667-899a-abbccddeeff0,MIG-06223301-4445-5667-899a-abbccddeeff0,MIG-17223300-4445-5667-899a-abbccddeeff0,MIG-17223301-4445-5667-899a-abbccddeeff0,MIG-a0223300-4445-5667-899a-abbccddeeff0,MIG-a0223301-4445-5667-899a-abbccddeeff0,MIG-b1223300-4445-5667-899a-abbccddeeff0,MIG-b1223301-4445-5667-899a-abbccddeeff0,MIG-c2223300-4445-5667-899a-abbccddeeff0,MIG-c2223301-4445-5667-899a-abbccddeeff0,MIG-d3223300-4445-5667-899a-abbccddeeff0,MIG-d3223301-4445-5667-899a-abbccddeeff0,MIG-e4223300-4445-5667-899a-abbccddeeff0,MIG-e4223301-4445-5667-899a-abbccddeeff0,MIG-f5223300-4445-5667-899a-abbccddeeff0,MIG-f5223301-4445-5667-899a-abbccddeeff0"
AuthenticatedIdentity = "condor@family"
AuthenticationMethod = "FAMILY"
AvailableGPUs = { GPUs_MIG_06223300_4445_5667_899a_abbccddeeff0,GPUs_MIG_06223301_4445_5667_899a_abbccddeeff0,GPUs_MIG_17223300_4445_5667_899a_abbccddeeff0,GPUs_MIG_17223301_4445_5667_899a_abbccddeeff0,GPUs_MIG_a0223300_4445_5667_899a_abbccddeeff0,GPUs_MIG_a0223301_4445_5667_899a_abbccddeeff0,GPUs_MIG_b1223300_4445_5667_899a_abbccddeeff0,GPUs_MIG_b1223301_4445_5667_899a_abbccddeeff0,GPUs_MIG_c2223300_4445_5667_899a_abbccddeeff0,GPUs_MIG_c2223301_4445_5667_899a_abbccddeeff0,GPUs_MIG_d3223300_4445_5667_899a_abbccddeeff0,GPUs_MIG_d3223301_4445_5667_899a_abbccddeeff0,GPUs_MIG_e4223300_4445_5667_899a_abbccddeeff0,GPUs_MIG_e4223301_4445_5667_899a_abbccddeeff0,GPUs_MIG_f5223300_4445_5667_899a_abbccddeeff0,GPUs_MIG_f5223301_4445_5667_899a_abbccddeeff0 }
CanHibernate = false
ChildAccountingGroup = {  }
ChildActivity = {  }
ChildCpus = {  }
ChildCurrentRank = {  }
ChildDisk = {  }
ChildDSlotId = {  }
ChildEnteredCurrentState = {  }
ChildGPUs = {  }
ChildMemory = {  }
ChildName = {  }
ChildRemoteOwner = {  }
ChildRemoteUser = {  }
ChildRetirementTimeRemaining = {  }
ChildState = {  }
ClaimRequests = 0
ClockDay = 0
ClockMin = 1050
COLLECTOR_HOST_STRING = "127.0.0.1:19730"
CondorLoadAvg = 0.0
CondorPlatform = "$CondorPlatform: X86_64-Debian_ $"
CondorScratchDir = "#CoNdOrScRaTcHdIr#"
CondorVersion = "$CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $"
ConsoleIdle = 1203
CpuBusy = false
CpuCacheSize = 266240
CpuFamily = 6
CpuModelNumber = 207
Cpus = 64
CurrentRank = 0.0
DaemonCoreDutyCycle = 0.001097106361838129
DaemonLastReconfigTime = 1795368610
DaemonShutdownFast = false
DaemonStartTime = 1795368610
DetectedCpus = 2
DetectedDisk = 264212084
DetectedGPUs = "MIG-06223300-4445-5667-899a-abbccddeeff0, MIG-06223301-4445-5667-899a-abbccddeeff0, MIG-17223300-4445-5667-899a-abbccddeeff0, MIG-17223301-4445-5667-899a-abbccddeeff0, MIG-a0223300-4445-5667-899a-abbccddeeff0, MIG-a0223301-4445-5667-899a-abbccddeeff0, MIG-b1223300-4445-5667-899a-abbccddeeff0, MIG-b1223301-4445-5667-899a-abbccddeeff0, MIG-c2223300-4445-5667-899a-abbccddeeff0, MIG-c2223301-4445-5667-899a-abbccddeeff0, MIG-d3223300-4445-5667-899a-abbccddeeff0, MIG-d3223301-4445-5667-899a-abbccddeeff0, MIG-e4223300-4445-5667-899a-abbccddeeff0, MIG-e4223301-4445-5667-899a-abbccddeeff0, MIG-f5223300-4445-5667-899a-abbccddeeff0, MIG-f5223301-4445-5667-899a-abbccddeeff0"
DetectedMemory = 24105
Disk = 70547976
EnteredCurrentActivity = 1795368613
EnteredCurrentState = 1795368613
ExecuteVolume = "65024"
ExpectedMachineGracefulDrainingBadput = 0
ExpectedMachineGracefulDrainingCompletion = 1795368613
ExpectedMachineQuickDrainingBadput = 0
ExpectedMachineQuickDrainingCompletion = 1795368613
FileSystemDomain = "peer.local"
GPUs = 16
GPUs_Capability = 8.0
GPUs_ClockMhz = 1410.0
GPUs_CoresPerCU = 64
GPUs_ECCEnabled = true
GPUs_MIG_06223300_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-06223300-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-06223300-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:46:00.0"; GlobalMemoryMb = 20086 ]
GPUs_MIG_06223301_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-06223301-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-06223301-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:46:00.0"; GlobalMemoryMb = 20082 ]
GPUs_MIG_17223300_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-17223300-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-17223300-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:47:00.0"; GlobalMemoryMb = 20086 ]
GPUs_MIG_17223301_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-17223301-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-17223301-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:47:00.0"; GlobalMemoryMb = 20082 ]
GPUs_MIG_a0223300_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-a0223300-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-a0223300-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:40:00.0"; GlobalMemoryMb = 20086 ]
GPUs_MIG_a0223301_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-a0223301-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-a0223301-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:40:00.0"; GlobalMemoryMb = 20082 ]
GPUs_MIG_b1223300_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-b1223300-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-b1223300-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:41:00.0"; GlobalMemoryMb = 20086 ]
GPUs_MIG_b1223301_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-b1223301-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-b1223301-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:41:00.0"; GlobalMemoryMb = 20082 ]
GPUs_MIG_c2223300_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-c2223300-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-c2223300-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:42:00.0"; GlobalMemoryMb = 20086 ]
GPUs_MIG_c2223301_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-c2223301-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-c2223301-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:42:00.0"; GlobalMemoryMb = 20082 ]
GPUs_MIG_d3223300_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-d3223300-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-d3223300-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:43:00.0"; GlobalMemoryMb = 20086 ]
GPUs_MIG_d3223301_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-d3223301-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-d3223301-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:43:00.0"; GlobalMemoryMb = 20082 ]
GPUs_MIG_e4223300_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-e4223300-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-e4223300-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:44:00.0"; GlobalMemoryMb = 20086 ]
GPUs_MIG_e4223301_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-e4223301-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-e4223301-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:44:00.0"; GlobalMemoryMb = 20082 ]
GPUs_MIG_f5223300_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-f5223300-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-f5223300-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:45:00.0"; GlobalMemoryMb = 20086 ]
GPUs_MIG_f5223301_4445_5667_899a_abbccddeeff0 = [ Id = "MIG-f5223301-4445-5667-899a-abbccddeeff0"; ClockMhz = 1410.0; Capability = 8.0; CoresPerCU = 64; DeviceUuid = "MIG-f5223301-4445-5667-899a-abbccddeeff0"; ECCEnabled = true; DevicePciBusId = "0000:45:00.0"; GlobalMemoryMb = 20082 ]
HardwareAddress = "00:00:00:00:00:00"
has_avx = true
has_avx2 = true
has_avx512_vnni = true
has_avx512dq = true
has_avx512f = true
has_sse4_1 = true
has_sse4_2 = true
has_ssse3 = true
HasCommonFilesTransfer = 2
HasFileTransfer = true
HasFileTransferPluginMethods = "box,data,dav,davs,file,ftp,gdrive,http,https,onedrive,s3,gs"
HasIOProxy = true
HasJICLocalConfig = true
HasJICLocalStdin = true
HasJobDeferral = true
HasJobNetworking = true
HasJobTransferPlugins = true
HasOsUser = true
HasPerFileEncryption = true
HasReconnect = true
HasRotationalScratch = true
HasSelfCheckpointTransfers = true
HasSshd = false
HasStartDaemonAd = true
HasTDP = true
HasTransferInputRemaps = true
HasVM = false
HibernationLevel = 0
HibernationState = "NONE"
HibernationSupportedStates = ""
IsLocalStartd = false
IsWakeAble = false
IsWakeOnLanEnabled = false
IsWakeOnLanSupported = false
JobPreemptions = 0
JobRankPreemptions = 0
JobStarts = 0
JobUserPrioPreemptions = 0
KeyboardIdle = 1203
LastBenchmark = 0
LastFetchWorkCompleted = 0
LastFetchWorkSpawned = 0
LastHeardFrom = 1795368614
LoadAvg = 9.869999999999999
Machine = "127-0-0-1.peer.local"
MachineMaxVacateTime = 10 * 60
MachineResources = "Cpus Memory Disk Swap GPUs"
MappingMethod = "Hardlink"
MaxJobRetirementTime = 0
Memory = 262144
Microarch = "x86_64-v4"
MonitorSelfAge = 4
MonitorSelfCPUUsage = 0.25
MonitorSelfImageSize = 27632
MonitorSelfRegisteredSocketCount = 0
MonitorSelfResidentSetSize = 18432
MonitorSelfSecuritySessions = 3
MonitorSelfTime = 1795368613
MyAddress = "<127.0.0.1:19730?addrs=127.0.0.1-19730&alias=127-0-0-1.peer.local&noUDP&sock=startd_24658_3ac6>"
MyCurrentTime = 1795368613
MyType = "Machine"
Name = "slot1@127-0-0-1.peer.local"
NewDSlotNotMatch = 0
NextFetchWorkDelay = -1
NumDynamicSlots = 0
NumDynamicSlotsTime = 1795368613
NumPids = 0
OpSys = "LINUX"
OpSysAndVer = "Debian0"
OpSysLegacy = "LINUX"
OpSysLongName = "Debian GNU/Linux forky/sid"
OpSysName = "Debian"
OpSysShortName = "Debian"
PartitionableSlot = true
PslotRollupInformation = true
Rank = 0.0
RecentActivationRequests = 0
RecentClaimRequests = 0
RecentDaemonCoreDutyCycle = 0.001097106361838129
RecentJobPreemptions = 0
RecentJobRankPreemptions = 0
RecentJobStarts = 0
RecentJobUserPrioPreemptions = 0
RecentNewDSlotNotMatch = 0
Requirements = Start && WithinResourceLimits
RetirementTimeRemaining = 0
SlotID = 1
SlotType = "Partitionable"
SlotTypeID = 1
SlotWeight = Cpus
Start = true
StartdIpAddr = "<127.0.0.1:19730?addrs=127.0.0.1-19730&alias=127-0-0-1.peer.local&noUDP&sock=startd_24658_3ac6>"
StarterAbilityList = "HasVM,HasTDP,HasSshd,HasOsUser,HasReconnect,HasJobDeferral,HasFileTransfer,HasJICLocalStdin,HasJobNetworking,HasJICLocalConfig,HasPerFileEncryption,HasJobTransferPlugins,HasCommonFilesTransfer,HasTransferInputRemaps,HasSelfCheckpointTransfers,HasFileTransferPluginMethods"
State = "Unclaimed"
SubnetMask = "255.0.0.0"
TargetType = "Job"
TimeToLive = 2147483647
TotalCondorLoadAvg = 0.0
TotalCpus = 64.0
TotalDisk = 70547976
TotalGPUs = 16
TotalLoadAvg = 9.869999999999999
TotalMemory = 262144
TotalSlotCpus = 64
TotalSlotDisk = 70547976.0
TotalSlotGPUs = 16
TotalSlotMemory = 262144
TotalSlots = 1
TotalTimeOwnerIdle = 3
TotalTimeUnclaimedIdle = 1
TotalVirtualMemory = 24684092
UidDomain = "peer.local"
Unhibernate = MY.MachineLastMatchTime =!= undefined
UpdateSequenceNumber = 1
UpdatesHistory = "00000000000000000000000000000000"
UpdatesLost = 0
UpdatesSequenced = 0
UpdatesTotal = 1
UtsnameMachine = "x86_64"
UtsnameNodename = "vm"
UtsnameRelease = "6.18.44-fc-v657"
UtsnameSysname = "Linux"
UtsnameVersion = "#1 SMP PREEMPT_DYNAMIC @0"
VirtualMemory = 24684092
WakeOnLanEnabledFlags = "NONE"
WakeOnLanSupportedFlags = "NONE"
WithinResourceLimits = MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus && MY.Memory > 0 && TARGET.RequestMemory <= MY.Memory && MY.Disk > 0 && (TARGET.RequestDisk - ifthenelse(MappingMethod ?: "" != "Copy",ifthenelse(RequestedCatalogs =?= undefined || catalogs =?= undefined,0,sum(evalInEachContext(member(CatalogID,RequestedCatalogIDs) ? CatalogSize : 0,catalogs))),0)) <= MY.Disk && (TARGET.RequestGPUs =?= undefined || MY.GPUs >= TARGET.RequestGPUs)

