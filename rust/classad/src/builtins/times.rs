//! Functions of time. Local time is UTC moved by the context's offset.

use super::Env;
use crate::ad::Ad;
use crate::eval::{BYTES_A_STEP, EvalAborted, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::ops::real_to_i32;
use crate::strftime::strftime;
use crate::time::Calendar;
use crate::value::{AbsTime, Value};

pub(super) fn time(_: &[Value], env: &Env) -> Value {
    Value::Int(env.now)
}

pub(super) fn current_time(_: &[Value], env: &Env) -> Value {
    Value::AbsTime(AbsTime {
        secs: env.now,
        offset_s: env.utc_offset_s,
    })
}

pub(super) fn time_zone_offset(_: &[Value], env: &Env) -> Value {
    Value::RelTime(f64::from(env.utc_offset_s))
}

pub(super) fn day_time(_: &[Value], env: &Env) -> Value {
    Value::RelTime((env.now + i64::from(env.utc_offset_s)).rem_euclid(86_400) as f64)
}

/// A part of a moment, and the same part of a span where that makes sense.
fn part(
    args: &[Value],
    env: &Env,
    of_moment: Option<fn(&Calendar) -> i64>,
    of_span: Option<fn(i64) -> i64>,
) -> Value {
    let found = match &args[0] {
        Value::AbsTime(t) => of_moment.map(|f| {
            f(&Calendar::from_secs(
                t.secs.wrapping_add(i64::from(env.utc_offset_s)),
            ))
        }),
        Value::RelTime(r) => of_span.map(|f| f(i64::from(real_to_i32(*r)))),
        _ => None,
    };
    found.map_or(Value::Error, Value::Int)
}

pub(super) fn get_year(args: &[Value], env: &Env) -> Value {
    part(args, env, Some(|c| c.year), None)
}
pub(super) fn get_month(args: &[Value], env: &Env) -> Value {
    part(args, env, Some(|c| c.month), None)
}
pub(super) fn get_day_of_year(args: &[Value], env: &Env) -> Value {
    part(args, env, Some(|c| c.yearday), None)
}
pub(super) fn get_day_of_month(args: &[Value], env: &Env) -> Value {
    part(args, env, Some(|c| c.day), None)
}
pub(super) fn get_day_of_week(args: &[Value], env: &Env) -> Value {
    part(args, env, Some(|c| c.weekday), None)
}
pub(super) fn get_days(args: &[Value], env: &Env) -> Value {
    part(args, env, None, Some(|s| s / 86_400))
}
pub(super) fn get_hours(args: &[Value], env: &Env) -> Value {
    part(args, env, Some(|c| c.hour), Some(|s| s % 86_400 / 3600))
}
pub(super) fn get_minutes(args: &[Value], env: &Env) -> Value {
    part(args, env, Some(|c| c.minute), Some(|s| s % 3600 / 60))
}
pub(super) fn get_seconds(args: &[Value], env: &Env) -> Value {
    part(args, env, Some(|c| c.second), Some(|s| s % 60))
}

/// A moment from the kinds that stand for one.
fn moment(value: &Value, env: &Env) -> Option<AbsTime> {
    let secs = match value {
        Value::Int(i) => *i,
        Value::Real(r) => i64::from(real_to_i32(*r)),
        Value::AbsTime(t) => return Some(*t),
        _ => return None,
    };
    Some(AbsTime {
        secs,
        offset_s: env.utc_offset_s,
    })
}

fn field(ad: &mut Ad, name: &str, value: i64) {
    ad.set(name, Expr::Lit(Value::Int(value)));
}

fn split_moment(t: AbsTime) -> Ad {
    let c = Calendar::from_secs(t.secs.wrapping_add(i64::from(t.offset_s)));
    let mut ad = Ad::new();
    ad.set("Type", Expr::Lit(Value::str("AbsoluteTime")));
    field(&mut ad, "Year", c.year);
    field(&mut ad, "Month", c.month);
    field(&mut ad, "Day", c.day);
    field(&mut ad, "Hours", c.hour);
    field(&mut ad, "Minutes", c.minute);
    field(&mut ad, "Seconds", c.second);
    field(&mut ad, "Offset", i64::from(t.offset_s));
    ad
}

fn split_span(secs: f64) -> Ad {
    let negative = secs < 0.0;
    let secs = secs.abs();
    let whole = real_to_i32(secs);
    let (mut days, rest) = (whole / 86_400, whole % 86_400);
    let (mut hours, rest) = (rest / 3600, rest % 3600);
    let mut minutes = rest / 60;
    let mut seconds = f64::from(rest % 60) + (secs - secs.floor());
    if negative {
        // The sign goes to the largest part there is.
        match () {
            () if days > 0 => days = -days,
            () if hours > 0 => hours = -hours,
            () if minutes > 0 => minutes = -minutes,
            () => seconds = -seconds,
        }
    }
    let mut ad = Ad::new();
    ad.set("Type", Expr::Lit(Value::str("RelativeTime")));
    field(&mut ad, "Days", i64::from(days));
    field(&mut ad, "Hours", i64::from(hours));
    field(&mut ad, "Minutes", i64::from(minutes));
    ad.set("Seconds", Expr::Lit(Value::Real(seconds)));
    ad
}

pub(super) fn split_time(args: &[Value], env: &Env) -> Value {
    match &args[0] {
        Value::Undefined => Value::Undefined,
        Value::RelTime(r) => Value::ad(split_span(*r)),
        other => moment(other, env).map_or(Value::Error, |t| Value::ad(split_moment(t))),
    }
}

/// `formatTime([time [, format]])`; the time may also be an ad as `splitTime` makes them.
pub(super) fn format_time(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let env = e.env();
    let Some(first) = args.first() else {
        let c = Calendar::from_secs(env.now + i64::from(env.utc_offset_s));
        return Ok(Value::Str(strftime(&c, b"%c").into()));
    };
    let mut calendar = match e.eval_in(first, frame)? {
        Value::Ad(ad) => calendar_of(e, &ad),
        other => match moment(&other, &env) {
            Some(t) => Calendar::from_secs(t.secs.wrapping_add(i64::from(t.offset_s))),
            None => return Ok(Value::Error),
        },
    };
    calendar.number_days();
    let format = match args.get(1) {
        None => Value::str("%c"),
        Some(arg) => e.eval_in(arg, frame)?,
    };
    Ok(match format.as_str() {
        Some(format) => {
            // No more is written, and each conversion writes something.
            e.charge(format.len() / BYTES_A_STEP + format.len().min(2048), 0)?;
            Value::Str(strftime(&calendar, format).into())
        }
        None => Value::Error,
    })
}

fn calendar_of(e: &mut Evaluator<'_>, ad: &crate::value::AdValue) -> Calendar {
    let mut read = |name: &str| match e.attribute(ad, &name.into()) {
        Ok(Value::Int(i)) => Some(i64::from(i as i32)),
        _ => None,
    };
    Calendar {
        second: read("Seconds").unwrap_or(0),
        minute: read("Minutes").unwrap_or(0),
        hour: read("Hours").unwrap_or(0),
        day: read("Day").unwrap_or(0),
        month: read("Month").unwrap_or(1),
        year: read("Year").unwrap_or(1900),
        ..Calendar::default()
    }
}

pub(super) fn abs_time(e: &mut Evaluator<'_>, args: &[Expr], frame: Frame) -> Outcome {
    let env = e.env();
    let Some(first) = args.first() else {
        return Ok(current_time(&[], &env));
    };
    let first = e.eval_in(first, frame)?;
    let offset_s = match args.get(1).map(|arg| e.eval_in(arg, frame)).transpose()? {
        None => env.utc_offset_s,
        Some(Value::Int(i)) => i as i32,
        Some(Value::Real(r) | Value::RelTime(r)) => real_to_i32(r),
        Some(_) => return Ok(Value::Error),
    };
    let secs = match &first {
        Value::Undefined => return Ok(Value::Undefined),
        // An offset of -1 is its sign of failure there.
        Value::Int(_) if offset_s == -1 => return Err(EvalAborted),
        Value::Int(i) => i64::from(*i as i32),
        Value::Real(r) | Value::RelTime(r) => i64::from(real_to_i32(*r)),
        // A computed string is not read; only a literal one is, by the parser.
        Value::Str(_) | Value::AbsTime(_) => return Ok(first),
        Value::Error | Value::Bool(_) | Value::List(_) | Value::Ad(_) => return Ok(Value::Error),
    };
    Ok(Value::AbsTime(AbsTime { secs, offset_s }))
}

pub(super) fn rel_time(args: &[Value], _: &Env) -> Value {
    if args.len() != 1 {
        return Value::Error;
    }
    match &args[0] {
        Value::Undefined => Value::Undefined,
        Value::Int(i) => Value::RelTime(f64::from(*i as i32)),
        Value::Real(r) | Value::RelTime(r) => Value::RelTime(*r),
        Value::AbsTime(t) => Value::RelTime(t.secs as f64),
        Value::Str(_) => Value::RelTime(0.0),
        Value::Error | Value::Bool(_) | Value::List(_) | Value::Ad(_) => Value::Error,
    }
}
