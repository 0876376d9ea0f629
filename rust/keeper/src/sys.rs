//! Thin helpers over system calls. Each is one thing the kernel does, with its error kept.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Seconds since the epoch.
pub fn epoch_s() -> f64 {
    clock_s(libc::CLOCK_REALTIME)
}

/// Seconds that never go back.
pub fn monotonic_s() -> f64 {
    clock_s(libc::CLOCK_MONOTONIC)
}

fn clock_s(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The path as a C string; a path with a zero byte cannot name a file.
pub fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// The answer of a system call, or the error it left behind.
pub fn checked(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}

/// Takes the whole-file write lock; false when another process holds it.
pub fn try_lock(file: &fs::File) -> io::Result<bool> {
    // SAFETY: flock is plain data, all-zero is valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: `lock` lives through the call.
    match checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) }) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The process that holds the file's lock, if any.
pub fn lock_holder(file: &fs::File) -> io::Result<Option<i32>> {
    // SAFETY: as above.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: `lock` lives through the call.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) })?;
    Ok((lock.l_type != libc::F_UNLCK as libc::c_short).then_some(lock.l_pid))
}

/// Opens (making it if need be) a file only we may read. A link in its place is an error.
pub fn open_private(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
        .open(path)
}

/// Replaces `path` with `text` in one step. Links are replaced, never followed.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = Path::new(&fresh);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
        .open(fresh)?;
    file.write_all(text.as_bytes())?;
    fs::rename(fresh, path)
}

/// Writes a kernel file (cgroup, proc) in one write.
pub fn write_kernel_file(path: &Path, value: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(value.as_bytes())
}

/// Reads a small kernel file.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(512);
    fs::File::open(path)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A pipe whose ends are closed on exec: (read end, write end).
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for both; the descriptors are ours alone.
    unsafe {
        checked(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Sends a signal; a process that is gone already is not an error.
pub fn signal(pid: i32, signal: i32) {
    if pid > 0 {
        // SAFETY: kill has no memory to get wrong.
        unsafe { libc::kill(pid, signal) };
    }
}

/// All signals are blocked while this lives: those that come meanwhile wait, also in a process that is forked meanwhile.
pub struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    pub fn new() -> io::Result<BlockedSignals> {
        // SAFETY: two sets of this frame; a mask concerns this process only.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut former: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            checked(libc::sigprocmask(
                libc::SIG_BLOCK,
                &raw const all,
                &raw mut former,
            ))?;
            Ok(BlockedSignals(former))
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the mask that was there before.
        unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}

/// Sleeps; for short waits between looks at the kernel.
pub fn pause(seconds: f64) {
    std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
}

/// Appends one line to a FIFO if somebody reads it; never waits.
pub fn post(fifo: &Path, line: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(fifo)?;
    file.write_all(line.as_bytes())
}

/// Makes a FIFO; one that is there is kept.
pub fn make_fifo(path: &Path) -> io::Result<()> {
    let name = c_path(path)?;
    // SAFETY: `name` is a valid C string.
    match checked(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }) {
        Err(error) if error.raw_os_error() != Some(libc::EEXIST) => Err(error),
        _ => Ok(()),
    }
}

/// Process ids among the names in `/proc`.
pub fn all_pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| number(&entry.file_name()))
        .collect()
}

fn number(name: &OsStr) -> Option<i32> {
    name.to_str()?.parse().ok()
}
