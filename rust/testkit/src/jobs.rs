//! Job ads.

use std::fmt::Write;

use crate::mix;

/// Which job: one of `autoclusters` kinds of each of many submitters.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobSpec {
    /// Changes every number that varies.
    pub seed: u64,
    /// The submitter.
    pub submitter: u64,
    /// Kind of job of that submitter: sets what it asks for.
    pub autocluster: u64,
    /// Process number in its cluster.
    pub proc: u64,
    /// Seconds since the epoch.
    pub now: i64,
}

/// The job ad as `condor_q -long` prints it.
#[must_use]
pub fn job_text(spec: &JobSpec) -> String {
    let mut out = String::with_capacity(8192);
    let noise = mix(spec.seed + 11, spec.submitter * 1000 + spec.autocluster);
    let user = format!("user{}", spec.submitter);
    let cluster = spec.submitter * 1000 + spec.autocluster + 1;
    let memory = 256 * (1 + noise % 10);
    let disk = 1024 * (1 + noise / 10 % 2000);
    let mut put = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(out, "{name} = {value}");
    };
    let quoted = |text: &str| format!("\"{text}\"");
    for (name, value) in COMMON {
        put(name, &value);
    }
    put("ClusterId", &cluster);
    put("ProcId", &spec.proc);
    put(
        "GlobalJobId",
        &quoted(&format!(
            "ap1.example.org#{cluster}.{}#{}",
            spec.proc,
            spec.now - 600
        )),
    );
    put("Owner", &quoted(&user));
    put("User", &quoted(&format!("{user}@example.org")));
    put("AutoClusterId", &cluster);
    put(
        "Args",
        &quoted(&format!(
            "--seed {} --autocluster {}",
            spec.proc, spec.autocluster
        )),
    );
    put(
        "Iwd",
        &quoted(&format!("/home/{user}/run{}", spec.autocluster)),
    );
    put("Out", &quoted(&format!("out.{}", spec.proc)));
    put("Err", &quoted(&format!("err.{}", spec.proc)));
    put(
        "UserLog",
        &quoted(&format!("/home/{user}/run{}/job.log", spec.autocluster)),
    );
    put("QDate", &(spec.now - 600));
    put("EnteredCurrentStatus", &(spec.now - 600));
    put("JobPrio", &(noise % 3));
    put("RequestCpus", &1);
    put("RequestMemory", &memory);
    put("RequestDisk", &disk);
    let mut requirements = "(TARGET.Arch == \"X86_64\") && (TARGET.OpSys == \"LINUX\") && (TARGET.Disk >= RequestDisk) && \
         (TARGET.Memory >= RequestMemory) && (TARGET.Cpus >= RequestCpus) && (TARGET.HasFileTransfer)"
        .to_owned();
    match noise / 7 % 5 {
        0 => requirements.push_str(" && (TARGET.OpSysMajorVer >= 9)"),
        1 => requirements.push_str(" && regexp(\"^EPYC\",TARGET.CpuModel)"),
        2 => requirements.push_str(" && (TARGET.Site =!= \"south\" || TARGET.HasSingularity)"),
        3 => requirements.push_str(" && (TARGET.has_avx2 && TARGET.KFlops > 1400000)"),
        _ => {}
    }
    put("Requirements", &requirements);
    put(
        "Rank",
        &["0.0", "TARGET.KFlops", "TARGET.Memory", "0.0"][(noise / 3 % 4) as usize],
    );
    if noise.is_multiple_of(2) {
        put(
            "AcctGroup",
            &["\"physics\"", "\"chem\"", "\"bio\""][(spec.submitter % 3) as usize],
        );
    }
    out
}

/// The job ad.
#[must_use]
pub fn job_ad(spec: &JobSpec) -> classad::Ad {
    crate::parse_long(&job_text(spec))
}

/// Attributes that are equal in all jobs.
const COMMON: [(&str, &str); 62] = [
    ("MyType", "\"Job\""),
    ("TargetType", "\"Machine\""),
    ("BufferBlockSize", "32768"),
    ("BufferSize", "524288"),
    ("Cmd", "\"/usr/bin/env\""),
    ("CommittedSlotTime", "0"),
    ("CommittedSuspensionTime", "0"),
    ("CommittedTime", "0"),
    ("CompletionDate", "0"),
    (
        "CondorPlatform",
        "\"$CondorPlatform: X86_64-AlmaLinux_9 $\"",
    ),
    (
        "CondorVersion",
        "\"$CondorVersion: 25.14.1 2026-10-16 BuildID: 900000 PackageID: 25.14.1-1 $\"",
    ),
    ("CoreSize", "0"),
    ("CumulativeRemoteSysCpu", "0.0"),
    ("CumulativeRemoteUserCpu", "0.0"),
    ("CumulativeSlotTime", "0"),
    ("CumulativeSuspensionTime", "0"),
    ("CurrentHosts", "0"),
    ("DiskUsage", "42"),
    ("DiskUsage_RAW", "42"),
    ("EncryptExecuteDirectory", "false"),
    ("Environment", "\"\""),
    ("ExecutableSize", "42"),
    ("ExecutableSize_RAW", "42"),
    ("ExitBySignal", "false"),
    ("ExitStatus", "0"),
    ("FileSystemDomain", "\"example.org\""),
    ("ImageSize", "42"),
    ("ImageSize_RAW", "42"),
    ("In", "\"/dev/null\""),
    ("JobLeaseDuration", "2400"),
    ("JobNotification", "0"),
    ("JobStatus", "1"),
    ("JobUniverse", "5"),
    ("LastSuspensionTime", "0"),
    ("LeaveJobInQueue", "false"),
    ("MaxHosts", "1"),
    ("MinHosts", "1"),
    (
        "MyAddress",
        "\"<10.0.0.1:9618?addrs=10.0.0.1-9618&alias=ap1.example.org>\"",
    ),
    ("NiceUser", "false"),
    ("NumCkpts", "0"),
    ("NumCkpts_RAW", "0"),
    ("NumJobCompletions", "0"),
    ("NumJobStarts", "0"),
    ("NumRestarts", "0"),
    ("NumSystemHolds", "0"),
    ("OnExitHold", "false"),
    ("OnExitRemove", "true"),
    ("PeriodicHold", "false"),
    ("PeriodicRelease", "false"),
    ("PeriodicRemove", "false"),
    ("RemoteSysCpu", "0.0"),
    ("RemoteUserCpu", "0.0"),
    ("RemoteWallClockTime", "0.0"),
    ("RootDir", "\"/\""),
    ("ShouldTransferFiles", "\"YES\""),
    ("StreamErr", "false"),
    ("StreamOut", "false"),
    ("TotalSuspensions", "0"),
    ("TransferIn", "false"),
    ("TransferInputSizeMB", "0"),
    ("WantCheckpoint", "false"),
    ("WhenToTransferOutput", "\"ON_EXIT\""),
];
