//! What other processes are shown of this one: its command line and its environment at its start.
//!
//! They are read from the memory that exec has laid them out in. A process that goes on as another program without exec
//! writes that program's there, as far as there is room: `ps`, and who looks for processes by their command line, find it
//! by these.

use std::ffi::CString;

/// Shows the name, the arguments and the environment of a program. The process has no environment of its own then; the
/// caller sets what the program is to have.
pub fn as_program(args: &[CString], env: &[CString]) {
    if let Some(name) = args.first() {
        let bytes = name.as_bytes_with_nul();
        let base = bytes
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1);
        // SAFETY: a zero-ended text; the kernel takes what fits.
        unsafe { libc::prctl(libc::PR_SET_NAME, bytes[base..].as_ptr()) };
    }
    // SAFETY: one thread. What the environment's texts are overwritten with must not be taken for variables.
    unsafe { libc::clearenv() };
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else {
        return;
    };
    // The second field, the name, may hold blanks.
    let Some((_, rest)) = stat.rsplit_once(") ") else {
        return;
    };
    let fields: Vec<usize> = rest
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    // arg_start, arg_end, env_start and env_end are fields 48 to 51, of which the third is the first here.
    let Some(&[args_at, args_end, env_at, env_end]) = fields.get(45..49) else {
        return;
    };
    write_texts(args_at, args_end, args);
    write_texts(env_at, env_end, env);
}

/// Writes texts, each ended by a zero byte, into memory of this process, and zero bytes behind them. Texts that do not fit
/// are left out from the first on.
fn write_texts(from: usize, to: usize, texts: &[CString]) {
    if from == 0 || to <= from {
        return;
    }
    // SAFETY: the kernel says that the arguments or the environment of this process are there: memory of its stack that
    // nothing else is in.
    let place = unsafe { std::slice::from_raw_parts_mut(from as *mut u8, to - from) };
    place.fill(0);
    let mut at = 0;
    for text in texts {
        let bytes = text.as_bytes_with_nul();
        if at + bytes.len() > place.len() {
            return;
        }
        place[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    }
}
