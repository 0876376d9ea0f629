//! Steps about the surroundings of the program: directory, environment, standard files, notice.

use crate::expr;
use crate::submit::env::Environment;
use crate::submit::job::{self, Done, Job};
use crate::submit::virtual_machine;

/// Sets Iwd.
pub fn directory(job: &mut Job<'_>) -> Done {
    let mut given = None;
    for (name, other) in [("initialdir", "Iwd"), ("initial_dir", "job_iwd")] {
        if given.is_none() {
            given = job.command(name, other)?;
        }
    }
    let iwd = match &given {
        Some(name) => job::absolute(name, &job.facts.cwd),
        None => job.facts.cwd.clone(),
    };
    let iwd = squeezed(&iwd);
    if given.is_some() && !job.facts.spool && !job.scope.world.readable(&iwd) {
        return Err(job.bad(
            "initialdir",
            format!("No such directory: {iwd}"),
            "make it, or correct initialdir",
        ));
    }
    job.put_text("Iwd", &iwd);
    job.iwd = iwd;
    if !job.facts.file.is_empty() && job.facts.file != "-" {
        let file = job.facts.file.clone();
        job.put_text("JobSubmitFile", &file);
    }
    Ok(())
}

/// A path without double slashes.
pub(super) fn squeezed(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if !(c == '/' && out.ends_with('/')) {
            out.push(c);
        }
    }
    out
}

/// Sets Environment.
pub fn environment(job: &mut Job<'_>) -> Done {
    let old = job.command("environment", "env")?;
    let new = job.command("environment2", "")?;
    if old.is_some() && new.is_some() && !job.truth("allow_environment_v1", "", false)? {
        let hint = "keep one, or set allow_environment_v1 = true";
        return Err(job.bad(
            "environment2",
            "both 'environment' and 'environment2' are given",
            hint,
        ));
    }
    let mut environment = Environment::default();
    if let Some(text) = new.or(old) {
        environment.read(&text).map_err(|reason| {
            let message = format!("{reason}; the environment you specified was: '{text}'");
            job.bad(
                "environment",
                message,
                "new syntax: \"NAME=value OTHER='two words'\"",
            )
        })?;
    }
    if let Some(list) = job.command("getenv", "get_env")? {
        match expr::boolean(&list, "CondorBool") {
            Some(false) => {}
            Some(true) => {
                if job
                    .knobs
                    .text("SUBMIT_ALLOW_GETENV")
                    .is_some_and(|knob| expr::boolean(&knob, "K") == Some(false))
                {
                    let message = "getenv = true command not allowed because administrator has set SUBMIT_ALLOW_GETENV = false";
                    return Err(job.bad(
                        "getenv",
                        message,
                        "name the variables: getenv = PATH, HOME",
                    ));
                }
                environment.import(&job.scope.world.environment(), None);
            }
            None => environment.import(&job.scope.world.environment(), Some(&list)),
        }
    }
    job.put_text("Environment", &environment.text());
    Ok(())
}

/// Sets JobStatus and why it is held, if it is.
pub fn status(job: &mut Job<'_>) -> Done {
    let (status, code, reason) = if job.truth("hold", "", false)? {
        if job.facts.spool {
            return Err(job.bad(
                "hold",
                "Cannot set hold to 'true' when using -remote or -spool",
                "drop one of them",
            ));
        }
        (5, 15, "submitted on hold at user's request")
    } else if job.facts.spool {
        (5, 16, "Spooling input data files")
    } else {
        (1, 0, "")
    };
    job.put("JobStatus", status);
    if status == 5 {
        job.put("HoldReasonCode", code);
        job.put_text("HoldReason", reason);
    }
    Ok(())
}

struct Stream {
    command: &'static str,
    alias: &'static str,
    attribute: &'static str,
    transfer: (&'static str, &'static str),
    stream: (&'static str, &'static str),
}

const STREAMS: [Stream; 3] = [
    Stream {
        command: "input",
        alias: "stdin",
        attribute: "In",
        transfer: ("transfer_input", "TransferIn"),
        stream: ("stream_input", "StreamIn"),
    },
    Stream {
        command: "output",
        alias: "stdout",
        attribute: "Out",
        transfer: ("transfer_output", "TransferOut"),
        stream: ("stream_output", "StreamOut"),
    },
    Stream {
        command: "error",
        alias: "stderr",
        attribute: "Err",
        transfer: ("transfer_error", "TransferErr"),
        stream: ("stream_error", "StreamErr"),
    },
];

/// Sets In, Out or Err (0, 1, 2) and whether it is transferred or streamed.
pub fn stream(job: &mut Job<'_>, which: usize) -> Done {
    let Stream {
        command,
        alias,
        attribute,
        transfer,
        stream,
    } = STREAMS[which];
    let mut moved = job.truth(transfer.0, transfer.1, true)?;
    let must_say = !moved;
    let mut streamed = job.truth(stream.0, stream.1, false)?;
    let value = job.command(command, alias)?;
    if value.is_some() && virtual_machine::is_wanted(job) {
        return Err(job.bad(
            command,
            "You cannot use input, output, and error parameters in the submit description file for vm universe",
            "drop it: a virtual machine writes to its disks",
        ));
    }
    let file = value.unwrap_or_else(|| "/dev/null".into());
    if file == "/dev/null" {
        moved = false;
        streamed = false;
    }
    job.put_text(attribute, &file);
    if moved {
        job.put(stream.1, streamed);
    } else {
        job.put(transfer.1, false);
    }
    if must_say && moved {
        job.put(transfer.1, moved);
    }
    Ok(())
}

/// Sets JobNotification.
pub fn notification(job: &mut Job<'_>) -> Done {
    let how = match job.command("notification", "JobNotification")? {
        Some(text) => text,
        None => job
            .knobs
            .text("JOB_DEFAULT_NOTIFICATION")
            .unwrap_or_else(|| "never".into()),
    };
    let number = match how.to_ascii_lowercase().as_str() {
        "never" | "0" => 0,
        "always" | "1" => 1,
        "complete" | "2" => 2,
        "error" | "3" => 3,
        "start" | "4" => 4,
        _ => {
            let message = format!("notification = {how} is none");
            return Err(job.bad(
                "notification",
                message,
                "must be Never, Always, Complete, Start or Error",
            ));
        }
    };
    job.put("JobNotification", number);
    Ok(())
}

/// Sets Rank.
pub fn rank(job: &mut Job<'_>) -> Done {
    let given = job.command("rank", "preferences")?;
    let vanilla = job.integer("JobUniverse") == Some(job::VANILLA);
    let knob = |name: &str| {
        let of_universe = if vanilla {
            job.knobs.text(&format!("{name}_VANILLA"))
        } else {
            None
        };
        of_universe.or_else(|| job.knobs.text(name))
    };
    let rank = given.or_else(|| knob("DEFAULT_RANK"));
    let text = match (rank, knob("APPEND_RANK")) {
        (Some(rank), Some(append)) => format!("({rank}) + ({append})"),
        (Some(rank), None) => rank,
        (None, Some(append)) => append,
        (None, None) => {
            job.put("Rank", 0.0);
            return Ok(());
        }
    };
    job.put_expr("Rank", &text, "rank")
}

const SIGNALS: [(&str, i64); 19] = [
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGTRAP", 5),
    ("SIGABRT", 6),
    ("SIGBUS", 7),
    ("SIGFPE", 8),
    ("SIGKILL", 9),
    ("SIGUSR1", 10),
    ("SIGSEGV", 11),
    ("SIGUSR2", 12),
    ("SIGPIPE", 13),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGCHLD", 17),
    ("SIGCONT", 18),
    ("SIGSTOP", 19),
    ("SIGTSTP", 20),
];

/// Sets KillSig and its relatives.
pub fn kill_signals(job: &mut Job<'_>) -> Done {
    for (command, attribute) in [
        ("kill_sig", "KillSig"),
        ("remove_kill_sig", "RemoveKillSig"),
        ("hold_kill_sig", "HoldKillSig"),
    ] {
        let name = match job.command(command, attribute)? {
            Some(text) => {
                let upper = text.to_ascii_uppercase();
                let number = upper.parse::<i64>().ok();
                let known = SIGNALS
                    .iter()
                    .find(|(name, n)| *name == upper || Some(*n) == number);
                match known {
                    Some((name, _)) => (*name).to_owned(),
                    None => {
                        return Err(job.bad(
                            command,
                            format!("invalid signal {text}"),
                            "write a name such as SIGTERM, or a number",
                        ));
                    }
                }
            }
            None if command == "kill_sig" && job.integer("JobUniverse") != Some(job::VANILLA) => {
                "SIGTERM".into()
            }
            None => continue,
        };
        job.put_text(attribute, &name);
    }
    if let Some(seconds) = job.number("kill_sig_timeout", "KillSigTimeout")? {
        job.put("KillSigTimeout", seconds);
    }
    Ok(())
}
