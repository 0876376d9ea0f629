//! Job sets: `jobset.name`, and the attributes that `jobset.NAME = ...` gives to the ad of the job's set.

use classad::{Expr, Value};

use crate::bytes;
use crate::error::{Code, ConfigError};
use crate::submit::job::{Done, Job, unquoted};

/// What the commands begin with, in lower case.
const PREFIX: &str = "jobset.";
const NAME: &str = "JobSetName";

/// Whether this is a command about the set.
#[must_use]
pub fn is_about_set(command: &str) -> bool {
    command
        .get(..PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// The set of a cluster, and the attributes of that set.
///
/// The first job of a cluster says both. A `jobset` counts before a `jobset.name`; a set that has attributes only is
/// named after its cluster.
pub fn job_set(job: &mut Job<'_>, commands: &[String]) -> Done {
    if !job.base.is_empty() {
        return one_set(job);
    }
    let mut name = None;
    for command in commands {
        let Some(text) = job.command(command, "")? else {
            continue;
        };
        let attribute = &command[PREFIX.len()..];
        if attribute.eq_ignore_ascii_case("name") {
            name = Some(unquoted(&text).to_owned());
            continue;
        }
        let is_attribute = !attribute.is_empty()
            && attribute
                .bytes()
                .all(|c| c == b'_' || c.is_ascii_alphanumeric())
            && !attribute.as_bytes()[0].is_ascii_digit();
        if !is_attribute {
            let hint = "names of attributes have letters, digits and _ only: jobset.NAME = VALUE";
            return Err(job.bad(
                command,
                format!("`{attribute}` is not the name of an attribute of a job set"),
                hint,
            ));
        }
        let value = job.parse(attribute, &text, command)?;
        if !attribute.eq_ignore_ascii_case(NAME) {
            job.job_set.borrow_mut().insert(attribute.into(), value);
        } else if let Expr::Lit(Value::Str(text)) = value {
            name.get_or_insert_with(|| bytes::hold(text.as_bytes()).into_owned());
        } else {
            let hint = "write jobset.name = NAME, or jobset = NAME";
            return Err(job.bad(command, "the name of a job set is a string", hint));
        }
    }
    if job.has(NAME) {
        return Ok(());
    }
    match name.filter(|name| !name.is_empty()) {
        Some(name) => job.put_text(NAME, &name),
        None if job.job_set.borrow().is_empty() => {}
        None => {
            job.scope.touched.cluster.set(true);
            let number = job.scope.live.cluster.clone();
            job.put_text(NAME, &number);
        }
    }
    Ok(())
}

/// Refuses jobs of one cluster that would be in several sets.
fn one_set(job: &Job<'_>) -> Done {
    let is_of_cluster = job
        .own
        .get_str("Cmd")
        .is_none_or(|program| job.base.get_str("Cmd") == Some(program));
    let differs = job
        .own
        .get_str(NAME)
        .is_some_and(|name| job.base.get_str(NAME) != Some(name));
    if !(is_of_cluster && differs) {
        return Ok(());
    }
    let process = job.scope.live.process;
    let said = ["jobset", NAME, "MY.JobSetName"]
        .into_iter()
        .rfind(|command| job.scope.set.get(command).is_some())
        .unwrap_or("jobset");
    let message = format!(
        "All jobs from a single submission must be in the same JOBSET; \
         job {process} of the cluster names another"
    );
    Err(job.located(
        ConfigError::new(Code::BadValue, message)
            .hint("leave macros that differ from job to job out of the set's name"),
        said,
    ))
}
