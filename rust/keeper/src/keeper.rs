//! The life of one keeper.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::cgroup;
use crate::child::{self, Child, Stage, Told};
use crate::family::{self, Signs};
use crate::outcome::{EndedBy, Outcome};
use crate::spec::Spec;
use crate::sys;
use crate::zygote::name_process;

/// How long the family may take to die after SIGKILL before it counts as left over.
const DEATH_PATIENCE_S: f64 = 5.0;
/// How often the lease is looked at.
const LEASE_LOOK_S: f64 = 5.0;

/// Looks after the run of a control directory until it is over; returns the exit status of the keeper's process.
pub fn run(control: &Path) -> i32 {
    name_process("keeper");
    leave_terminal();
    let Ok(lock) = sys::open_private(&control.join("keeper.lock")) else {
        return 1; // the starter has given the run up
    };
    if !matches!(sys::try_lock(&lock), Ok(true)) || control.join("result").exists() {
        return 1;
    }
    let status = match Keeper::open(control) {
        Ok(mut keeper) => keeper.serve(),
        Err(error) => {
            let outcome = Outcome {
                failed: Some((Stage::Process, error.raw_os_error().unwrap_or(libc::EIO))),
                detail: error.to_string(),
                ..Outcome::default()
            };
            i32::from(outcome.save(control).is_err())
        }
    };
    drop(lock);
    status
}

fn leave_terminal() {
    // SAFETY: dispositions and session of this process only.
    unsafe {
        libc::setsid();
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        for number in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGPIPE,
            libc::SIGQUIT,
        ] {
            libc::signal(number, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

struct Keeper {
    spec: Spec,
    commands: fs::File,
    children: OwnedFd,
    oom: Option<OwnedFd>,
    /// Where the starting child reports; -1 once it runs or has failed.
    report: RawFd,
    /// The job as the host sees it; 0 until known.
    job: i32,
    suspended: bool,
    hard_at: Option<f64>,
    outcome: Outcome,
}

impl Keeper {
    fn open(control: &Path) -> io::Result<Keeper> {
        let spec = Spec::load(control)?;
        let fifo = control.join("commands");
        sys::make_fifo(&fifo)?;
        // Open both ways, so that it never reads as ended.
        let commands = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(fifo)?;
        Ok(Keeper {
            spec,
            commands,
            children: watch_children()?,
            oom: None,
            report: -1,
            job: 0,
            suspended: false,
            hard_at: None,
            outcome: Outcome::default(),
        })
    }

    fn serve(&mut self) -> i32 {
        if self.prepare() {
            match child::start(&self.spec) {
                Ok(child) => self.attend(&child),
                Err(error) => self.fail(Stage::Process, &error),
            }
        }
        self.conclude()
    }

    /// Makes the cgroups; false when a required limit cannot be had.
    fn prepare(&mut self) -> bool {
        let refused = cgroup::establish(&self.spec.cgroup);
        for one in refused {
            let text = format!("{}: {}", one.path.display(), one.error);
            if one.required {
                self.outcome.detail = text;
                self.fail(Stage::Cgroup, &one.error);
                return false;
            }
            self.outcome.unenforced.push(text);
        }
        if let Some((uid, gid)) = self.spec.user {
            cgroup::give(&self.spec.cgroup, uid, gid);
        }
        if self.spec.cgroup.version == 1
            && let Some(dir) = &self.spec.cgroup.memory
        {
            self.oom = watch_memory(dir).ok();
        }
        true
    }

    fn fail(&mut self, stage: Stage, error: &io::Error) {
        self.outcome.failed = Some((stage, error.raw_os_error().unwrap_or(libc::EIO)));
    }

    /// Waits until the job has ended, measuring and obeying.
    fn attend(&mut self, child: &Child) {
        if child.status.is_none() {
            self.job = child.waited;
        }
        self.report = child.report.as_raw_fd();
        let mut looks = Looks::new(self.spec.poll_s);
        while !self.reap(child) {
            self.wait(&mut looks);
        }
        while self.report >= 0 {
            self.take_report();
        }
    }

    /// Reads a frame of the starting child; the last one ends the reports.
    fn take_report(&mut self) {
        match child::read_report(self.report) {
            Told::Pid(pid) => self.job = pid,
            Told::Failed(stage, errno) => {
                self.outcome.failed = Some((stage, errno));
                self.report = -1;
            }
            Told::Running => {
                self.report = -1;
                self.tell_started();
            }
        }
    }

    fn tell_started(&mut self) {
        self.outcome.started_at = sys::epoch_s();
        self.save_state();
        self.notify(&format!("started {}", self.job));
    }

    fn save_state(&self) {
        let text = format!(
            "pid={}\nstarted_at={:.6}\nsuspended={}\n",
            self.job,
            self.outcome.started_at,
            u8::from(self.suspended)
        );
        // Without it a restarted starter still finds the run by its lock and result.
        let _ = sys::replace_file(&self.spec.control.join("state"), &text);
    }

    fn notify(&self, what: &str) {
        if let Some(fifo) = &self.spec.notify {
            // A starter that is away reads the files when it is back.
            let _ = sys::post(fifo, &format!("{} {what}\n", self.spec.name));
        }
    }

    /// Takes note of ended children; true when the job has ended.
    fn reap(&mut self, child: &Child) -> bool {
        let mut over = false;
        loop {
            let mut status = 0;
            // SAFETY: `status` is a valid place for the answer.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if pid <= 0 {
                return over;
            }
            if pid == child.waited {
                let told = child.status.as_ref().and_then(read_status);
                self.outcome.status = Some(told.unwrap_or(status));
                over = true;
            }
        }
    }

    /// Sleeps until something happens or is due, and does it.
    fn wait(&mut self, looks: &mut Looks) {
        let now = sys::monotonic_s();
        let due = looks.next.min(self.hard_at.unwrap_or(f64::MAX));
        let due = if self.spec.lease_s > 0.0 {
            due.min(looks.lease_next)
        } else {
            due
        };
        let ready = poll(
            &[
                self.children.as_raw_fd(),
                self.commands.as_raw_fd(),
                self.oom.as_ref().map_or(-1, AsRawFd::as_raw_fd),
                self.report,
            ],
            (due - now).max(0.0),
        );
        if ready[0] {
            drain(self.children.as_raw_fd());
        }
        if ready[3] {
            self.take_report();
        }
        if ready[2] {
            self.out_of_memory();
        }
        if ready[1] {
            self.obey();
        }
        let now = sys::monotonic_s();
        if self.hard_at.is_some_and(|at| now >= at) {
            self.hard_kill(EndedBy::Hard);
        }
        if looks.due(now) {
            self.measure();
        }
        if self.spec.lease_s > 0.0 && now >= looks.lease_next {
            looks.lease_next = now + LEASE_LOOK_S.min(self.spec.lease_s / 3.0);
            if self.lease_ran_out() {
                self.hard_kill(EndedBy::Lease);
            }
        }
    }

    fn measure(&mut self) {
        self.outcome.usage.look(&self.spec);
        // A measurement lost is replaced by the next one.
        let _ = sys::replace_file(
            &self.spec.control.join("usage"),
            &self.outcome.usage.lines(),
        );
    }

    fn lease_ran_out(&self) -> bool {
        let Some(path) = &self.spec.lease else {
            return false;
        };
        let touched = fs::metadata(path).map_or(self.outcome.started_at, |meta| {
            meta.mtime() as f64 + meta.mtime_nsec() as f64 / 1e9
        });
        // A job that began after the last touch has its whole lease before it.
        sys::epoch_s() - touched.max(self.outcome.started_at) > self.spec.lease_s
    }

    fn out_of_memory(&mut self) {
        if let Some(event) = self.oom.take() {
            drain(event.as_raw_fd());
        }
        self.outcome.usage.look(&self.spec);
        self.outcome.oom_kills = self.outcome.oom_kills.max(1);
        self.hard_kill(EndedBy::Memory);
    }

    fn obey(&mut self) {
        let mut bytes = [0u8; 4096];
        let Ok(length) = self.commands.read(&mut bytes) else {
            return;
        };
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["soft", signal, seconds] => {
                    if let (Ok(signal), Ok(seconds)) = (signal.parse(), seconds.parse()) {
                        self.soft_kill(signal, seconds);
                    }
                }
                ["hard"] => self.hard_kill(EndedBy::Hard),
                ["suspend"] => self.suspend(true),
                ["continue"] => self.suspend(false),
                ["sample"] => self.measure(),
                _ => {}
            }
        }
    }

    fn soft_kill(&mut self, signal: i32, seconds: f64) {
        if self.suspended {
            self.suspend(false); // a stopped job could not leave
        }
        if self.outcome.ended_by == EndedBy::Itself {
            self.outcome.ended_by = EndedBy::Soft;
        }
        sys::signal(self.job, signal);
        let at = sys::monotonic_s() + seconds.max(0.0);
        self.hard_at = Some(self.hard_at.map_or(at, |earlier| earlier.min(at)));
    }

    fn hard_kill(&mut self, why: EndedBy) {
        if matches!(self.outcome.ended_by, EndedBy::Itself | EndedBy::Soft) {
            self.outcome.ended_by = why;
        }
        self.suspended = false;
        // Asked again a moment later if anything is left: a fork may have slipped through.
        self.hard_at = Some(sys::monotonic_s() + 0.05);
        self.kill_family();
    }

    fn kill_family(&self) {
        if let Some(dir) = &self.spec.cgroup.freezer {
            cgroup::kill(self.spec.cgroup.version, dir);
        }
        let me = std::process::id() as i32;
        let family = family::descendants(me);
        for pid in &family {
            sys::signal(*pid, libc::SIGSTOP); // what is stopped does not fork
        }
        for pid in family.into_iter().chain(family::descendants(me)) {
            sys::signal(pid, libc::SIGKILL);
        }
        for pid in self.of_dedicated_account() {
            sys::signal(pid, libc::SIGKILL);
        }
    }

    fn of_dedicated_account(&self) -> Vec<i32> {
        let uid = self.spec.dedicated_uid();
        if uid.is_none() {
            return Vec::new();
        }
        family::bearing(&Signs {
            uid,
            ..Signs::default()
        })
    }

    fn suspend(&mut self, stop: bool) {
        let frozen = self
            .spec
            .cgroup
            .freezer
            .as_ref()
            .is_some_and(|dir| cgroup::freeze(self.spec.cgroup.version, dir, stop).is_ok());
        if !frozen {
            self.signal_family(if stop { libc::SIGSTOP } else { libc::SIGCONT });
        }
        self.suspended = stop;
        self.measure();
        self.save_state();
        self.notify(if stop { "suspended" } else { "continued" });
    }

    /// Sends a signal to every process of the family, until a look finds no new one.
    fn signal_family(&self, signal: i32) {
        let me = std::process::id() as i32;
        let mut done: Vec<i32> = Vec::new();
        loop {
            let fresh: Vec<i32> = family::descendants(me)
                .into_iter()
                .filter(|pid| !done.contains(pid))
                .collect();
            if fresh.is_empty() {
                return;
            }
            for pid in &fresh {
                sys::signal(*pid, signal);
            }
            done.extend(fresh);
        }
    }

    /// Ends what is left of the family, measures, removes the cgroups and leaves the result.
    fn conclude(&mut self) -> i32 {
        let alone = self.end_family();
        let group = &self.spec.cgroup;
        if let Some(dir) = &group.memory {
            let kills = cgroup::oom_kills(group.version, dir);
            self.outcome.oom_kills = self.outcome.oom_kills.max(kills);
        }
        self.outcome.usage.conclude(&self.spec);
        self.oom = None;
        let mut removed = true;
        for dir in group.make.iter().rev() {
            removed &= cgroup::clear(group.version, dir, DEATH_PATIENCE_S);
        }
        self.outcome.leftovers = !alone || !removed;
        let saved = self.outcome.save(&self.spec.control);
        self.notify("ended");
        i32::from(saved.is_err())
    }

    /// Kills and waits until no child is left; all descendants become our children when their parents end.
    fn end_family(&self) -> bool {
        let deadline = sys::monotonic_s() + DEATH_PATIENCE_S;
        loop {
            let mut status = 0;
            // SAFETY: `status` is a valid place for the answer.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if pid > 0 {
                continue;
            }
            if pid < 0
                && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD)
                && self.of_dedicated_account().is_empty()
            {
                return true;
            }
            if sys::monotonic_s() > deadline {
                return false;
            }
            self.kill_family();
            poll(&[self.children.as_raw_fd()], 0.02);
            drain(self.children.as_raw_fd());
        }
    }
}

/// When to look next: soon at first, since many jobs are short.
struct Looks {
    next: f64,
    interval: f64,
    poll_s: f64,
    lease_next: f64,
}

impl Looks {
    fn new(poll_s: f64) -> Looks {
        let now = sys::monotonic_s();
        Looks {
            next: now + 0.25,
            interval: 0.25,
            poll_s: poll_s.max(0.1),
            lease_next: now,
        }
    }

    fn due(&mut self, now: f64) -> bool {
        if now < self.next {
            return false;
        }
        self.interval = (self.interval * 2.0).min(self.poll_s);
        self.next = now + self.interval;
        true
    }
}

fn watch_children() -> io::Result<OwnedFd> {
    // SAFETY: a set with one signal, blocked and read from a descriptor of ours.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        sys::checked(libc::sigprocmask(
            libc::SIG_BLOCK,
            &raw const set,
            std::ptr::null_mut(),
        ))?;
        let fd = sys::checked(libc::signalfd(
            -1,
            &raw const set,
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        ))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Version 1 tells of an OOM through an eventfd.
fn watch_memory(dir: &Path) -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor, ours alone.
    let event = unsafe {
        OwnedFd::from_raw_fd(sys::checked(libc::eventfd(
            0,
            libc::EFD_CLOEXEC | libc::EFD_NONBLOCK,
        ))?)
    };
    let control = fs::File::open(dir.join("memory.oom_control"))?;
    let line = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
    sys::write_kernel_file(&dir.join("cgroup.event_control"), &line)?;
    Ok(event)
}

fn read_status(status: &OwnedFd) -> Option<i32> {
    let mut bytes = [0u8; 4];
    // SAFETY: the buffer is as long as said.
    let got = unsafe { libc::read(status.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    (got == 4).then(|| i32::from_le_bytes(bytes))
}

/// Waits for any descriptor to be readable; -1 entries are skipped.
fn poll<const N: usize>(fds: &[RawFd; N], seconds: f64) -> [bool; N] {
    let mut set = fds.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let timeout = (seconds * 1000.0).ceil().clamp(0.0, 3_600_000.0) as libc::c_int;
    // SAFETY: the array is as long as said.
    unsafe { libc::poll(set.as_mut_ptr(), N as libc::nfds_t, timeout) };
    set.map(|entry| entry.revents & (libc::POLLIN | libc::POLLHUP) != 0)
}

fn drain(fd: RawFd) {
    let mut bytes = [0u8; 1024];
    // SAFETY: the buffer is as long as said; the descriptor does not block.
    while unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) } > 0 {}
}
