//! What a keeper waits for: its children, commands, the kernel's word of lost memory, and time.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::spec::Spec;
use crate::sys;

/// When to look next: soon at first, since many jobs are short.
pub struct Looks {
    /// The next one, on the clock that never goes back.
    pub next: f64,
    interval: f64,
    poll_s: f64,
}

impl Looks {
    /// Looks at most `poll_s` seconds apart.
    pub fn new(poll_s: f64) -> Looks {
        let now = sys::monotonic_s();
        Looks {
            next: now + 0.25,
            interval: 0.25,
            poll_s: poll_s.max(0.1),
        }
    }

    /// True when a look is due; the next one is then set.
    pub fn due(&mut self, now: f64) -> bool {
        if now < self.next {
            return false;
        }
        self.interval = (self.interval * 2.0).min(self.poll_s);
        self.next = now + self.interval;
        true
    }
}

/// How often the lease is looked at.
const LEASE_LOOK_S: f64 = 5.0;

/// How long the starter has been away, by the clock that stands still while the machine sleeps and that nobody sets: a
/// laptop that was closed over night, or a clock put right, must not end jobs whose starter is there.
pub struct Lease {
    path: Option<PathBuf>,
    seconds: f64,
    /// The last renewal, as the file system has it, and when it was first seen.
    renewal: Option<SystemTime>,
    since: f64,
    /// When to look next, on the clock that never goes back.
    pub next: f64,
}

impl Lease {
    /// The lease of a spec; one without an end is never looked at.
    pub fn new(spec: &Spec) -> Lease {
        let now = sys::monotonic_s();
        Lease {
            path: spec.lease.clone(),
            seconds: spec.lease_s,
            renewal: None,
            since: now,
            next: if spec.lease_s > 0.0 { now } else { f64::MAX },
        }
    }

    /// Looks if it is time to; true when nobody has renewed the lease for all of its seconds.
    pub fn ran_out(&mut self, now: f64) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + LEASE_LOOK_S.min(self.seconds / 3.0);
        let Some(path) = &self.path else {
            return false;
        };
        let renewal = fs::metadata(path).and_then(|meta| meta.modified()).ok();
        if renewal.is_some() && renewal != self.renewal {
            self.renewal = renewal;
            self.since = now;
        }
        now - self.since > self.seconds
    }
}

/// A descriptor that reads as ready when a child ends.
pub fn watch_children() -> io::Result<OwnedFd> {
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
pub fn watch_memory(dir: &Path) -> io::Result<OwnedFd> {
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

/// The wait status that the first process of a namespace left.
pub fn read_status(status: &OwnedFd) -> Option<i32> {
    let mut bytes = [0u8; 4];
    // SAFETY: the buffer is as long as said.
    let got = unsafe { libc::read(status.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    (got == 4).then(|| i32::from_le_bytes(bytes))
}

/// Waits for any descriptor to be readable; -1 entries are skipped.
pub fn poll<const N: usize>(fds: &[RawFd; N], seconds: f64) -> [bool; N] {
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

/// Reads away what waits.
pub fn drain(fd: RawFd) {
    let mut bytes = [0u8; 1024];
    // SAFETY: the buffer is as long as said; the descriptor does not block.
    while unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) } > 0 {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_its_last_renewal_whatever_the_clock_says() {
        let path = std::env::temp_dir().join(format!("keeper-lease-{}", std::process::id()));
        let renew = |at: SystemTime| {
            fs::write(&path, "").unwrap();
            fs::File::open(&path).unwrap().set_modified(at).unwrap();
        };
        let long_ago = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        renew(long_ago);
        let mut lease = Lease::new(&Spec {
            lease: Some(path.clone()),
            lease_s: 30.0,
            ..Spec::default()
        });
        let start = lease.next;
        assert!(!lease.ran_out(start)); // an old file is as good as a new one: the job has just begun
        assert!(!lease.ran_out(start + 29.0));
        renew(long_ago + std::time::Duration::from_secs(1));
        assert!(!lease.ran_out(start + 35.0));
        assert!(!lease.ran_out(start + 64.0));
        fs::remove_file(&path).unwrap();
        assert!(lease.ran_out(start + 70.0));
        assert_eq!(Lease::new(&Spec::default()).next, f64::MAX);
    }
}
