//! Keeps a cgroup of version 2 from devices: there the kernel asks a small program about each opening of one.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

const PROGRAM_LOAD: libc::c_int = 5;
const PROGRAM_ATTACH: libc::c_int = 8;
const TYPE_CGROUP_DEVICE: u32 = 15;
const ATTACH_DEVICE: u32 = 6;
/// Together with programs of groups above and of others, not instead of them.
const ALLOW_MULTI: u32 = 2;
const CHARACTER_DEVICE: i32 = 2;

/// Denies the processes of group `dir` every access to these character devices (major, minor), whatever the rights of
/// their files. The program goes with the group.
///
/// # Errors
/// When the kernel refuses the program.
pub fn deny(dir: &Path, devices: &[(u32, u32)]) -> io::Result<()> {
    let code = program(devices);
    let licence = c"Apache-2.0";
    let mut load = Attributes::default();
    load.put32(0, TYPE_CGROUP_DEVICE);
    load.put32(4, code.len() as u32);
    load.put64(8, code.as_ptr() as u64);
    load.put64(16, licence.as_ptr() as u64);
    let program = load.call(PROGRAM_LOAD)?;
    // SAFETY: a new descriptor, ours alone.
    let program = unsafe { OwnedFd::from_raw_fd(program) };
    let group = fs::File::open(dir)?;
    let mut attach = Attributes::default();
    attach.put32(0, group.as_raw_fd() as u32);
    attach.put32(4, program.as_raw_fd() as u32);
    attach.put32(8, ATTACH_DEVICE);
    attach.put32(12, ALLOW_MULTI);
    attach.call(PROGRAM_ATTACH)?;
    Ok(())
}

/// The argument of the `bpf` call: a union, of which zeroes after what is meant are allowed.
#[repr(C, align(8))]
struct Attributes([u8; 128]);

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes([0; 128])
    }
}

impl Attributes {
    fn put32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn put64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }

    fn call(&self, what: libc::c_int) -> io::Result<libc::c_int> {
        // SAFETY: the union is as long as said, and all that it points to outlives the call.
        let answer = unsafe { libc::syscall(libc::SYS_bpf, what, self.0.as_ptr(), self.0.len()) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(answer as libc::c_int)
    }
}

/// One instruction: code, registers (destination, source), jump, number.
fn instruction(code: u8, (to, from): (u8, u8), jump: i16, number: i32) -> u64 {
    let mut bytes = [code, to | from << 4, 0, 0, 0, 0, 0, 0];
    bytes[2..4].copy_from_slice(&jump.to_ne_bytes());
    bytes[4..8].copy_from_slice(&number.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// Register 1 points to access and kind, major, minor (each a word); the answer in register 0 is 1 for yes, 0 for no.
fn program(devices: &[(u32, u32)]) -> Vec<u64> {
    const MOVE: u8 = 0xb7;
    const LOAD_WORD: u8 = 0x61;
    const AND: u8 = 0x57;
    const JUMP_UNLESS: u8 = 0x55;
    const EXIT: u8 = 0x95;
    let no = [
        instruction(MOVE, (0, 0), 0, 0),
        instruction(EXIT, (0, 0), 0, 0),
    ];
    let mut code = vec![
        instruction(MOVE, (0, 0), 0, 1),
        instruction(LOAD_WORD, (2, 1), 4, 0),
        instruction(LOAD_WORD, (3, 1), 8, 0),
        instruction(LOAD_WORD, (4, 1), 0, 0),
        instruction(AND, (4, 0), 0, 0xffff),
    ];
    for (major, minor) in devices {
        code.push(instruction(JUMP_UNLESS, (4, 0), 4, CHARACTER_DEVICE));
        code.push(instruction(JUMP_UNLESS, (2, 0), 3, *major as i32));
        code.push(instruction(JUMP_UNLESS, (3, 0), 2, *minor as i32));
        code.extend(no);
    }
    code.push(instruction(EXIT, (0, 0), 0, 0));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_as_the_kernel_reads_them() {
        // r3 = *(u32 *)(r1 + 8), little endian as on every host that we build for.
        assert_eq!(
            instruction(0x61, (3, 1), 8, 0).to_le_bytes(),
            [0x61, 0x13, 8, 0, 0, 0, 0, 0]
        );
        assert_eq!(program(&[]).len(), 6);
        assert_eq!(program(&[(195, 0), (195, 1)]).len(), 16);
    }
}
