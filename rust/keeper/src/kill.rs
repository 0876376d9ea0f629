//! How a keeper stops, continues and ends its job and all of its family.

use std::io;
use std::os::fd::AsRawFd;

use crate::cgroup;
use crate::family::{self, Signs};
use crate::keeper::Keeper;
use crate::outcome::EndedBy;
use crate::sys;
use crate::watch::{drain, poll};

/// How long the family may take to die after SIGKILL before it counts as left over.
const DEATH_PATIENCE_S: f64 = 5.0;

impl Keeper {
    pub(crate) fn soft_kill(&mut self, signal: i32, seconds: f64) {
        if self.suspended {
            self.suspend(false); // a stopped job could not leave
        }
        if self.outcome.ended_by == EndedBy::Itself {
            self.outcome.ended_by = EndedBy::Soft;
        }
        if self.job > 0 {
            sys::signal(self.job, signal);
        } else {
            self.early_signal = Some(signal);
        }
        let at = sys::monotonic_s() + seconds.max(0.0);
        self.hard_at = Some(self.hard_at.map_or(at, |earlier| earlier.min(at)));
    }

    pub(crate) fn hard_kill(&mut self, why: EndedBy) {
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

    pub(crate) fn suspend(&mut self, stop: bool) {
        if self.spec.suspends_itself {
            sys::signal(self.job, if stop { libc::SIGTSTP } else { libc::SIGCONT });
        } else if !self.freeze(stop) {
            self.signal_family(if stop { libc::SIGSTOP } else { libc::SIGCONT });
        }
        self.suspended = stop;
        self.measure();
        self.save_state();
        self.notify(if stop { "suspended" } else { "continued" });
    }

    /// Stops the family by its cgroup, or lets it go on; false where it has none that can.
    fn freeze(&self, stop: bool) -> bool {
        let group = &self.spec.cgroup;
        let Some(dir) = &group.freezer else {
            return false;
        };
        cgroup::freeze(group.version, dir, stop).is_ok()
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
    pub(crate) fn conclude(&mut self) -> i32 {
        let alone = self.end_family();
        let group = &self.spec.cgroup;
        if let Some(dir) = &group.memory {
            let kills = cgroup::oom_kills(group.version, dir);
            self.outcome.oom_kills = self.outcome.oom_kills.max(kills);
        }
        self.outcome.usage.conclude(&self.spec);
        self.oom = None;
        let mut removed = true;
        // What has not died by now holds its groups, too: waiting for each of them would take half a minute.
        let patience_s = if alone { DEATH_PATIENCE_S } else { 0.0 };
        for dir in group.make.iter().rev() {
            removed &= cgroup::clear(group.version, dir, patience_s);
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
