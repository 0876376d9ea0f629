//! What a keeper waits for: its children, commands, the kernel's word of lost memory, and time.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use crate::sys;

/// When to look next: soon at first, since many jobs are short.
pub struct Looks {
    /// The next one, on the clock that never goes back.
    pub next: f64,
    interval: f64,
    poll_s: f64,
    /// When to look at the lease next.
    pub lease_next: f64,
}

impl Looks {
    /// Looks at most `poll_s` seconds apart.
    pub fn new(poll_s: f64) -> Looks {
        let now = sys::monotonic_s();
        Looks {
            next: now + 0.25,
            interval: 0.25,
            poll_s: poll_s.max(0.1),
            lease_next: now,
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
