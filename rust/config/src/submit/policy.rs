//! Steps about what happens to a job over time: periodic and exit policy, retries, deferral, and simple commands.

use classad::analysis::Reads;
use classad::print::unparse_text;
use classad::{BinaryOp, Expr};

use crate::expr;
use crate::submit::commands::{Command, Kind};
use crate::submit::job::{self, Done, Job};

const EXPRESSIONS: [(&str, &str); 8] = [
    ("periodic_hold", "PeriodicHold"),
    ("periodic_hold_reason", "PeriodicHoldReason"),
    ("periodic_hold_subcode", "PeriodicHoldSubCode"),
    ("periodic_release", "PeriodicRelease"),
    ("periodic_remove", "PeriodicRemove"),
    ("periodic_vacate", "PeriodicVacate"),
    ("on_exit_hold_reason", "OnExitHoldReason"),
    ("on_exit_hold_subcode", "OnExitHoldSubCode"),
];

/// Sets the periodic expressions that are given.
pub fn periodic(job: &mut Job<'_>) -> Done {
    EXPRESSIONS
        .iter()
        .try_for_each(|(command, attribute)| job.pass_expr(command, attribute))
}

/// Sets LeaveJobInQueue.
pub fn leave_in_queue(job: &mut Job<'_>) -> Done {
    if let Some(text) = job.command("leave_in_queue", "LeaveJobInQueue")? {
        return job.put_expr("LeaveJobInQueue", &text, "leave_in_queue");
    }
    if job.has("LeaveJobInQueue") {
        return Ok(());
    }
    if job.facts.spool {
        let text = "JobStatus == 4 && (time() - (CompletionDate ?: time())) < 864000 && \
                    (StageOutFinish ?: 0) < EnteredCurrentStatus";
        return job.put_expr("LeaveJobInQueue", text, "leave_in_queue");
    }
    job.put("LeaveJobInQueue", false);
    Ok(())
}

/// The text of an expression, in parentheses when `||` would bind tighter than its operator.
fn wrapped(text: &str, parsed: &Expr) -> String {
    let loose = matches!(parsed, Expr::Ternary(_) | Expr::Elvis(_));
    if loose {
        format!("({})", unparse_text(parsed))
    } else {
        text.to_owned()
    }
}

/// Sets OnExitRemove, OnExitHold and the attributes of retries.
pub fn retries(job: &mut Job<'_>) -> Done {
    let remove = job.command("on_exit_remove", "OnExitRemove")?;
    let hold = job.command("on_exit_hold", "OnExitHold")?;
    let most = job.number("max_retries", "JobMaxRetries")?;
    let success = job.number("success_exit_code", "JobSuccessExitCode")?;
    let until = job.command("retry_until", "")?;
    if most.is_none() && success.is_none() && until.is_none() {
        if let Some(text) = remove {
            job.put_expr("OnExitRemove", &text, "on_exit_remove")?;
        }
        if let Some(text) = hold {
            job.put_expr("OnExitHold", &text, "on_exit_hold")?;
        }
        return Ok(());
    }
    let until = until.map(|text| until_clause(job, &text)).transpose()?;
    let most = match most {
        Some(number) => Some(number),
        None if job.has("JobMaxRetries") => None,
        None => Some(
            job.knobs
                .text("DEFAULT_JOB_MAX_RETRIES")
                .and_then(|text| expr::integer(&text, "K"))
                .unwrap_or(2),
        ),
    };
    if let Some(number) = most {
        job.put("JobMaxRetries", number);
    }
    match hold {
        Some(text) => job.put_expr("OnExitHold", &text, "on_exit_hold")?,
        None if !job.has("OnExitHold") => job.put("OnExitHold", false),
        None => {}
    }
    let mut clause = "0".to_owned();
    if let Some(code) = success {
        job.put("JobSuccessExitCode", code);
        clause = "JobSuccessExitCode".into();
    }
    let mut text = format!("NumJobCompletions > JobMaxRetries || ExitCode =?= {clause}");
    if let Some(until) = until {
        text.push_str(" || ");
        text.push_str(&until);
    }
    if let Some(remove) = remove {
        let parsed = job.parse("OnExitRemove", &remove, "on_exit_remove")?;
        text.push_str(" || ");
        text.push_str(&wrapped(&remove, &parsed));
    }
    job.put_expr("OnExitRemove", &text, "on_exit_remove")
}

/// `retry_until`: an exit code, or an expression.
fn until_clause(job: &Job<'_>, text: &str) -> Result<String, crate::ConfigError> {
    let parsed = job.parse("retry_until", text, "retry_until")?;
    let reads = Reads::of(&parsed);
    if reads.names().next().is_none()
        && !reads.unbounded
        && let Some(code) = expr::integer(text, "CondorLong")
    {
        if i32::try_from(code).is_err() {
            let message = format!("retry_until={text} is invalid");
            return Err(job.bad(
                "retry_until",
                message,
                "it must be an integer or boolean expression",
            ));
        }
        return Ok(format!("ExitCode =?= {code}"));
    }
    let loose = matches!(parsed, Expr::Ternary(_) | Expr::Elvis(_));
    let assignment = matches!(&parsed, Expr::Binary(binary) if binary.op == BinaryOp::Or);
    Ok(if loose && !assignment {
        format!("({})", unparse_text(&parsed))
    } else {
        unparse_text(&parsed)
    })
}

const CRON: [&str; 5] = [
    "CronMinute",
    "CronHour",
    "CronDayOfMonth",
    "CronMonth",
    "CronDayOfWeek",
];

/// Whether the job waits for a time on its slot.
pub fn is_deferred(job: &Job<'_>) -> bool {
    job.has("DeferralTime") || CRON.iter().any(|name| job.has(name))
}

/// Sets DeferralTime, DeferralWindow and DeferralPrepTime.
pub fn deferral(job: &mut Job<'_>) -> Done {
    let seconds = |job: &mut Job<'_>, command: &str, attribute: &str, text: &str| -> Done {
        job.put_expr(attribute, text, command)?;
        let number = expr::integer(text, "CondorLong");
        let literal = matches!(job.get(attribute), Some(Expr::Lit(_)));
        if literal && number.is_none_or(|n| n < 0) {
            let message =
                format!("{command} = {text} is invalid, must eval to a non-negative integer");
            return Err(job.bad(command, message, "write seconds"));
        }
        Ok(())
    };
    if let Some(text) = job.command("deferral_time", "DeferralTime")? {
        seconds(job, "deferral_time", "DeferralTime", &text)?;
    }
    if !is_deferred(job) {
        return Ok(());
    }
    for (cron, cron_attr, command, attribute, otherwise) in [
        (
            "cron_window",
            "CronWindow",
            "deferral_window",
            "DeferralWindow",
            0,
        ),
        (
            "cron_prep_time",
            "CronPrepTime",
            "deferral_prep_time",
            "DeferralPrepTime",
            300,
        ),
    ] {
        let given = match job.command(cron, cron_attr)? {
            Some(text) => Some(text),
            None => job.command(command, attribute)?,
        };
        match given {
            Some(text) => seconds(job, command, attribute, &text)?,
            None => job.put(attribute, otherwise),
        }
    }
    Ok(())
}

/// Puts a simple command into the ad.
pub fn simple(job: &mut Job<'_>, command: &Command, previous_given: &mut bool) -> Done {
    if command.alias && *previous_given {
        *previous_given = false;
        return Ok(());
    }
    let given = job.command(command.name, command.attribute)?;
    *previous_given = given.is_some();
    match given {
        Some(text) => put_given(job, command, command.name, command.attribute, text),
        None => Ok(()),
    }
}

/// Puts what the description gives for the command `name` into the ad, in the way of `command`.
pub fn put_given(
    job: &mut Job<'_>,
    command: &Command,
    name: &str,
    attribute: &str,
    text: String,
) -> Done {
    match command.kind {
        Kind::Text => {
            let mut value = if command.unquote {
                job::unquoted(&text).to_owned()
            } else {
                text
            };
            if command.list {
                value = crate::functions::list_items(&value).join(",");
            }
            if command.file && !value.is_empty() {
                value = job.full_path(&value);
            }
            job.put_text(attribute, &value);
            Ok(())
        }
        Kind::Bool => match expr::boolean(&text, "CondorBool") {
            Some(truth) => {
                job.put(attribute, truth);
                Ok(())
            }
            None => {
                let message = format!("{}={text} is invalid, must eval to a boolean", name);
                Err(job.bad(name, message, "write true or false"))
            }
        },
        Kind::Int | Kind::Count => match expr::integer(&text, "CondorLong") {
            Some(number) if command.kind == Kind::Int || number >= 0 => {
                job.put(attribute, number);
                Ok(())
            }
            _ => {
                let message = format!("{}={text} is invalid, must eval to an integer", name);
                Err(job.bad(name, message, "write a number"))
            }
        },
        Kind::Expr => job.put_expr(attribute, &text, name),
    }
}

/// Sets what every job has: hosts, lease, priority, and what other commands imply.
pub fn automatic(job: &mut Job<'_>) -> Done {
    for (attribute, value) in [
        ("MinHosts", 1),
        ("MaxHosts", 1),
        ("CurrentHosts", 0),
        ("JobPrio", 0),
    ] {
        if !job.has(attribute) {
            job.put(attribute, value);
        }
    }
    if job.has("SuccessCheckpointExitCode") && !job.is_true("WantFTOnCheckpoint") {
        job.put("WantFTOnCheckpoint", true);
    }
    if job.has("JobStarterLog") && !job.has("JobStarterDebug") {
        job.put("JobStarterDebug", true);
    }
    if job.integer("JobUniverse").is_some_and(job::runs_on_slots)
        && !job.has("JobLeaseDuration")
        && let Some(text) = job.knobs.text("JOB_DEFAULT_LEASE_DURATION")
    {
        job.put_expr("JobLeaseDuration", &text, "job_lease_duration")?;
    }
    Ok(())
}
