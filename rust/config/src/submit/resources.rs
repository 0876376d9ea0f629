//! Steps about what a job asks of a slot: cpus, memory, disk, custom resources, and larger requests on retries.

use crate::submit::job::{Done, Job};
use crate::submit::units;
use crate::submit::virtual_machine;
use classad::analysis::Reads;

struct Sized {
    command: &'static str,
    attribute: &'static str,
    knob: &'static str,
    /// Bytes of one unit of the attribute.
    base: i64,
    /// Name of that unit.
    unit: &'static str,
    /// Hold subcode of jobs that had too little of it.
    subcode: i64,
}

const MEMORY: Sized = Sized {
    command: "request_memory",
    attribute: "RequestMemory",
    knob: "JOB_DEFAULT_REQUESTMEMORY",
    base: 1 << 20,
    unit: "megabytes",
    subcode: 102,
};
const DISK: Sized = Sized {
    command: "request_disk",
    attribute: "RequestDisk",
    knob: "JOB_DEFAULT_REQUESTDISK",
    base: 1 << 10,
    unit: "kilobytes",
    subcode: 104,
};

/// Refuses or warns about a size without unit, as SUBMIT_REQUEST_MISSING_UNITS says.
pub fn check_unit(job: &Job<'_>, command: &str, text: &str, unit: &str, given: bool) -> Done {
    let Some(policy) = job
        .knobs
        .text("SUBMIT_REQUEST_MISSING_UNITS")
        .filter(|_| !given)
    else {
        return Ok(());
    };
    let text = text.trim();
    let hint = "write K, M, G or T behind the number";
    if policy.eq_ignore_ascii_case("error") {
        let message = format!(
            "{command}={text} defaults to {unit}, but must contain a units suffix (i.e K, M, G or T)"
        );
        return Err(job.bad(command, message, hint));
    }
    job.warn(format!(
        "{command}={text} defaults to {unit}, but should contain a units suffix (i.e K, M, G or T)"
    ));
    Ok(())
}

/// Sets RequestMemory.
pub fn memory(job: &mut Job<'_>) -> Done {
    sized(job, &MEMORY)?;
    if !job.has("RequestMemory") {
        return Ok(());
    }
    let list = job.command("retry_request_memory", "")?;
    let most = job.command("retry_request_memory_max", "")?;
    let increase = job.command("retry_request_memory_increase", "")?;
    if let Some(list) = list {
        larger(job, &MEMORY, "retry_request_memory", Some(&list), None)
    } else if most.is_some() || increase.is_some() {
        larger(
            job,
            &MEMORY,
            "retry_request_memory_max",
            most.as_deref(),
            increase.as_deref(),
        )
    } else {
        Ok(())
    }
}

/// Sets RequestDisk.
pub fn disk(job: &mut Job<'_>) -> Done {
    sized(job, &DISK)?;
    match job.command("retry_request_disk", "")? {
        Some(list) => larger(job, &DISK, "retry_request_disk", Some(&list), None),
        None => Ok(()),
    }
}

fn sized(job: &mut Job<'_>, what: &Sized) -> Done {
    let given = job.command(what.command, what.attribute)?;
    let text = match given {
        Some(text) => text,
        None if job.has(what.attribute) => return Ok(()),
        None if what.command == MEMORY.command && virtual_machine::is_wanted(job) => {
            job.warn(
                "request_memory was NOT specified.  Using RequestMemory = MY.JobVMMemory".into(),
            );
            return job.put_expr("RequestMemory", "MY.JobVMMemory", what.command);
        }
        None => match job.knobs.text(what.knob) {
            Some(text) => text,
            None => return Ok(()),
        },
    };
    if text.eq_ignore_ascii_case("undefined") {
        return Ok(());
    }
    match units::leading(&text, what.base) {
        Some((size, unit, rest)) => {
            check_unit(job, what.command, &text, what.unit, unit)?;
            job.put(what.attribute, size);
            match rest.strip_prefix(',') {
                Some(more) if !more.trim().is_empty() => {
                    larger(job, what, what.command, Some(more), None)
                }
                _ => Ok(()),
            }
        }
        None => job.put_expr(what.attribute, &text, what.command),
    }
}

/// Sizes and, last, a size or an expression: `2G, 4G, MemoryUsage * 2`.
fn sequence(
    job: &Job<'_>,
    what: &Sized,
    command: &str,
    text: &str,
) -> Result<(Vec<i64>, Option<String>), crate::ConfigError> {
    let mut sizes = Vec::new();
    let mut rest = text.trim();
    while let Some((size, unit, after)) = units::leading(rest, what.base) {
        check_unit(job, command, rest, what.unit, unit)?;
        sizes.push(size);
        rest = after.strip_prefix(',').unwrap_or("").trim();
    }
    if sizes.windows(2).any(|pair| pair[1] <= pair[0]) {
        let message = format!("{command} must have an increasing sequence of values: {text}");
        return Err(job.bad(command, message, "order the sizes from small to large"));
    }
    let last = (!rest.is_empty()).then(|| rest.to_owned());
    if let Some(last) = &last {
        job.parse(what.attribute, last, command)?;
    }
    Ok((sizes, last))
}

/// What a job asks for after it was stopped for having too little: attributes for the transform at eviction.
fn larger(
    job: &mut Job<'_>,
    what: &Sized,
    command: &str,
    list: Option<&str>,
    increase: Option<&str>,
) -> Done {
    let (mut sizes, mut last) = match list {
        Some(text) => sequence(job, what, command, text)?,
        None => (Vec::new(), None),
    };
    let by_expression = last.is_some();
    if last.is_none() {
        last = sizes.pop().map(|size| size.to_string());
    }
    let attribute = what.attribute;
    let body = if !sizes.is_empty() {
        along(job, attribute, command, &sizes, last)?
    } else if let Some(increase) = increase {
        by_steps(job, what, command, increase, last)?
    } else if let Some(last) = last {
        let verb = if by_expression { "EVALSET" } else { "SET" };
        format!("{verb} {attribute} {last}")
    } else {
        return Ok(());
    };
    at_eviction(job, what, &body);
    Ok(())
}

/// The rule that takes one size of a list after the other.
fn along(
    job: &mut Job<'_>,
    attribute: &str,
    command: &str,
    sizes: &[i64],
    last: Option<String>,
) -> Result<String, crate::ConfigError> {
    let mut items: Vec<String> = sizes.iter().map(i64::to_string).collect();
    items.extend(last);
    let list = format!("{{{}}}", items.join(","));
    job.put_expr(&format!("Retry{attribute}"), &list, command)?;
    Ok(format!(
        "EVALSET {attribute} Retry{attribute}[Retry{attribute}Index?:0]\u{1e}EVALSET Retry{attribute}Index \
         MIN({{size(Retry{attribute})-1, (Retry{attribute}Index?:0)+1}})"
    ))
}

/// The rule that adds `increase` each time, up to `most`.
fn by_steps(
    job: &mut Job<'_>,
    what: &Sized,
    command: &str,
    increase: &str,
    most: Option<String>,
) -> Result<String, crate::ConfigError> {
    const COMMAND: &str = "retry_request_memory_increase";
    let attribute = what.attribute;
    let mut by = None;
    let step = match units::size(increase, what.base) {
        Some((size, unit)) if size > 0 => {
            by = Some(size);
            check_unit(job, COMMAND, increase, what.unit, unit)?;
            format!("{attribute} + {size}")
        }
        _ => {
            let parsed = job.parse(attribute, increase, COMMAND)?;
            if !Reads::of(&parsed)
                .of_target()
                .any(|name| name.is(attribute))
            {
                let message = format!(
                    "{attribute} retry increment must be a positive number or an expression that references {attribute}"
                );
                return Err(job.bad(COMMAND, message, "for example 1G"));
            }
            increase.to_owned()
        }
    };
    let Some(most) = most else {
        return Ok(match (by, job.integer(attribute)) {
            (Some(by), Some(now)) => format!("SET {attribute} {}", now + by),
            _ => format!("EVALSET {attribute} {step}"),
        });
    };
    job.put_expr(&format!("Max{attribute}"), &most, command)?;
    job.put_expr(&format!("Next{attribute}"), &step, command)?;
    Ok(format!(
        "EVALSET {attribute} MIN({{Next{attribute}, Max{attribute}}})"
    ))
}

/// Has `body` carried out when the job leaves its slot for want of the resource.
fn at_eviction(job: &mut Job<'_>, what: &Sized, body: &str) {
    let attribute = what.attribute;
    let requirements = job
        .knobs
        .text(&format!("ON_EVICT_CHECK_{attribute}_REQUIREMENTS"))
        .unwrap_or_else(|| {
            format!(
                "(VacateReasonCode==21 || VacateReasonCode == 34) && VacateReasonSubCode == {}",
                what.subcode
            )
        });
    job.put_text(
        &format!("TransformBody_{attribute}"),
        &format!("REQUIREMENTS {requirements}\u{1e}{body}"),
    );
    let mut checks = job.text("TransformOnEvict").unwrap_or_default();
    if !checks.split(' ').any(|check| check == attribute) {
        checks = format!("{checks} {attribute}").trim().to_owned();
        job.put_text("TransformOnEvict", &checks);
    }
}

/// Sets RequestCpus.
pub fn cpus(job: &mut Job<'_>) -> Done {
    counted(
        job,
        "request_cpus",
        "RequestCpus",
        "JOB_DEFAULT_REQUESTCPUS",
        "request_cpu",
    )
}

/// Sets an attribute from a command, the ad or a knob.
pub fn counted(
    job: &mut Job<'_>,
    command: &str,
    attribute: &str,
    knob: &str,
    mistake: &str,
) -> Done {
    if job.scope.set.get(mistake).is_some() {
        job.warn(format!(
            "{mistake} is not a valid submit keyword, did you mean {command}?"
        ));
    }
    let given = match job.command(command, attribute)? {
        Some(text) => Some(text),
        None if job.has(attribute) => None,
        None => job.knobs.text(knob),
    };
    match given {
        Some(text) if !text.eq_ignore_ascii_case("undefined") => {
            job.put_expr(attribute, &text, command)
        }
        _ => Ok(()),
    }
}

/// Sets Request<tag> for a custom resource.
pub fn custom(job: &mut Job<'_>, command: &str) -> Done {
    let tag = &command["request_".len()..];
    let special = [
        "cpus",
        "cpu",
        "memory",
        "disk",
        "gpus",
        "gpu",
        "gpu_memory",
        "gpus_memory",
    ];
    if tag.len() < 2
        || tag.starts_with('_')
        || special.iter().any(|name| tag.eq_ignore_ascii_case(name))
    {
        return Ok(());
    }
    match job.command(command, "")? {
        Some(text) => job.put_expr(&format!("Request{tag}"), &text, command),
        None => Ok(()),
    }
}

/// Sets ExecutableSize and ImageSize, KiB.
pub fn image_size(job: &mut Job<'_>) -> Done {
    if job.base.is_empty() && !virtual_machine::is_wanted(job) {
        let cmd = job.text("Cmd").unwrap_or_default();
        let size = kib(job, &cmd);
        job.put("ExecutableSize", size);
    }
    if let Some(text) = job.command("image_size", "ImageSize")? {
        match units::size(&text, 1024) {
            Some((size, _)) if size >= 1 => job.put("ImageSize", size),
            _ => {
                return Err(job.bad(
                    "image_size",
                    format!("'{text}' is not valid for Image Size"),
                    "write a size such as 100M",
                ));
            }
        }
    } else if !job.has("ImageSize") {
        let size = job.integer("ExecutableSize").unwrap_or(0);
        job.put("ImageSize", size);
    }
    Ok(())
}

/// Size of a file or directory in KiB, rounded up; 0 for what is not there.
pub fn kib(job: &Job<'_>, name: &str) -> i64 {
    if name.is_empty() || name.contains("://") || name == "/dev/null" {
        return 0;
    }
    let bytes = job.scope.world.size(&job.full_path(name)).unwrap_or(0);
    i64::try_from(bytes.div_ceil(1024)).unwrap_or(i64::MAX)
}
