//! Steps about GPUs: how many, and what they must be.

use classad::analysis::Reads;
use classad::expr::{BinaryOp, Expr};
use classad::print::unparse_text;

use crate::submit::job::{Done, Job};
use crate::submit::resources::{check_unit, counted};
use crate::submit::units;

/// Sets RequestGPUs and what the GPUs must be.
pub fn gpus(job: &mut Job<'_>) -> Done {
    counted(
        job,
        "request_gpus",
        "RequestGPUs",
        "JOB_DEFAULT_REQUESTGPUS",
        "request_gpu",
    )?;
    if !job.has("RequestGPUs") {
        return Ok(());
    }
    job.pass_expr("require_gpus", "RequireGPUs")?;
    job.pass_expr("gpus_minimum_capability", "GPUsMinCapability")?;
    job.pass_expr("gpus_maximum_capability", "GPUsMaxCapability")?;
    if let Some(text) = job.command("gpus_minimum_memory", "GPUsMinMemory")? {
        match units::size(&text, 1 << 20) {
            Some((size, unit)) => {
                check_unit(job, "gpus_minimum_memory", &text, "megabytes", unit)?;
                job.put("GPUsMinMemory", size);
            }
            None => job.put_expr("GPUsMinMemory", &text, "gpus_minimum_memory")?,
        }
    } else if job
        .command("request_gpu_memory", "request_gpus_memory")?
        .is_some()
    {
        job.warn(
            "request_gpu_memory is not a submit command, did you mean gpus_minimum_memory?".into(),
        );
    }
    let Some(text) = job.command("gpus_minimum_runtime", "GPUsMinRuntime")? else {
        return Ok(());
    };
    let mut parts = text
        .splitn(2, '.')
        .map(|part| part.trim().parse::<i64>().ok());
    match (parts.next().flatten(), parts.next()) {
        (Some(major), None) if major > 1000 => job.put("GPUsMinRuntime", major),
        (Some(major), None) => job.put("GPUsMinRuntime", major * 1000),
        (Some(major), Some(Some(minor))) => job.put("GPUsMinRuntime", major * 1000 + minor * 10),
        _ => job.put_expr("GPUsMinRuntime", &text, "gpus_minimum_runtime")?,
    }
    Ok(())
}

/// Makes the version of CUDA a number: `12.1` is 12001.
pub fn cuda_version(job: &mut Job<'_>) -> Done {
    let Some(text) = job.text("CUDAVersion") else {
        return Ok(());
    };
    let (major, minor) = text.split_once('.').unwrap_or((&text, "0"));
    let number = match (major.parse::<u32>(), minor.parse::<u32>()) {
        (Ok(major), Ok(_)) if major >= 1000 && !text.contains('.') => i64::from(major),
        (Ok(major), Ok(minor)) => i64::from(major) * 1000 + i64::from(minor % 100),
        _ => {
            return Err(job.bad(
                "cuda_version",
                format!("'{text}' is not a version of CUDA"),
                "write x or x.y, where x and y are positive integers",
            ));
        }
    };
    job.put("CUDAVersion", number);
    Ok(())
}

/// Completes RequireGPUs with the minimum and maximum properties that were asked for.
pub fn require_gpus(job: &mut Job<'_>) -> Done {
    if !job.has("RequestGPUs") {
        return Ok(());
    }
    let required = job.get("RequireGPUs").cloned();
    let mentioned = required.as_ref().map(Reads::of).unwrap_or_default();
    let clauses: Vec<String> = [
        ("Capability", ">=", "GPUsMinCapability"),
        ("Capability", "<=", "GPUsMaxCapability"),
        ("GlobalMemoryMb", ">=", "GPUsMinMemory"),
        ("MaxSupportedVersion", ">=", "GPUsMinRuntime"),
    ]
    .into_iter()
    .filter(|(property, _, wish)| {
        job.has(wish) && !mentioned.of_target().any(|name| name.is(property))
    })
    .map(|(property, op, wish)| format!("{property} {op} {wish}"))
    .collect();
    if clauses.is_empty() {
        return Ok(());
    }
    let clauses = clauses.join(" && ");
    let text = match required {
        Some(expr) if binds_less(&expr) => format!("({}) && {clauses}", unparse_text(&expr)),
        Some(expr) => format!("{} && {clauses}", unparse_text(&expr)),
        None => clauses,
    };
    job.put_expr("RequireGPUs", &text, "require_gpus")
}

/// Whether `&&` would take away the right end of an expression that is not in parentheses.
fn binds_less(expr: &Expr) -> bool {
    match expr {
        Expr::Binary(binary) => binary.op == BinaryOp::Or,
        Expr::Ternary(_) | Expr::Elvis(_) => true,
        _ => false,
    }
}
