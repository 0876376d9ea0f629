//! The conversation with the command server: one request with the standard streams attached, one status byte back.
//!
//! Request: a 4-byte little-endian length, then that many bytes: fields separated by zero bytes, in this order: format
//! version, number of arguments, the arguments, the directory, then `NAME=value` for each variable. The first byte
//! carries descriptors 0, 1 and 2 as ancillary data. Answer: one byte `S` and one byte exit status, or `N`: not served.

use std::env;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// What the command server made of the call.
pub enum Answer {
    /// The command ran; this is its exit status.
    Exit(u8),
    /// Not served (no server, another user's, or a command that wants a process of its own).
    NotServed,
}

/// Hands the call to the server at `socket` and waits for its end.
pub fn call(socket: &Path, arguments: &[OsString]) -> Answer {
    let Ok(mut stream) = connect(socket) else {
        return Answer::NotServed;
    };
    // The environment may hold secrets, and the server's words are taken for the command's: never another user's server.
    if !is_own(&stream) {
        return Answer::NotServed;
    }
    let body = request(arguments);
    let Ok(length) = u32::try_from(body.len()) else {
        return Answer::NotServed;
    };
    if send_streams(&stream, &length.to_le_bytes()).is_err() || stream.write_all(&body).is_err() {
        return Answer::NotServed;
    }
    let mut answer = [0u8; 2];
    match stream.read_exact(&mut answer[..1]) {
        Ok(()) if answer[0] == b'S' => match stream.read_exact(&mut answer[1..]) {
            Ok(()) => Answer::Exit(answer[1]),
            // The server died with the command half done: running it again could do it twice.
            Err(_) => Answer::Exit(70),
        },
        _ => Answer::NotServed,
    }
}

/// Longest path a UNIX socket may have, less the closing zero byte.
const LONGEST: usize = 107;

/// Connects to the socket, by way of a descriptor of its directory where its path is too long for the system.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    match (socket.parent(), socket.file_name()) {
        (Some(directory), Some(name)) if socket.as_os_str().len() > LONGEST => {
            let opened = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
                .open(directory)?;
            let through = format!("/proc/self/fd/{}", opened.as_raw_fd());
            UnixStream::connect(Path::new(&through).join(name))
        }
        _ => UnixStream::connect(socket),
    }
}

/// Whether the process that listens at the other end is this user's (`SO_PEERCRED`).
fn is_own(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred {
        pid: 0,
        uid: libc::uid_t::MAX,
        gid: libc::gid_t::MAX,
    };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `peer`, which is a plain structure of that size; geteuid has
    // no way to fail.
    unsafe {
        let asked = libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        );
        asked == 0 && peer.uid == libc::geteuid()
    }
}

fn request(arguments: &[OsString]) -> Vec<u8> {
    let mut body = Vec::with_capacity(8192);
    let mut field = |bytes: &[u8]| {
        body.extend_from_slice(bytes);
        body.push(0);
    };
    field(b"1");
    field(arguments.len().to_string().as_bytes());
    for argument in arguments {
        field(argument.as_bytes());
    }
    field(
        env::current_dir()
            .unwrap_or_default()
            .as_os_str()
            .as_bytes(),
    );
    for (name, value) in env::vars_os() {
        let mut pair = name;
        pair.push("=");
        pair.push(value);
        field(pair.as_bytes());
    }
    body
}

/// Sends `head` with descriptors 0, 1 and 2 attached.
fn send_streams(stream: &UnixStream, head: &[u8]) -> io::Result<()> {
    const COUNT: usize = 3;
    let descriptors: [libc::c_int; COUNT] = [0, 1, 2];
    let payload = size_of_val(&descriptors);
    let mut control = [0u64; 8];
    let mut vector = libc::iovec {
        iov_base: head.as_ptr().cast_mut().cast(),
        iov_len: head.len(),
    };
    // SAFETY: the message points at buffers that outlive the call; the control buffer is aligned and large enough for
    // one header with three descriptors, which CMSG_SPACE confirms below.
    let sent = unsafe {
        let space = libc::CMSG_SPACE(payload as libc::c_uint) as usize;
        debug_assert!(space <= size_of_val(&control));
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = space as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(payload as libc::c_uint) as _;
        std::ptr::copy_nonoverlapping(
            descriptors.as_ptr().cast::<u8>(),
            libc::CMSG_DATA(header),
            payload,
        );
        libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    match usize::try_from(sent) {
        Ok(count) if count == head.len() => Ok(()),
        Ok(_) => Err(io::Error::from(io::ErrorKind::WriteZero)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
