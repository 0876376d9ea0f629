//! What a match takes of a slot that is divided.

use crate::config::CycleConfig;
use crate::slot::{Division, SlotClass};
use classad::analysis::reads_in;
use classad::{Ad, Context, Expr, Name, Value, evaluate};

/// A whole amount as an integer, as HTCondor keeps it.
#[must_use]
pub fn amount_expr(amount: f64) -> Expr {
    if amount.fract() == 0.0 && amount.abs() < 9e15 {
        Expr::Lit(Value::Int(amount as i64))
    } else {
        Expr::Lit(Value::Real(amount))
    }
}

/// What a request would take of a class that is divided; `None` when it does not fit.
#[must_use]
pub fn amounts(job: &Ad, class: &SlotClass, config: &CycleConfig, now: i64) -> Option<Vec<f64>> {
    match class.division {
        Division::Whole => None,
        Division::ConsumptionPolicy { .. } => consumption(job, class, now),
        Division::Carved => carving(job, class, config, now),
    }
}

/// Amounts of a consumption policy: every one at hand and not negative, one at least positive.
fn consumption(job: &Ad, class: &SlotClass, now: i64) -> Option<Vec<f64>> {
    let mut complete = job.clone();
    for (name, _) in &class.resources {
        let wanted = format!("Request{}", name.to_text());
        if complete.get_str(&wanted).is_none() {
            complete.set(&wanted, Expr::Lit(Value::Int(0)));
        }
        // A schedd may say what it has set aside for the startd that owns this slot.
        if let Some(set_aside) = job.get_str(&format!("_condor_{wanted}")) {
            complete.set(&wanted, set_aside.clone());
        }
    }
    let context = Context {
        my: Some(&class.ad),
        target: Some(&complete),
        now,
        ..Context::default()
    };
    let mut out = Vec::with_capacity(class.resources.len());
    for (name, free) in &class.resources {
        let expr = class
            .ad
            .get_str(&format!("Consumption{}", name.to_text()))?;
        let amount = evaluate(expr, &context).as_number().filter(|a| *a >= 0.0)?;
        if amount > *free {
            return None;
        }
        out.push(amount);
    }
    out.iter().any(|a| *a > 0.0).then_some(out)
}

/// Amounts the cycle carves: what the request asks for, rounded up as an execution point does.
fn carving(job: &Ad, class: &SlotClass, config: &CycleConfig, now: i64) -> Option<Vec<f64>> {
    let context = Context {
        my: Some(job),
        target: Some(&class.ad),
        now,
        ..Context::default()
    };
    let mut out = Vec::with_capacity(class.resources.len());
    for (name, free) in &class.resources {
        let resource = name.to_text();
        let wanted = job.get_str(&format!("Request{resource}"));
        let asked = wanted.and_then(|e| evaluate(e, &context).as_number());
        let asked = asked.unwrap_or(if name.is("Cpus") { 1.0 } else { 0.0 });
        if asked < 0.0 || asked > *free {
            return None;
        }
        let rounded = config.partition.carve.get(&resource.to_ascii_lowercase());
        let rounded = rounded.and_then(|e| evaluate(e, &context).as_number());
        out.push(rounded.unwrap_or(asked).max(asked).min(*free));
    }
    out.iter().any(|a| *a > 0.0).then_some(out)
}

/// What a job asks of each resource and what that is rounded up to, by resource; `None` when that depends on the slot.
#[must_use]
pub fn asked_amounts(job: &Ad, config: &CycleConfig, now: i64) -> Option<Vec<(Name, f64, f64)>> {
    let own = |expr: &Expr| {
        matches!(expr, Expr::Lit(_)) || {
            let found = reads_in(expr, job);
            found.target.is_empty() && !found.unbounded
        }
    };
    let context = Context {
        my: Some(job),
        now,
        ..Context::default()
    };
    let mut out = vec![(Name::from("Cpus"), 1.0, 1.0)];
    for (name, expr) in job {
        let text = name.to_text();
        let Some(resource) = text
            .get(..7)
            .filter(|p| p.eq_ignore_ascii_case("request"))
            .map(|_| &text[7..])
        else {
            continue;
        };
        let rounding = config.partition.carve.get(&resource.to_ascii_lowercase());
        if !own(expr) || rounding.is_some_and(|e| !own(e)) {
            return None;
        }
        let Some(asked) = evaluate(expr, &context).as_number() else {
            continue;
        };
        let rounded = rounding
            .and_then(|e| evaluate(e, &context).as_number())
            .unwrap_or(asked);
        let resource = Name::from(resource);
        out.retain(|(known, _, _)| *known != resource);
        out.push((resource, asked, rounded.max(asked)));
    }
    Some(out)
}

/// What a job takes of a slot, from what it asks for; `None` when that is not there.
#[must_use]
pub fn carve_amounts(asked: &[(Name, f64, f64)], class: &SlotClass) -> Option<Vec<f64>> {
    let mut out = Vec::with_capacity(class.resources.len());
    for (name, free) in &class.resources {
        let (wanted, rounded) = asked
            .iter()
            .find(|(known, _, _)| known == name)
            .map_or((0.0, 0.0), |(_, wanted, rounded)| (*wanted, *rounded));
        if wanted < 0.0 || wanted > *free {
            return None;
        }
        out.push(rounded.min(*free));
    }
    out.iter().any(|a| *a > 0.0).then_some(out)
}

/// The job as a consumption policy sees it: what it asks for replaced by what it would take, and kept as
/// `_cp_orig_Request<R>`, by which slots tell that the policy has been applied.
#[must_use]
pub fn with_consumption(job: &Ad, class: &SlotClass, amounts: &[f64]) -> Ad {
    let mut out = job.clone();
    for ((name, _), amount) in class.resources.iter().zip(amounts) {
        let wanted = format!("Request{}", name.to_text());
        if let Some(asked) = job.get_str(&wanted) {
            out.set(&format!("_cp_orig_{wanted}"), asked.clone());
            out.set(&wanted, amount_expr(*amount));
        }
    }
    out
}
