//! Steps about the program itself: what is run, and with which arguments.

use crate::args;
use crate::submit::basic_attrs::squeezed;
use crate::submit::commands;
use crate::submit::job::{self, Done, Job};
use crate::submit::virtual_machine;

/// Sets Cmd and TransferExecutable.
pub fn executable(job: &mut Job<'_>) -> Done {
    if job.command("shell", "")?.is_some() {
        job.put_text("Cmd", "/bin/sh");
        job.put("TransferExecutable", false);
        return Ok(());
    }
    let in_container = job.is_true("WantDocker") || job.is_true("WantContainer");
    let Some(name) = job.command("executable", "Cmd")? else {
        if in_container {
            job.put_text("Cmd", "");
            job.put("TransferExecutable", false);
            return Ok(());
        }
        if job.has("Cmd") {
            return Ok(());
        }
        return Err(no_executable(job));
    };
    let name = job::unquoted(&name).to_owned();
    if virtual_machine::is_wanted(job) {
        // It only names the machine: there is no such file.
        job.put_text("Cmd", &name);
        job.put("TransferExecutable", false);
        return Ok(());
    }
    let mut transfer = true;
    if let Some(text) = job.command("transfer_executable", "TransferExecutable")? {
        transfer = !text.starts_with(['f', 'F']);
        if !transfer {
            job.put("TransferExecutable", false);
        }
    }
    let path = if transfer {
        squeezed(&job::absolute(&name, &job.facts.cwd))
    } else {
        name
    };
    let checked =
        transfer && !path.contains("$$(") && !path.contains("://") && job.facts.check_files;
    let fault = if checked {
        job.scope.world.program_fault(&path)
    } else {
        None
    };
    if let Some(fault) = fault {
        return Err(faulty(job, &path, &fault));
    }
    job.put_text("Cmd", &path);
    Ok(())
}

/// The refusal of a job without a program, with the key that may be meant.
fn no_executable(job: &Job<'_>) -> crate::ConfigError {
    let misspelt = job
        .scope
        .set
        .entries()
        .iter()
        .find(|entry| commands::similar(&entry.name) == Some("executable"));
    let hint = match misspelt {
        Some(entry) => format!(
            "did you mean `executable` by `{}` in line {}?",
            entry.name, entry.origin.line
        ),
        None => "add `executable = PROGRAM`".to_owned(),
    };
    job.bad(
        "executable",
        "No 'executable' parameter was provided",
        &hint,
    )
}

/// The refusal of a program that cannot be sent.
fn faulty(job: &Job<'_>, path: &str, fault: &str) -> crate::ConfigError {
    let hint = if fault.contains("CRLF") {
        "take the carriage returns out (dos2unix does), or set skip_filechecks = true"
    } else {
        "correct the path, or set transfer_executable = false if it is on the execution points already"
    };
    job.bad(
        "executable",
        format!("Executable file {path} {fault}"),
        hint,
    )
}

/// Sets Arguments (new syntax) or Args (old syntax).
pub fn arguments(job: &mut Job<'_>) -> Done {
    if let Some(shell) = job.command("shell", "")? {
        job.put_text("Arguments", &args::join_v2(&["-c".to_owned(), shell]));
        return Ok(());
    }
    let old = job.command("arguments", "Args")?;
    let new = job.command("arguments2", "")?;
    if old.is_some() && new.is_some() && !job.truth("allow_arguments_v1", "", false)? {
        let hint = "keep one, or set allow_arguments_v1 = true";
        return Err(job.bad(
            "arguments2",
            "both 'arguments' and 'arguments2' are given",
            hint,
        ));
    }
    let problem = |job: &Job<'_>, text: &str, reason: String| {
        let message = format!("{reason}; the full arguments you specified were: {text}");
        job.bad(
            "arguments",
            message,
            "new syntax: \"one 'two words' three\"; a double quote inside is doubled",
        )
    };
    if job.integer("JobUniverse") == Some(job::JAVA) {
        if new.is_none() && old.is_none() && !job.has("Args") && !job.has("Arguments") {
            let message = "In Java universe, you must specify the class name to run";
            return Err(job.bad("arguments", message, "for example, arguments = MyClass"));
        }
        java_vm_arguments(job)?;
    }
    let Some(text) = new.or(old) else {
        if !job.has("Args") && !job.has("Arguments") {
            job.put_text("Arguments", "");
        }
        return Ok(());
    };
    put_arguments(job, &text, ("Args", "Arguments")).map_err(|reason| problem(job, &text, reason))
}

/// Puts arguments in old syntax into the first of these attributes, or in new syntax into the second.
fn put_arguments(job: &mut Job<'_>, text: &str, (old, new): (&str, &str)) -> Result<(), String> {
    match args::unquote_v2(text)? {
        Some(inner) => job.put_text(new, &args::join_v2(&args::split_v2(&inner)?)),
        None => job.put_text(old, &args::split_v1(&args::unwack_v1(text)?).join(" ")),
    }
    Ok(())
}

/// Sets JavaVMArgs (old syntax) or JavaVMArguments (new syntax).
fn java_vm_arguments(job: &mut Job<'_>) -> Done {
    let short = job.command("java_vm_args", "")?;
    let long = job.command("java_vm_arguments", "JavaVMArgs")?;
    if short.is_some() && long.is_some() && short != long {
        let message = "you specified a value for both java_vm_args and java_vm_arguments";
        return Err(job.bad("java_vm_args", message, "keep one of them"));
    }
    let new = job.command("java_vm_arguments2", "")?;
    let Some(text) = new.or(long).or(short) else {
        return Ok(());
    };
    put_arguments(job, &text, ("JavaVMArgs", "JavaVMArguments")).map_err(|reason| {
        let message = format!("failed to parse java VM arguments: {reason}");
        job.bad(
            "java_vm_arguments",
            message,
            "new syntax: \"one 'two words' three\"",
        )
    })
}
