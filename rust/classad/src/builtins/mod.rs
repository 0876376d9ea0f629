//! The functions of the language: one table, looked up once when a call is parsed.

mod contexts;
mod environment;
mod kinds;
mod lists;
mod math;
mod patterns;
mod stringlists;
pub mod strings;
mod times;
mod unresolved;

use crate::eval::{COPIED_A_STEP, EvalAborted, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::regex::{Options, Pattern, compile_steps};
use crate::value::Value;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::LazyLock;

/// How a function gets its arguments.
#[derive(Clone, Copy)]
pub enum Body {
    /// From evaluated arguments alone, with about the same work whatever they are.
    Pure(fn(&[Value], &Env) -> Value),
    /// From evaluated arguments alone, with work in proportion to the length of their texts.
    Linear(fn(&[Value], &Env) -> Value),
    /// From evaluated arguments; counts its work itself.
    Counted(fn(&mut Evaluator<'_>, &[Value]) -> Outcome),
    /// Evaluates its arguments itself (some of them, or in a scope of its own).
    Scoped(fn(&mut Evaluator<'_>, &[Expr], Frame) -> Outcome),
}

/// What the world outside tells a function.
#[derive(Clone, Copy, Debug, Default)]
pub struct Env {
    /// Seconds since the epoch.
    pub now: i64,
    /// Seconds local time is east of UTC.
    pub utc_offset_s: i32,
}

/// One row of the table.
pub struct Spec {
    /// The canonical spelling.
    pub name: &'static str,
    /// The fewest arguments it takes; with another number a call gives error.
    pub min_args: u8,
    /// The most arguments it takes.
    pub max_args: u8,
    /// Whether equal arguments always give equal results, so that it can be folded.
    pub steady: bool,
    /// Whether equal ads may give different results: it depends on the time or the zone, on chance, or on facts of the
    /// host.
    pub volatile: bool,
    /// Its implementation.
    pub body: Body,
}

/// A function of the language: an index into [`table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Builtin(pub u16);

const ANY: u8 = u8::MAX;

const fn pure(name: &'static str, min: u8, max: u8, f: fn(&[Value], &Env) -> Value) -> Spec {
    Spec {
        name,
        min_args: min,
        max_args: max,
        steady: true,
        volatile: false,
        body: Body::Pure(f),
    }
}

/// A function of texts, which it goes through a few times at most.
const fn linear(name: &'static str, min: u8, max: u8, f: fn(&[Value], &Env) -> Value) -> Spec {
    Spec {
        body: Body::Linear(f),
        ..pure(name, min, max, f)
    }
}

type Counted = fn(&mut Evaluator<'_>, &[Value]) -> Outcome;

/// A function of values that counts its work itself.
const fn counted(name: &'static str, min: u8, max: u8, f: Counted) -> Spec {
    Spec {
        name,
        min_args: min,
        max_args: max,
        steady: true,
        volatile: false,
        body: Body::Counted(f),
    }
}

/// A function of the time, or of the zone.
const fn timed(name: &'static str, min: u8, max: u8, f: fn(&[Value], &Env) -> Value) -> Spec {
    Spec {
        name,
        min_args: min,
        max_args: max,
        steady: false,
        volatile: true,
        body: Body::Pure(f),
    }
}

type Scoped = fn(&mut Evaluator<'_>, &[Expr], Frame) -> Outcome;

/// A function of evaluated arguments that evaluates them itself, one after the other.
const fn scoped(name: &'static str, min: u8, max: u8, f: Scoped) -> Spec {
    Spec {
        name,
        min_args: min,
        max_args: max,
        steady: true,
        volatile: false,
        body: Body::Scoped(f),
    }
}

/// A function whose result depends on where it is called: on definitions rather than values.
const fn local(name: &'static str, min: u8, max: u8, f: Scoped) -> Spec {
    Spec {
        name,
        min_args: min,
        max_args: max,
        steady: false,
        volatile: false,
        body: Body::Scoped(f),
    }
}

/// A function of the time, of chance, or of the host, that evaluates its arguments itself.
const fn volatile(name: &'static str, min: u8, max: u8, f: Scoped) -> Spec {
    Spec {
        volatile: true,
        ..local(name, min, max, f)
    }
}

static TABLE: &[Spec] = &[
    pure("isUndefined", 1, 1, kinds::is_undefined),
    pure("isError", 1, 1, kinds::is_error),
    pure("isString", 1, 1, kinds::is_string),
    pure("isInteger", 1, 1, kinds::is_integer),
    pure("isReal", 1, 1, kinds::is_real),
    pure("isList", 1, 1, kinds::is_list),
    pure("isClassAd", 1, 1, kinds::is_classad),
    pure("isBoolean", 1, 1, kinds::is_boolean),
    pure("isAbsTime", 1, 1, kinds::is_abstime),
    pure("isRelTime", 1, 1, kinds::is_reltime),
    linear("int", 1, 1, kinds::int),
    linear("real", 1, 1, kinds::real),
    linear("string", 1, 1, kinds::string),
    linear("bool", 1, 1, kinds::bool),
    scoped("member", 2, 2, lists::member),
    scoped("identicalMember", 2, 2, lists::identical_member),
    scoped("size", 1, 1, lists::size),
    scoped("sum", 1, 1, lists::sum),
    scoped("avg", 1, 1, lists::avg),
    scoped("min", 1, 1, lists::min),
    scoped("max", 1, 1, lists::max),
    scoped("anyCompare", 3, 3, lists::any_compare),
    scoped("allCompare", 3, 3, lists::all_compare),
    linear("splitUserName", 1, 1, lists::split_user_name),
    linear("splitSlotName", 1, 1, lists::split_slot_name),
    counted("split", 1, 2, lists::split),
    timed("time", 0, 0, times::time),
    timed("currentTime", 0, 0, times::current_time),
    timed("timeZoneOffset", 0, 0, times::time_zone_offset),
    timed("dayTime", 0, 0, times::day_time),
    timed("getYear", 1, 1, times::get_year),
    timed("getMonth", 1, 1, times::get_month),
    timed("getDayOfYear", 1, 1, times::get_day_of_year),
    timed("getDayOfMonth", 1, 1, times::get_day_of_month),
    timed("getDayOfWeek", 1, 1, times::get_day_of_week),
    timed("getDays", 1, 1, times::get_days),
    timed("getHours", 1, 1, times::get_hours),
    timed("getMinutes", 1, 1, times::get_minutes),
    timed("getSeconds", 1, 1, times::get_seconds),
    timed("splitTime", 1, 1, times::split_time),
    volatile("formatTime", 0, 2, times::format_time),
    volatile("absTime", 0, 2, times::abs_time),
    timed("relTime", 1, 2, times::rel_time),
    scoped("strcat", 0, ANY, strings::strcat),
    scoped("join", 0, ANY, strings::join),
    linear("toUpper", 1, 1, strings::to_upper),
    linear("toLower", 1, 1, strings::to_lower),
    pure("substr", 2, 3, strings::substr),
    linear("strcmp", 2, 2, strings::strcmp),
    linear("stricmp", 2, 2, strings::stricmp),
    linear("versioncmp", 2, 2, strings::versioncmp),
    linear("versionLE", 2, 2, strings::version_le),
    linear("versionLT", 2, 2, strings::version_lt),
    linear("versionGE", 2, 2, strings::version_ge),
    linear("versionGT", 2, 2, strings::version_gt),
    linear("versionEQ", 2, 2, strings::version_eq),
    linear("version_in_range", 3, 3, strings::version_in_range),
    linear("interval", 1, 1, strings::interval),
    counted("regexp", 2, 3, patterns::regexp),
    scoped("regexpMember", 2, 3, patterns::regexp_member),
    counted("regexps", 3, 4, patterns::regexps),
    counted("replace", 3, 4, patterns::replace),
    counted("replaceAll", 3, 4, patterns::replace_all),
    linear("floor", 1, 1, math::floor),
    linear("ceil", 1, 1, math::ceiling),
    linear("ceiling", 1, 1, math::ceiling),
    linear("round", 1, 1, math::round),
    linear("pow", 2, 2, math::pow),
    scoped("quantize", 2, 2, math::quantize),
    volatile("random", 0, 1, math::random),
    scoped("ifThenElse", 3, 3, contexts::if_then_else),
    local("eval", 1, 1, contexts::eval),
    volatile("debug", 1, 1, contexts::debug),
    local("unparse", 0, ANY, contexts::unparse_attribute),
    local("unresolved", 1, 2, unresolved::unresolved),
    local("evalInEachContext", 2, 2, contexts::eval_in_each_context),
    local("countMatches", 2, 2, contexts::count_matches),
    scoped("stringListsIntersect", 2, 3, stringlists::intersect),
    linear("stringListSize", 1, 2, stringlists::size),
    counted("stringListSum", 1, 2, stringlists::sum),
    counted("stringListAvg", 1, 2, stringlists::avg),
    counted("stringListMin", 1, 2, stringlists::min),
    counted("stringListMax", 1, 2, stringlists::max),
    linear("stringListMember", 2, 3, stringlists::member),
    linear("stringListIMember", 2, 3, stringlists::imember),
    counted("stringListSubsetMatch", 2, 3, stringlists::subset_match),
    counted("stringListISubsetMatch", 2, 3, stringlists::isubset_match),
    counted("stringList_regexpMember", 2, 4, stringlists::regexp_member),
    volatile("userMap", 2, 4, stringlists::user_map),
    volatile("userHome", 0, ANY, stringlists::user_home),
    scoped("argsToList", 1, 2, environment::args_to_list),
    scoped("listToArgs", 1, 2, environment::list_to_args),
    counted("envV1ToV2", 1, 1, environment::env_v1_to_v2),
    scoped("mergeEnvironment", 0, ANY, environment::merge_environment),
];

static BY_NAME: LazyLock<FxHashMap<String, Builtin>> = LazyLock::new(|| {
    let all = TABLE.iter().enumerate();
    all.map(|(i, spec)| (spec.name.to_ascii_lowercase(), Builtin(i as u16)))
        .collect()
});

/// All functions.
#[must_use]
pub fn table() -> &'static [Spec] {
    TABLE
}

impl Builtin {
    /// The function of that name, case ignored.
    #[must_use]
    pub fn find(name: &[u8]) -> Option<Builtin> {
        let name = std::str::from_utf8(name).ok().filter(|n| n.len() < 32)?;
        BY_NAME.get(&name.to_ascii_lowercase()).copied()
    }

    /// Its row.
    #[must_use]
    pub fn spec(self) -> &'static Spec {
        &TABLE[self.0 as usize]
    }

    /// Whether it takes that many arguments.
    #[must_use]
    pub fn takes(self, args: usize) -> bool {
        let spec = self.spec();
        args >= usize::from(spec.min_args)
            && (args <= usize::from(spec.max_args) || spec.max_args == ANY)
    }
}

/// Patterns that were asked for last: a condition is mostly asked of many ads in a row, and few have many patterns.
const KNOWN: usize = 8;
/// Bytes of a pattern that is worth keeping.
const KEPT: usize = 16 << 10;

struct Compiled {
    pattern: Vec<u8>,
    options: Options,
    made: Option<Pattern>,
}

thread_local! {
    /// The pattern asked for last comes first.
    static COMPILED: RefCell<Vec<Compiled>> = const { RefCell::new(Vec::new()) };
}

/// Does something with a pattern, and counts the steps of it and of compiling the pattern, if that is not known; `None`
/// for a malformed one.
fn charge_matching<T>(
    e: &mut Evaluator<'_>,
    pattern: &[u8],
    options: Options,
    work: impl FnOnce(&mut Pattern, &mut i64) -> T,
) -> Result<Option<T>, EvalAborted> {
    COMPILED.with_borrow_mut(|all| {
        let known = |c: &Compiled| c.options == options && c.pattern == pattern;
        e.charge(pattern.len() / COPIED_A_STEP, 0)?;
        match all.iter().position(known) {
            Some(at) => all[..=at].rotate_right(1),
            None => {
                e.charge(compile_steps(pattern) as usize, 0)?;
                let made = Pattern::new(pattern, options);
                if let Some(made) = &made {
                    let more = made.steps() - compile_steps(pattern);
                    e.charge(more.max(0) as usize, 0)?;
                }
                all.truncate(KNOWN - 1);
                all.insert(
                    0,
                    Compiled {
                        pattern: pattern.to_vec(),
                        options,
                        made,
                    },
                );
            }
        }
        let done = all[0].made.as_mut().map(|made| work(made, &mut e.steps));
        if pattern.len() > KEPT {
            all.remove(0);
        }
        e.charge(0, 0)?;
        Ok(done)
    })
}

/// The text of the only argument.
fn only(args: &[Value]) -> Option<&[u8]> {
    args.first().and_then(Value::as_str)
}
