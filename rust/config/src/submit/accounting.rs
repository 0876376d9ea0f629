//! Steps about who a job counts for: accounting groups and concurrency limits.

use crate::submit::job::{self, Done, Job};

/// Sets ConcurrencyLimits.
pub fn concurrency_limits(job: &mut Job<'_>) -> Done {
    let list = job.command("concurrency_limits", "")?;
    let by_expr = job.command("concurrency_limits_expr", "")?;
    match (list, by_expr) {
        (Some(_), Some(_)) => {
            let message = "concurrency_limits and concurrency_limits_expr can't be used together";
            Err(job.bad("concurrency_limits", message, "keep one of them"))
        }
        (Some(list), None) => {
            let list = list.to_lowercase();
            let mut limits = crate::functions::list_items(job::unquoted(&list));
            if limits.is_empty() {
                return Ok(());
            }
            for limit in &limits {
                let name = limit.split(':').next().unwrap_or(limit);
                let good_name = !name.is_empty()
                    && name.split('.').count() <= 2
                    && name.split('.').all(crate::statement::is_name);
                if !good_name {
                    let message = format!("Invalid concurrency limit '{limit}'");
                    return Err(job.bad(
                        "concurrency_limits",
                        message,
                        "write NAME or NAME:AMOUNT, separated by commas",
                    ));
                }
            }
            limits.sort_unstable();
            let text = limits.join(",");
            job.put_text("ConcurrencyLimits", &text);
            Ok(())
        }
        (None, Some(text)) => job.put_expr("ConcurrencyLimits", &text, "concurrency_limits_expr"),
        (None, None) => Ok(()),
    }
}

fn is_submitter_name(name: &str) -> bool {
    !name.contains(|c: char| c.is_ascii_whitespace())
}

/// Sets AcctGroup, AcctGroupUser and AccountingGroup.
pub fn accounting_group(job: &mut Job<'_>) -> Done {
    if let Some(project) = job.command("project_name", "ProjectName")? {
        job.put_text("ProjectName", job::unquoted(&project));
    }
    let mut group = job.command("accounting_group", "")?;
    if job.truth("nice_user", "NiceUser", false)? {
        let nice = job
            .knobs
            .text("NICE_USER_ACCOUNTING_GROUP_NAME")
            .unwrap_or_else(|| "nice-user".into());
        match &group {
            None => group = Some(nice),
            Some(other) if *other != nice => {
                job.warn(
                    "nice_user conflicts with accounting_group. nice_user will be ignored".into(),
                );
            }
            Some(_) => {}
        }
        job.put("MaxJobRetirementTime", 0);
    }
    let user = job.command("accounting_group_user", "AcctGroupUser")?;
    if group.is_none() && user.is_none() {
        return Ok(());
    }
    let user = user.unwrap_or_else(|| job.facts.owner.clone());
    let hint = "write it without blanks";
    if let Some(group) = group.as_deref().filter(|group| !is_submitter_name(group)) {
        return Err(job.bad(
            "accounting_group",
            format!("Invalid accounting_group: {group}"),
            hint,
        ));
    }
    if !is_submitter_name(&user) {
        return Err(job.bad(
            "accounting_group_user",
            format!("Invalid accounting_group_user: {user}"),
            hint,
        ));
    }
    job.put_text("AcctGroupUser", &user);
    match group {
        Some(group) => {
            job.put_text("AcctGroup", &group);
            job.put_text("AccountingGroup", &format!("{group}.{user}"));
        }
        None => job.put_text("AccountingGroup", &user),
    }
    Ok(())
}
