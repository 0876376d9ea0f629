//! The life of one keeper.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::cgroup;
use crate::child::{self, Child, Program};
use crate::outcome::{EndedBy, Outcome};
use crate::process::name_process;
use crate::report::{self, Stage, Told};
use crate::spec::Spec;
use crate::sys;
use crate::watch::{Lease, Looks, drain, poll, read_status, watch_children, watch_memory};

/// Looks after the run of a control directory until it is over; returns the exit status of the keeper's process.
/// `program`: see [`crate::zygote::serve`].
pub fn run(control: &Path, program: Option<Program<'_>>) -> i32 {
    name_process("keeper");
    leave_terminal();
    let Ok(lock) = sys::open_private(&control.join("keeper.lock")) else {
        return 1; // the starter has given the run up
    };
    if !matches!(sys::try_lock(&lock), Ok(true)) || control.join("result").exists() {
        return 1;
    }
    let status = match Keeper::open(control) {
        Ok(mut keeper) => keeper.serve(program),
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

/// A keeper at work.
pub(crate) struct Keeper {
    pub(crate) spec: Spec,
    commands: fs::File,
    pub(crate) children: OwnedFd,
    pub(crate) oom: Option<OwnedFd>,
    /// Where the starting child reports; -1 once it runs or has failed.
    report: RawFd,
    /// The job as the host sees it; 0 until known.
    pub(crate) job: i32,
    /// The signal of a soft kill that came before the job's process id.
    pub(crate) early_signal: Option<i32>,
    pub(crate) suspended: bool,
    pub(crate) hard_at: Option<f64>,
    pub(crate) outcome: Outcome,
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
            early_signal: None,
            suspended: false,
            hard_at: None,
            outcome: Outcome::default(),
        })
    }

    fn serve(&mut self, program: Option<Program<'_>>) -> i32 {
        if self.prepare() {
            match child::start(&self.spec, program) {
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
        let mut lease = Lease::new(&self.spec);
        while !self.reap(child) {
            self.wait(&mut looks, &mut lease);
        }
        while self.report >= 0 {
            self.take_report();
        }
    }

    /// Reads a frame of the starting child; the last one ends the reports.
    fn take_report(&mut self) {
        match report::read_report(self.report) {
            Told::Pid(pid) => {
                self.job = pid;
                if let Some(signal) = self.early_signal.take() {
                    sys::signal(pid, signal);
                }
            }
            Told::Failed(stage, errno, detail) => {
                self.outcome.failed = Some((stage, errno));
                self.outcome.detail = detail;
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

    pub(crate) fn save_state(&self) {
        let text = format!(
            "pid={}\nstarted_at={:.6}\nsuspended={}\n",
            self.job,
            self.outcome.started_at,
            u8::from(self.suspended)
        );
        // Without it a restarted starter still finds the run by its lock and result.
        let _ = sys::replace_file(&self.spec.control.join("state"), &text);
    }

    pub(crate) fn notify(&self, what: &str) {
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
    fn wait(&mut self, looks: &mut Looks, lease: &mut Lease) {
        let now = sys::monotonic_s();
        let due = looks.next.min(self.hard_at.unwrap_or(f64::MAX));
        let due = due.min(lease.next);
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
        if lease.ran_out(now) {
            self.hard_kill(EndedBy::Lease);
        }
    }

    pub(crate) fn measure(&mut self) {
        self.outcome.usage.look(&self.spec);
        // A measurement lost is replaced by the next one.
        let _ = sys::replace_file(
            &self.spec.control.join("usage"),
            &self.outcome.usage.lines(),
        );
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
}
