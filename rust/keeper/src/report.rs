//! What a starting child tells its keeper: frames on a pipe that exec closes. One has eight bytes (kind, stage, the
//! length of the text behind them in two bytes, a number in four), and a text where there is more to say.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::process::exit_now;

/// Where a start can fail; the name goes into the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    Process,
    Cgroup,
    Namespace,
    Mount,
    Limits,
    User,
    Cwd,
    Stdin,
    Stdout,
    Stderr,
    Exec,
}

impl Stage {
    const ALL: [Stage; 11] = [
        Stage::Process,
        Stage::Cgroup,
        Stage::Namespace,
        Stage::Mount,
        Stage::Limits,
        Stage::User,
        Stage::Cwd,
        Stage::Stdin,
        Stage::Stdout,
        Stage::Stderr,
        Stage::Exec,
    ];

    /// The word for it in the result.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Process => "process",
            Stage::Cgroup => "cgroup",
            Stage::Namespace => "namespace",
            Stage::Mount => "mount",
            Stage::Limits => "limits",
            Stage::User => "user",
            Stage::Cwd => "cwd",
            Stage::Stdin => "stdin",
            Stage::Stdout => "stdout",
            Stage::Stderr => "stderr",
            Stage::Exec => "exec",
        }
    }
}

/// What the child told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// The job's process id as the host sees it.
    Pid(i32),
    /// The start failed: where, the error number, and more about it.
    Failed(Stage, i32, String),
    /// The job runs.
    Running,
}

/// Reads one frame of the child's report; waits for it.
pub fn read_report(report: RawFd) -> Told {
    let mut frame = [0u8; 8];
    if !read_whole(report, &mut frame) {
        return Told::Running;
    }
    let number = i32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]);
    if frame[0] == b'P' {
        return Told::Pid(number);
    }
    let mut text = vec![0u8; u16::from_le_bytes([frame[2], frame[3]]).into()];
    if !read_whole(report, &mut text) {
        text.clear();
    }
    let stage = Stage::ALL
        .get(frame[1] as usize)
        .copied()
        .unwrap_or(Stage::Process);
    Told::Failed(stage, number, String::from_utf8_lossy(&text).into_owned())
}

/// Fills the buffer; false when the pipe ends before.
fn read_whole(report: RawFd, buffer: &mut [u8]) -> bool {
    let mut got = 0;
    while got < buffer.len() {
        // SAFETY: the rest of the buffer is as long as said.
        let more = unsafe {
            libc::read(
                report,
                buffer[got..].as_mut_ptr().cast(),
                buffer.len() - got,
            )
        };
        if more < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) {
            continue;
        }
        if more <= 0 {
            return false;
        }
        got += more as usize;
    }
    true
}

/// Writes one frame.
pub fn tell(report: &OwnedFd, kind: u8, stage: u8, number: i32) {
    let mut frame = [kind, stage, 0, 0, 0, 0, 0, 0];
    frame[4..].copy_from_slice(&number.to_le_bytes());
    // SAFETY: the buffer is as long as said; a pipe takes eight bytes whole.
    unsafe { libc::write(report.as_raw_fd(), frame.as_ptr().cast(), frame.len()) };
}

/// Tells the stage that failed, and ends the child.
pub fn fail(report: &OwnedFd, stage: Stage, error: &io::Error) -> ! {
    fail_as(report, stage, error, &[])
}

/// The same, with a text of up to 4,000 bytes about it.
pub fn fail_as(report: &OwnedFd, stage: Stage, error: &io::Error, text: &[u8]) -> ! {
    let text = &text[..text.len().min(4000)];
    let length = (text.len() as u16).to_le_bytes();
    let number = error.raw_os_error().unwrap_or(libc::EIO).to_le_bytes();
    let mut frame = vec![b'E', stage as u8, length[0], length[1]];
    frame.extend(number.iter().chain(text));
    // SAFETY: the buffer is as long as said; a pipe takes a page whole.
    unsafe { libc::write(report.as_raw_fd(), frame.as_ptr().cast(), frame.len()) };
    exit_now(127)
}

/// The value, or the end of the child.
pub fn must<T>(report: &OwnedFd, stage: Stage, answer: io::Result<T>) -> T {
    match answer {
        Ok(value) => value,
        Err(error) => fail(report, stage, &error),
    }
}
