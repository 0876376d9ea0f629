//! Slot ads.

mod common;

use std::fmt::Write;

use crate::mix;
use common::COMMON;

/// What a pool of machines looks like.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// Changes every number that varies.
    pub seed: u64,
    /// Machine classes: kinds bought together, with equal hardware and policy.
    pub classes: u64,
    /// Static slots a machine has; a partitionable slot has a machine of its own.
    pub slots_per_machine: u64,
    /// One partitionable slot a machine instead of static slots.
    pub partitionable: bool,
    /// Every how many slots one is claimed; 0 for none.
    pub claimed_every: u64,
    /// Seconds since the epoch.
    pub now: i64,
}

impl Default for MachineSpec {
    fn default() -> Self {
        MachineSpec {
            seed: 1,
            classes: 8,
            slots_per_machine: 32,
            partitionable: false,
            claimed_every: 0,
            now: 1_800_000_000,
        }
    }
}

/// Hardware and policy of a machine class.
struct Class {
    cores: u64,
    memory_mib: u64,
    os: &'static str,
    os_major: u32,
    cpu: &'static str,
    gpus: u64,
    rack: u64,
    start: &'static str,
    rank: &'static str,
}

const STARTS: [&str; 8] = [
    "true",
    "TARGET.RequestMemory <= 65536",
    "(TARGET.JobUniverse == 5 || TARGET.JobUniverse == 7) && TARGET.NiceUser =!= true",
    "TARGET.Owner =!= \"banned\" && (TARGET.RequestCpus ?: 1) <= 8",
    "TARGET.AcctGroup =?= undefined || stringListMember(TARGET.AcctGroup,\"physics,chem,bio\")",
    "(KeyboardIdle > 15 * 60 && LoadAvg - CondorLoadAvg <= 0.3) || TARGET.WantInteractive =?= true",
    "TARGET.RequestGPUs > 0 || TARGET.MayUseGpuNodes =?= true || TARGET.JobPrio >= 0",
    "ifThenElse(TARGET.ExpectedRuntime =?= undefined,true,TARGET.ExpectedRuntime < 86400)",
];

fn class(spec: &MachineSpec, machine: u64) -> (u64, Class) {
    let number = mix(spec.seed, machine) % spec.classes.max(1);
    let one = |list: &[u64]| list[(number as usize) % list.len()];
    let made = Class {
        cores: one(&[64, 32, 128, 64, 96, 48, 64, 32]),
        memory_mib: one(&[
            262_144, 131_072, 524_288, 515_000, 385_000, 192_000, 257_000, 128_500,
        ]),
        os: ["AlmaLinux9", "Debian12", "Rocky8", "AlmaLinux9"][number as usize % 4],
        os_major: [9, 12, 8, 9][number as usize % 4],
        cpu: ["EPYC 7543", "Xeon 6226R", "EPYC 9654", "Xeon 8358"][number as usize % 4],
        gpus: if number % 4 == 2 { 4 } else { 0 },
        rack: number,
        start: STARTS[number as usize % STARTS.len()],
        rank: if number % 4 == 1 {
            "(TARGET.AcctGroup =?= \"physics\") * 10.0"
        } else {
            "0.0"
        },
    };
    (number, made)
}

/// The name of a slot, its key in tables.
#[must_use]
pub fn slot_name(spec: &MachineSpec, index: u64) -> String {
    let per = if spec.partitionable {
        1
    } else {
        spec.slots_per_machine.max(1)
    };
    format!(
        "slot{}@node{:06}.cluster.example.org",
        index % per + 1,
        index / per
    )
}

/// The slot ad as `condor_status -long` prints it: `Name = value` lines, no blank line at the end.
#[must_use]
pub fn slot_text(spec: &MachineSpec, index: u64) -> String {
    let mut out = String::with_capacity(8192);
    let per = if spec.partitionable {
        1
    } else {
        spec.slots_per_machine.max(1)
    };
    let machine = index / per;
    let (number, class) = class(spec, machine);
    let share = if spec.partitionable { class.cores } else { 1 };
    let memory = class.memory_mib / class.cores * share;
    let disk = (900_000_000 + mix(spec.seed + 1, machine) % 50_000_000) / class.cores * share;
    let host = format!("node{machine:06}.cluster.example.org");
    let address = format!(
        "10.{}.{}.{}",
        machine >> 16 & 255,
        machine >> 8 & 255,
        machine & 255
    );
    let sinful = format!(
        "<{address}:9618?addrs={address}-9618&alias={host}&noUDP&sock=startd_{}_{:04x}>",
        1000 + machine % 9000,
        machine & 0xffff
    );
    let slot = index % per + 1;
    let claimed = spec.claimed_every > 0 && index.is_multiple_of(spec.claimed_every);
    let noise = mix(spec.seed + 2, index);
    let booted = spec.now - 86_400 * (1 + (noise % 40) as i64);
    let kind = if spec.partitionable {
        "Partitionable"
    } else {
        "Static"
    };
    let mut put = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(out, "{name} = {value}");
    };
    let quoted = |text: &str| format!("\"{text}\"");

    // The same in the whole pool.
    for (name, value) in COMMON {
        put(name, &value);
    }
    // By class.
    put("Arch", &"\"X86_64\"");
    put("OpSys", &"\"LINUX\"");
    put("OpSysAndVer", &quoted(class.os));
    put(
        "OpSysLongName",
        &quoted(&format!("{} release {}.4", class.os, class.os_major)),
    );
    put(
        "OpSysName",
        &quoted(class.os.trim_end_matches(char::is_numeric)),
    );
    put(
        "OpSysShortName",
        &quoted(class.os.trim_end_matches(char::is_numeric)),
    );
    put("OpSysMajorVer", &class.os_major);
    put("OpSysVer", &(class.os_major * 100 + 4));
    put("CpuModel", &quoted(class.cpu));
    put("CpuFamily", &(6 + number % 2));
    put("CpuCacheSize", &(512 * (1 + number % 3)));
    put("CpuModelNumber", &(80 + number));
    put("DetectedCpus", &class.cores);
    put("DetectedMemory", &class.memory_mib);
    put("DetectedGPUs", &class.gpus);
    put("GPUs", &if spec.partitionable { class.gpus } else { 0 });
    put(
        "Microarch",
        &quoted(["x86_64-v3", "x86_64-v4"][number as usize % 2]),
    );
    put("Rack", &quoted(&format!("rack-{}", class.rack)));
    put("Site", &quoted(["north", "south"][number as usize % 2]));
    put("HasSingularity", &(number % 3 != 0));
    put(
        "SingularityVersion",
        &quoted(&format!("1.3.{}", number % 3)),
    );
    put("CUDACapability", &if class.gpus > 0 { 8.0 } else { 0.0 });
    put("TotalCpus", &class.cores);
    put("TotalMemory", &class.memory_mib);
    put("TotalSlots", &per);
    put("TotalVirtualMemory", &(class.memory_mib * 1024 + 8_388_608));
    put("START", &class.start);
    put("Rank", &class.rank);
    put("SlotWeight", &"Cpus");
    put("Requirements", &"START && WithinResourceLimits");
    put(
        "WithinResourceLimits",
        &"MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus && MY.Memory > 0 && TARGET.RequestMemory <= MY.Memory && \
          MY.Disk > 0 && TARGET.RequestDisk <= MY.Disk && (TARGET.RequestGPUs is undefined || MY.GPUs >= TARGET.RequestGPUs)",
    );
    put("IsOwner", &"(START =?= false)");
    put("CpuBusy", &"((LoadAvg - CondorLoadAvg) >= 0.5)");
    put(
        "CpuBusyTime",
        &"ifThenElse(CpuBusy,time() - EnteredCurrentState,0)",
    );
    // By machine.
    put("Machine", &quoted(&host));
    put("MyAddress", &quoted(&sinful));
    put("StartdIpAddr", &quoted(&sinful));
    put(
        "AddressV1",
        &quoted(&format!(
            "{{[ p=\\\"primary\\\"; a=\\\"{address}\\\"; port=9618; n=\\\"Internet\\\"; alias=\\\"{host}\\\"; ]}}"
        )),
    );
    put(
        "HardwareAddress",
        &quoted(&format!(
            "b8:59:9f:{:02x}:{:02x}:{:02x}",
            machine >> 16 & 255,
            machine >> 8 & 255,
            machine & 255
        )),
    );
    put("UtsnameNodename", &quoted(&host));
    put(
        "KFlops",
        &(1_300_000 + mix(spec.seed + 3, machine) % 400_000),
    );
    put("Mips", &(26_000 + mix(spec.seed + 4, machine) % 8_000));
    put("DaemonStartTime", &booted);
    put("LastBenchmark", &(booted + 60));
    put("TotalDisk", &(disk / share * class.cores));
    put(
        "TotalLoadAvg",
        &format!("{:.2}", (mix(spec.seed + 5, machine) % 6400) as f64 / 100.0),
    );
    put(
        "UpdateSequenceNumber",
        &(100 + mix(spec.seed + 6, machine) % 3000),
    );
    put("UpdatesTotal", &(100 + mix(spec.seed + 6, machine) % 3000));
    put("MonitorSelfAge", &(spec.now - booted));
    put(
        "MonitorSelfImageSize",
        &(30_000 + mix(spec.seed + 7, machine) % 500),
    );
    put(
        "MonitorSelfResidentSetSize",
        &(14_000 + mix(spec.seed + 8, machine) % 500),
    );
    // By slot.
    put("Name", &quoted(&slot_name(spec, index)));
    put("SlotID", &slot);
    put("SlotType", &quoted(kind));
    put("SlotTypeID", &i64::from(spec.partitionable));
    if spec.partitionable {
        put("PartitionableSlot", &true);
        put("ChildCpus", &"{  }");
        put("NumDynamicSlots", &0);
    }
    put("Cpus", &share);
    put("Memory", &memory);
    put("Disk", &disk);
    put("TotalSlotCpus", &share);
    put("TotalSlotMemory", &memory);
    put("TotalSlotDisk", &disk);
    put("VirtualMemory", &(memory * 1024));
    put(
        "State",
        &if claimed {
            "\"Claimed\""
        } else {
            "\"Unclaimed\""
        },
    );
    put("Activity", &if claimed { "\"Busy\"" } else { "\"Idle\"" });
    put("EnteredCurrentState", &(spec.now - (noise % 7200) as i64));
    put(
        "EnteredCurrentActivity",
        &(spec.now - (noise % 3600) as i64),
    );
    put("MyCurrentTime", &(spec.now - (noise % 300) as i64));
    put("LastHeardFrom", &(spec.now - (noise % 300) as i64));
    put(
        "LoadAvg",
        &format!(
            "{:.2}",
            if claimed {
                1.0
            } else {
                (noise % 20) as f64 / 100.0
            }
        ),
    );
    put("CondorLoadAvg", &if claimed { "1.0" } else { "0.0" });
    put("KeyboardIdle", &(1000 + noise % 500_000));
    put("ConsoleIdle", &(1000 + noise % 500_000));
    put("CurrentRank", &"0.0");
    if claimed {
        put(
            "RemoteOwner",
            &quoted(&format!("user{}@example.org", noise % 10)),
        );
        put(
            "RemoteUser",
            &quoted(&format!("user{}@example.org", noise % 10)),
        );
        put(
            "AccountingGroup",
            &quoted(&format!("user{}@example.org", noise % 10)),
        );
        put(
            "JobId",
            &quoted(&format!("{}.{}", noise % 5000, noise % 100)),
        );
        put("TotalJobRunTime", &(noise % 86_400));
        put("ClientMachine", &"\"ap1.example.org\"");
    }
    out
}

/// The slot ad.
#[must_use]
pub fn slot_ad(spec: &MachineSpec, index: u64) -> classad::Ad {
    crate::parse_long(&slot_text(spec, index))
}
