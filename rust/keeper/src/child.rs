//! What happens between the keeper's fork and the job's first instruction.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::family;
use crate::mounts;
use crate::process::{exit_now, name_process};
use crate::report::{Stage, fail, fail_as, must, tell};
use crate::spec::Spec;
use crate::sys::{self, checked};

/// A program that the zygote has loaded: gives the status that the job's process exits with.
pub type Program<'a> = &'a dyn Fn(&Spec) -> i32;

/// A job on its way to exec.
#[derive(Debug)]
pub struct Child {
    /// The process to wait for: the job, or the first process of its namespace.
    pub waited: i32,
    /// Frames of the child: its process id, or the stage that failed; closed by exec.
    pub report: OwnedFd,
    /// With a process namespace: the job's wait status, from the namespace's first process.
    pub status: Option<OwnedFd>,
}

/// Starts the job.
///
/// # Errors
/// When no process can be made.
pub fn start(spec: &Spec, program: Option<Program<'_>>) -> io::Result<Child> {
    let (report, tell) = sys::pipe()?;
    // Counted here, where `/proc` is the host's.
    let account = if spec.processes > 0 {
        // SAFETY: no memory involved.
        let own = unsafe { libc::getuid() };
        family::threads_of(spec.user.map_or(own, |(uid, _)| uid))
    } else {
        0
    };
    let keeper = std::process::id() as i32;
    // The keeper ignores what may be the job's soft-kill signal. The child keeps it pending until it has the default
    // dispositions (`reset_signals`), so that a soft kill before exec is not lost.
    let _blocked = sys::BlockedSignals::new()?;
    if !spec.pid_namespace {
        // SAFETY: one thread; the child only prepares and execs.
        let pid = checked(unsafe { libc::fork() })?;
        if pid == 0 {
            drop(report);
            become_job(spec, tell, keeper, account, program);
        }
        return Ok(Child {
            waited: pid,
            report,
            status: None,
        });
    }
    let (status, tell_status) = sys::pipe()?;
    let flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS | namespaces(spec) | libc::SIGCHLD;
    // SAFETY: a fork with namespaces: same memory rules as fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        drop((report, status));
        become_first_process(spec, tell, &tell_status, account, program);
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Child {
        waited: pid as i32,
        report,
        status: Some(status),
    })
}

/// The first process of a process namespace: starts the job, reaps, and ends with it; the kernel then ends the rest.
fn become_first_process(
    spec: &Spec,
    report: OwnedFd,
    status: &OwnedFd,
    account: u64,
    program: Option<Program<'_>>,
) -> ! {
    name_process("init");
    die_with_parent();
    must(&report, Stage::Cgroup, join_cgroups(spec));
    must(&report, Stage::Mount, mounts::prepare(spec));
    // SAFETY: one thread.
    let job = unsafe { libc::fork() };
    if job < 0 {
        fail(&report, Stage::Process, &io::Error::last_os_error());
    }
    if job == 0 {
        // `/proc` is still the host's: it tells our process id there.
        let pid = must(&report, Stage::Namespace, std::fs::read_link("/proc/self"));
        let pid = pid.to_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        tell(&report, b'P', 0, pid);
        must(&report, Stage::Mount, mounts::own_proc());
        finish_start(spec, report, 1, account, program);
    }
    // The report is the job's now; were it open here, exec would not be seen.
    close_all_but(status.as_raw_fd());
    loop {
        let mut ended = 0;
        // SAFETY: `ended` is a valid place for the status.
        let pid = unsafe { libc::waitpid(-1, &raw mut ended, 0) };
        if pid == job {
            let bytes = ended.to_le_bytes();
            // SAFETY: the buffer is as long as said.
            unsafe { libc::write(status.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
            exit_now(0);
        }
        if pid < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            exit_now(1);
        }
    }
}

/// Namespaces besides that of processes. Segments, semaphores and queues of a job end with its own.
fn namespaces(spec: &Spec) -> libc::c_int {
    let mut flags = 0;
    if !spec.mounts.is_empty() || spec.shm_mib.is_some() || spec.hide.is_some() {
        flags |= libc::CLONE_NEWNS;
    }
    if spec.private_ipc {
        flags |= libc::CLONE_NEWIPC;
    }
    flags
}

fn become_job(
    spec: &Spec,
    report: OwnedFd,
    keeper: i32,
    account: u64,
    program: Option<Program<'_>>,
) -> ! {
    must(&report, Stage::Cgroup, join_cgroups(spec));
    let spaces = namespaces(spec);
    if spaces != 0 {
        // SAFETY: no memory involved.
        must(
            &report,
            Stage::Namespace,
            checked(unsafe { libc::unshare(spaces) }),
        );
    }
    if spaces & libc::CLONE_NEWNS != 0 {
        must(&report, Stage::Mount, mounts::prepare(spec));
    }
    finish_start(spec, report, keeper, account, program)
}

/// Limits, user, directory, files, exec: in the order in which rights are lost.
///
/// `account`: threads that the job's account had before.
fn finish_start(
    spec: &Spec,
    report: OwnedFd,
    parent: i32,
    account: u64,
    program: Option<Program<'_>>,
) -> ! {
    reset_signals(spec.suspends_itself);
    // SAFETY: no memory involved; a fork child is never a group leader, so setsid cannot fail.
    unsafe { libc::setsid() };
    if spec.client {
        must(&report, Stage::User, lend_user(spec));
    } else {
        must(&report, Stage::Limits, set_limits(spec, account));
        must(&report, Stage::User, become_user(spec));
    }
    die_with_parent();
    // SAFETY: no memory involved.
    if unsafe { libc::getppid() } != parent {
        exit_now(127); // the keeper died before we asked to die with it
    }
    // SAFETY: no memory involved.
    unsafe { libc::umask(spec.umask) };
    must(
        &report,
        Stage::Cwd,
        checked(unsafe { libc::chdir(spec.cwd.as_ptr()) }),
    );
    open_stdio(spec, &report);
    if spec.client {
        must(&report, Stage::User, take_user_back(spec));
        die_with_parent(); // the kernel forgets it when the effective user changes
    }
    if let Some(program) = program.filter(|_| spec.warm) {
        go_on_as(program, spec, report);
    }
    let args = pointers(&spec.args);
    let env = pointers(&spec.env);
    // SAFETY: close_range marks all others; the arrays are null-ended and outlive the call.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 4); // 4 = CLOSE_RANGE_CLOEXEC
        libc::execve(spec.exe.as_ptr(), args.as_ptr(), env.as_ptr());
    }
    let error = io::Error::last_os_error();
    let interpreter = match error.kind() {
        io::ErrorKind::NotFound => missing_interpreter(&spec.exe),
        _ => None,
    };
    fail_as(
        &report,
        Stage::Exec,
        &error,
        &interpreter.unwrap_or_default(),
    )
}

/// Runs what the zygote has loaded, as exec would run a file: nothing of the zygote's is open, and the job's user may
/// look at the process.
fn go_on_as(program: Program<'_>, spec: &Spec, report: OwnedFd) -> ! {
    // SAFETY: nothing of this process uses the descriptors any more; the end of the report says that the job runs.
    unsafe {
        std::mem::forget(report);
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
    exit_now(program(spec))
}

/// What is wrong with a script that is there and cannot be executed all the same, in HTCondor's words; read with the
/// rights of the job.
fn missing_interpreter(exe: &CString) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut head = Vec::new();
    let path = std::ffi::OsStr::from_bytes(exe.as_bytes());
    std::fs::File::open(path)
        .ok()?
        .take(1024)
        .read_to_end(&mut head)
        .ok()?;
    let line = head.strip_prefix(b"#!")?.trim_ascii_start();
    let word = line.split(u8::is_ascii_whitespace).next()?;
    let text = [
        b"invalid interpreter (".as_slice(),
        word,
        b") specified on first line of script",
    ];
    Some(text.concat())
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts
        .iter()
        .map(|text| text.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

fn die_with_parent() {
    // SAFETY: no memory involved.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// `suspends`: the job suspends itself when told to. Until it listens, the word waits for it.
fn reset_signals(suspends: bool) {
    // SAFETY: default dispositions, and a mask of this frame.
    unsafe {
        for number in 1..=64 {
            libc::signal(number, libc::SIG_DFL);
        }
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut mask);
        if suspends {
            libc::sigaddset(&raw mut mask, libc::SIGTSTP);
            libc::sigaddset(&raw mut mask, libc::SIGCONT);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
    }
}

fn join_cgroups(spec: &Spec) -> io::Result<()> {
    for dir in &spec.cgroup.join {
        sys::write_kernel_file(&dir.join("cgroup.procs"), "0")?;
    }
    Ok(())
}

fn set_limits(spec: &Spec, account: u64) -> io::Result<()> {
    for (resource, soft, hard) in &spec.rlimits {
        limit(*resource, *soft, *hard)?;
    }
    if spec.processes > 0 {
        let most = account + spec.processes;
        limit(libc::RLIMIT_NPROC, most, most)?;
    }
    if spec.nice != 0 {
        // SAFETY: no memory involved. nice may answer -1 rightly, so the error number decides.
        unsafe {
            *libc::__errno_location() = 0;
            if libc::nice(spec.nice) == -1 && *libc::__errno_location() != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    if !spec.cores.is_empty() {
        // SAFETY: the set is plain memory, the numbers fit into it (`Spec`), and the size is its own.
        unsafe {
            let mut cores: libc::cpu_set_t = std::mem::zeroed();
            for core in &spec.cores {
                libc::CPU_SET(*core, &mut cores);
            }
            checked(libc::sched_setaffinity(
                0,
                size_of::<libc::cpu_set_t>(),
                &raw const cores,
            ))?;
        }
    }
    if let Some(badness) = spec.oom_score_adj {
        // Only advice to the kernel; a host that refuses it runs the job as well.
        let _ = sys::write_kernel_file(Path::new("/proc/self/oom_score_adj"), &badness.to_string());
    }
    Ok(())
}

fn limit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `now` is a valid place; without the right to raise it, the hard limit stays.
    unsafe {
        checked(libc::getrlimit(resource, &raw mut now))?;
        let hard = hard.min(now.rlim_max);
        let wanted = libc::rlimit {
            rlim_cur: soft.min(hard),
            rlim_max: hard,
        };
        checked(libc::setrlimit(resource, &raw const wanted))?;
    }
    Ok(())
}

/// Drops to the job's user. A job never runs as root.
fn become_user(spec: &Spec) -> io::Result<()> {
    if let Some((uid, gid)) = spec.user {
        let groups: Vec<u32> = spec
            .groups
            .iter()
            .copied()
            .chain(spec.tracking_gid)
            .collect();
        // SAFETY: the list is as long as said.
        unsafe {
            checked(libc::setgroups(groups.len(), groups.as_ptr()))?;
            checked(libc::setresgid(gid, gid, gid))?;
            checked(libc::setresuid(uid, uid, uid))?;
        }
    }
    // SAFETY: no memory involved.
    let (real, effective) = unsafe { (libc::getuid(), libc::geteuid()) };
    if real == 0 || effective == 0 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    Ok(())
}

/// Takes the job's effective user and groups on, to open files with its rights. They are never root's: a spec that
/// names no user is for a keeper of an ordinary one.
fn lend_user(spec: &Spec) -> io::Result<()> {
    let Some((uid, gid)) = spec.user else {
        // SAFETY: no memory involved.
        return if unsafe { libc::geteuid() } == 0 {
            Err(io::Error::from_raw_os_error(libc::EPERM))
        } else {
            Ok(())
        };
    };
    // SAFETY: the list is as long as said.
    unsafe {
        checked(libc::setgroups(spec.groups.len(), spec.groups.as_ptr()))?;
        checked(libc::setegid(gid))?;
        checked(libc::seteuid(uid))?;
    }
    Ok(())
}

/// Ends what `lend_user` began: the keeper's user and group again, without the job's other groups.
fn take_user_back(spec: &Spec) -> io::Result<()> {
    if spec.user.is_none() {
        return Ok(());
    }
    // SAFETY: an empty list.
    unsafe {
        checked(libc::seteuid(libc::getuid()))?;
        checked(libc::setegid(libc::getgid()))?;
        checked(libc::setgroups(0, std::ptr::null()))?;
    }
    Ok(())
}

fn open_stdio(spec: &Spec, report: &OwnedFd) {
    let begin = if spec.append {
        libc::O_APPEND
    } else {
        libc::O_TRUNC
    };
    let write = libc::O_WRONLY | libc::O_CREAT | begin;
    open_as(0, &spec.stdio[0], libc::O_RDONLY, report, Stage::Stdin);
    open_as(1, &spec.stdio[1], write, report, Stage::Stdout);
    if spec.stdio[2] == spec.stdio[1] {
        // SAFETY: both are descriptors of ours.
        must(report, Stage::Stderr, checked(unsafe { libc::dup2(1, 2) }));
    } else {
        open_as(2, &spec.stdio[2], write, report, Stage::Stderr);
    }
}

fn open_as(wanted: RawFd, name: &CString, flags: i32, report: &OwnedFd, stage: Stage) {
    let name = if name.is_empty() {
        c"/dev/null"
    } else {
        name.as_c_str()
    };
    // SAFETY: a valid name; the descriptor is moved to its place.
    unsafe {
        let fd = must(
            report,
            stage,
            checked(libc::open(name.as_ptr(), flags | libc::O_CLOEXEC, 0o644)),
        );
        must(report, stage, checked(libc::dup2(fd, wanted)));
    }
}

fn close_all_but(kept: RawFd) {
    // SAFETY: closing descriptors that nothing of this process uses any more.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, kept - 1, 0);
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0);
    }
}
