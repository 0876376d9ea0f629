//! Accounting state as Python passes and stores it.

use std::collections::HashMap;

use ::fairshare::AccountRecord;
use ::negotiator::Accounts;
use ::negotiator::reservation::Kept;
use pyo3::prelude::*;
use pyo3::types::PyDict;

fn field<'py, T>(given: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py>,
    for<'a> PyErr: From<<T as FromPyObject<'a, 'py>>::Error>,
{
    match given.get_item(name)? {
        Some(value) if !value.is_none() => Ok(Some(value.extract::<T>().map_err(PyErr::from)?)),
        _ => Ok(None),
    }
}

fn record_from(given: &Bound<'_, PyDict>, now: i64) -> PyResult<AccountRecord> {
    let mut record = AccountRecord::new(now);
    let number = |name: &str| field::<f64>(given, name);
    if let Some(priority) = number("priority")? {
        record.priority = priority.max(::fairshare::MIN_PRIORITY);
    }
    // A factor is never less than 1, however it was set.
    record.factor = number("factor")?.filter(|f| *f > 0.0).map(|f| f.max(1.0));
    record.ceiling = number("ceiling")?.filter(|c| *c >= 0.0).map(|c| c as i64);
    record.floor = number("floor")?.unwrap_or(0.0).max(0.0) as i64;
    record.resources_used = number("resources_used")?.unwrap_or(0.0);
    record.weighted_resources_used = number("weighted_resources_used")?.unwrap_or(0.0);
    record.accumulated_usage = number("accumulated_usage")?.unwrap_or(0.0);
    record.weighted_accumulated_usage = number("weighted_accumulated_usage")?.unwrap_or(0.0);
    record.uncharged_time = number("uncharged_time")?.unwrap_or(0.0);
    record.weighted_uncharged_time = number("weighted_uncharged_time")?.unwrap_or(0.0);
    record.begin_usage_time = number("begin_usage_time")?.unwrap_or(0.0) as i64;
    record.last_usage_time = number("last_usage_time")?.unwrap_or(0.0) as i64;
    record.last_update = number("last_update")?.map_or(now, |t| t as i64);
    Ok(record)
}

pub(super) fn record_to<'py>(
    py: Python<'py>,
    record: &AccountRecord,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("priority", record.priority)?;
    out.set_item("factor", record.factor)?;
    out.set_item("ceiling", record.ceiling.unwrap_or(-1))?;
    out.set_item("floor", record.floor)?;
    out.set_item("resources_used", record.resources_used)?;
    out.set_item("weighted_resources_used", record.weighted_resources_used)?;
    out.set_item("accumulated_usage", record.accumulated_usage)?;
    out.set_item(
        "weighted_accumulated_usage",
        record.weighted_accumulated_usage,
    )?;
    out.set_item("uncharged_time", record.uncharged_time)?;
    out.set_item("weighted_uncharged_time", record.weighted_uncharged_time)?;
    out.set_item("begin_usage_time", record.begin_usage_time)?;
    out.set_item("last_usage_time", record.last_usage_time)?;
    out.set_item("last_update", record.last_update)?;
    Ok(out)
}

/// A kept machine: slot, submitter, job, expected start, giving up (epoch seconds), whether it was given up.
pub(super) type KeptParts = (String, String, String, f64, f64, bool);
/// Accounting state as `CycleEngine` takes it: see `CycleOutcome::accounting`.
pub(super) type AccountingParts<'py> = (
    Bound<'py, PyDict>,
    HashMap<String, f64>,
    Vec<KeptParts>,
    HashMap<String, f64>,
);

pub(super) fn accounts_from(given: AccountingParts<'_>, now: i64) -> PyResult<Accounts> {
    let (records, remainder_times, reservations, entitled) = given;
    let mut accounts = Accounts::default();
    for (name, record) in records {
        let record = record_from(record.cast::<PyDict>()?, now)?;
        accounts.records.insert(name.extract()?, record);
    }
    accounts.remainder_times.extend(remainder_times);
    accounts.entitled.extend(entitled);
    let kept = |(slot, submitter, job, starts_at, gives_up_at, given_up): KeptParts| Kept {
        slot,
        submitter,
        job,
        starts_at,
        gives_up_at,
        given_up,
    };
    accounts.reservations = reservations.into_iter().map(kept).collect();
    Ok(accounts)
}
