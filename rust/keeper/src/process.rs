//! This process: the name that it shows, and its end.

/// Sets the name that `ps` and `top` show for this process.
pub(crate) fn name_process(role: &str) {
    let name = format!("slotwise-{role}\0");
    // SAFETY: a zero-ended text.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Ends the process without running anything that the interpreter has set up.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(status) }
}
