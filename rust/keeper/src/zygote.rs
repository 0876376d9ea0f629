//! The clean process that keepers are forked from.

use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::child::Program;
use crate::keeper;
use crate::process::{exit_now, name_process};

/// Serves the starter on a `SOCK_SEQPACKET` socket until it closes: each packet is the path of a control directory,
/// each answer the keeper's process id as text (0: no process could be made). Never returns.
///
/// `program`: what this process has loaded, for runs whose spec is `warm`.
///
/// The calling process must have one thread. Keepers are not waited for: the starter sees their end by their lock.
pub fn serve(socket: RawFd, program: Option<Program<'_>>) -> ! {
    name_process("zygote");
    // SAFETY: plain signal dispositions; with SIGCHLD ignored the kernel reaps keepers.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    let mut packet = [0u8; 8192];
    loop {
        // SAFETY: the buffer is as long as said.
        let got = unsafe { libc::recv(socket, packet.as_mut_ptr().cast(), packet.len(), 0) };
        if got < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) {
            continue;
        }
        if got <= 0 {
            exit_now(0);
        }
        let control = Path::new(OsStr::from_bytes(&packet[..got as usize]));
        // SAFETY: one thread, so the child may go on as it likes.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: the socket is the parent's business.
            unsafe { libc::close(socket) };
            exit_now(keeper::run(control, program));
        }
        let answer = pid.max(0).to_string();
        // SAFETY: the buffer is as long as said.
        unsafe { libc::send(socket, answer.as_ptr().cast(), answer.len(), 0) };
    }
}
