//! The `slotwise` command.
//!
//! A command line tool that starts an interpreter for every call cannot answer a script's thousand calls quickly. This
//! small program hands the call (arguments, directory, environment, standard streams) to the command server of the
//! pool, which answers from a warm process. Where there is no server, or it does not serve the command, the program
//! becomes the Python command line, `slotwise-py`, which lies beside it.
//!
//! Called by another name, through a link, it puts that name before the arguments: `condor_q -run` is
//! `slotwise condor_q -run`, and the command line knows what HTCondor's names mean.

#![allow(clippy::print_stderr)]

mod handover;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use handover::Answer;

fn main() -> ExitCode {
    let mut words = env::args_os();
    let called = words.next().unwrap_or_default();
    let arguments: Vec<OsString> = htcondor_name(&called).into_iter().chain(words).collect();
    if let Some(socket) = server_socket()
        && !arguments.is_empty()
        && let Answer::Exit(status) = handover::call(&socket, &arguments)
    {
        return ExitCode::from(status);
    }
    eprintln!("slotwise: {}", become_python(&arguments));
    ExitCode::from(127)
}

/// HTCondor's commands whose names do not begin with `condor_`, as `slotwise.cli.registry` has them.
const NAMED_OTHERWISE: [&str; 2] = ["classad_eval", "htcondor"];

/// The name that the program was called by, if it is one of HTCondor's (`condor_q`, `htcondor`).
fn htcondor_name(called: &OsStr) -> Option<OsString> {
    let name = Path::new(called).file_name()?;
    (NAMED_OTHERWISE.iter().any(|one| name == *one) || name.as_bytes().starts_with(b"condor_"))
        .then(|| name.to_owned())
}

/// The command server's socket in the caller's pool, found as `slotwise.home.PoolHome.from_env` finds the pool:
/// `SLOTWISE_HOME`, else `.slotwise` under the home directory where there is a pool, else that of the host. A
/// configuration that the environment names may place the pool elsewhere, and Python reads it.
fn server_socket() -> Option<PathBuf> {
    let home = match env::var_os("SLOTWISE_HOME") {
        Some(named) if !named.is_empty() => PathBuf::from(named),
        _ if env::var_os("CONDOR_CONFIG")
            .is_some_and(|named| !named.is_empty() && !named.eq_ignore_ascii_case("ONLY_ENV")) =>
        {
            return None;
        }
        _ => {
            let own = Path::new(&env::var_os("HOME")?).join(".slotwise");
            if own.join("run").is_dir() {
                own
            } else {
                host_pool()?
            }
        }
    };
    let socket = home.join("run").join("commands.sock");
    socket.exists().then_some(socket)
}

/// The directory of the host's pool. Whether the file may be trusted need not be known here: servers of others than the
/// caller are not spoken to.
fn host_pool() -> Option<PathBuf> {
    let text = fs::read_to_string("/etc/slotwise/home").ok()?;
    let named = text.lines().next()?.trim();
    named.starts_with('/').then(|| PathBuf::from(named))
}

/// Replaces this process by the Python command line; returns, with what is wrong, only on failure.
fn become_python(arguments: &[OsString]) -> String {
    let beside = env::current_exe()
        .ok()
        .and_then(|me| me.parent().map(|dir| dir.join("slotwise-py")));
    match beside {
        Some(script) if script.exists() => {
            let error = Command::new(&script).args(arguments).exec();
            format!(
                "cannot run {}: {error} (may this account run the Python that its first line names?)",
                script.display()
            )
        }
        _ => {
            let error = Command::new("python3")
                .args(["-P", "-m", "slotwise"]) // not from the caller's directory
                .args(arguments)
                .exec();
            format!("cannot run python3, and there is no slotwise-py beside this program: {error}")
        }
    }
}
