//! Runs a transform on an ad.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use classad::analysis::{Reads, reads_in};
use classad::print::Style;
use classad::regex::Match;
use classad::{
    Ad, Context, Expr, Name, Syntax, Value, parse_computed, parse_expr, parse_leading, print,
    try_evaluate,
};
use rustc_hash::FxHashSet;

use super::{Command, Rules, Step, Verb};
use crate::bytes;
use crate::condition::Blocks;
use crate::error::{Code, ConfigError};
use crate::expand::Expander;
use crate::knobs::folded;
use crate::lines::Lines;
use crate::scope::Scope;
use crate::set::{MacroSet, Origin};
use crate::source::Source;
use crate::submit::Facts;
use crate::submit::items::{self, Matching};
use crate::submit::queue::{self, Mode, Place};
use crate::submit::table;

/// How much work it may be to find the attributes of an ad whose names match a pattern: names that are left then do not.
const MATCHING_STEPS: i64 = 1_000_000;

/// Where a list of transforms runs.
pub struct Surroundings<'a> {
    /// The configuration, for macros that neither the rules nor the ad define.
    pub knobs: Option<&'a dyn Scope>,
    /// The world, for `$RANDOM_CHOICE` and the like.
    pub world: &'a dyn Source,
    /// Seconds since the epoch.
    pub now: i64,
    /// Seconds that local time is east of UTC.
    pub utc_offset_s: i32,
    /// Seed of `random()`.
    pub seed: u64,
    /// Macros such as IsClusterAd; names in lower case.
    pub given: Vec<(String, String)>,
}

/// Where an iterating transform has come to.
#[derive(Clone, Debug, Default)]
pub struct Iteration {
    /// Loop variables, in lower case, with their values.
    pub items: Vec<(String, String)>,
    /// Position of the item.
    pub row: u32,
    /// Number within the item.
    pub step: u32,
    /// Number of the ad that is made.
    pub number: u32,
    /// Whether it iterates at all.
    pub iterating: bool,
}

/// Macros that transforms of one list share while they run on one ad.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    set: MacroSet,
}

impl Variables {
    /// Sets one, as `KEY=VALUE` of a command line does.
    pub fn set(&mut self, name: &str, value: &str) {
        self.set.insert(name, value, Origin::default());
    }

    /// Names and raw values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.set.entries().iter();
        entries.map(|entry| (&*entry.name, &*entry.raw))
    }
}

/// What transforms did to an ad.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Attributes that were set or removed.
    pub changed: FxHashSet<Name>,
    /// What they read, in lower case.
    pub read: FxHashSet<String>,
    /// Another run on an equal ad may do something else.
    pub volatile: bool,
    /// They may have read any attribute.
    pub unbounded: bool,
    /// Statements that could not be carried out, in words.
    pub problems: Vec<String>,
    /// Statements of which a part was ignored, in words.
    pub doubts: Vec<String>,
    /// What was done, statement by statement, when it was asked for.
    pub steps: Vec<String>,
}

impl Outcome {
    fn note(&mut self, reads: &Reads) {
        self.unbounded |= reads.unbounded;
        self.volatile |= reads.volatile || reads.random;
        for name in reads.names() {
            self.read.insert(name.to_text().to_ascii_lowercase());
        }
    }
}

const OLD: Style = Style {
    old: true,
    indent: false,
    xml: false,
};

struct Running<'a> {
    around: &'a Surroundings<'a>,
    iteration: &'a Iteration,
    variables: &'a Variables,
    ad: &'a Ad,
    outcome: &'a RefCell<Outcome>,
}

impl Running<'_> {
    fn evaluate(&self, expr: &Expr) -> Option<Value> {
        self.outcome.borrow_mut().note(&reads_in(expr, self.ad));
        let context = Context {
            my: Some(self.ad),
            now: self.around.now,
            utc_offset_s: self.around.utc_offset_s,
            seed: self.around.seed,
            ..Context::default()
        };
        try_evaluate(expr, &context).ok()
    }

    fn given(&self, name: &str) -> Option<Cow<'_, str>> {
        let iteration = self.iteration;
        if let Some((_, value)) = iteration.items.iter().find(|(known, _)| known == name) {
            return Some(value.as_str().into());
        }
        if iteration.iterating {
            match name {
                "itemindex" | "row" => return Some(iteration.row.to_string().into()),
                "step" => return Some(iteration.step.to_string().into()),
                "xformid" => return Some(iteration.number.to_string().into()),
                _ => {}
            }
        }
        match name {
            "islinux" => return Some("1".into()),
            "iswindows" => return Some("0".into()),
            "iterating" => return Some(if iteration.iterating { "1" } else { "0" }.into()),
            _ => {}
        }
        let found = self.around.given.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str().into())
    }

    /// `$(MY.Attr)`: a string without its quotes, or the text of the expression. What a user wrote is not expanded again.
    fn attribute(&self, name: &str) -> Option<Cow<'_, str>> {
        let name = name
            .get(..3)
            .filter(|prefix| prefix.eq_ignore_ascii_case("my."))
            .map(|_| &name[3..])?;
        self.outcome
            .borrow_mut()
            .read
            .insert(name.to_ascii_lowercase());
        let text = match self.ad.get_str(name)? {
            Expr::Lit(Value::Str(text)) => bytes::hold(text.as_bytes()).into_owned(),
            // As SET reads it again: in the old syntax.
            expr => bytes::hold(&print::unparse_styled(expr, OLD)).into_owned(),
        };
        Some(Cow::Owned(text.replace('$', "$(DOLLAR)")))
    }
}

impl Scope for Running<'_> {
    fn raw(&self, name: &str) -> Option<Cow<'_, str>> {
        if let Some(entry) = self.variables.set.get(name) {
            return Some((&*entry.raw).into());
        }
        self.given(&folded(name))
            .or_else(|| self.attribute(name))
            .or_else(|| self.around.knobs.and_then(|knobs| knobs.raw(name)))
    }

    fn source(&self) -> &dyn Source {
        self.around.world
    }

    fn results_are_data(&self) -> bool {
        true
    }

    fn condition(&self, text: &str) -> Option<bool> {
        let expr = parse_computed(&bytes::release(text), Syntax::OLD).ok()?;
        self.evaluate(&expr)?.truth()
    }

    fn evaluated(&self, text: &str) -> Option<String> {
        let expr = parse_computed(&bytes::release(text), Syntax::OLD).ok()?;
        Some(text_of(&self.evaluate(&expr)?))
    }
}

/// A value as macros hold it: strings without quotes.
fn text_of(value: &Value) -> String {
    let text = match value.as_str() {
        Some(bytes) => Cow::Borrowed(bytes),
        None => Cow::Owned(print::unparse_value(value)),
    };
    bytes::hold(&text).into_owned()
}

/// The definition that gives a value.
fn definition(value: Value) -> Option<Expr> {
    match value {
        Value::List(_) | Value::Ad(_) => {
            parse_expr(&print::unparse_value(&value), Syntax::NORMAL).ok()
        }
        value => Some(Expr::Lit(value)),
    }
}

/// Whether a transform applies to an ad. A REQUIREMENTS that is neither true nor false does not.
#[must_use]
fn applies(rules: &Rules, running: &Running<'_>) -> bool {
    match &rules.requirements {
        None => true,
        Some(expr) => match running.evaluate(expr) {
            Some(value) => value.truth() == Some(true),
            None => true,
        },
    }
}

/// Runs a transform on `ad`; whether it applied. What went wrong in single statements stands in the outcome.
///
/// # Errors
/// What breaks the transform off: a condition that is none, a macro without end, a bad name of a macro.
pub fn apply(
    rules: &Rules,
    ad: &mut Ad,
    variables: &mut Variables,
    iteration: &Iteration,
    around: &Surroundings<'_>,
    outcome: &mut Outcome,
    explain: bool,
) -> Result<bool, ConfigError> {
    let shared = RefCell::new(std::mem::take(outcome));
    let result = run(rules, ad, variables, iteration, around, &shared, explain);
    *outcome = shared.into_inner();
    result.map_err(|(line, error)| error.at(&rules.name, line))
}

fn run(
    rules: &Rules,
    ad: &mut Ad,
    variables: &mut Variables,
    iteration: &Iteration,
    around: &Surroundings<'_>,
    outcome: &RefCell<Outcome>,
    explain: bool,
) -> Result<bool, (u32, ConfigError)> {
    macro_rules! running {
        () => {
            Running {
                around,
                iteration,
                variables,
                ad,
                outcome,
            }
        };
    }
    if !applies(rules, &running!()) {
        return Ok(false);
    }
    let mut blocks = Blocks::default();
    for (line, step) in &rules.steps {
        let broken = |error| (*line, error);
        match step {
            Step::Condition(text) => {
                blocks.take(text, &running!()).map_err(broken)?;
            }
            _ if !blocks.enabled() => {}
            Step::Assign(name, value) => {
                let (name, value) = own_expanded(&running!(), name, value).map_err(broken)?;
                variables.set(&name, &value);
            }
            Step::Append(name, joint, value) => {
                let old = running!().raw(name).map(Cow::into_owned);
                let whole = match old.filter(|old| !old.is_empty()) {
                    Some(old) => format!("{old}{}{value}", joint.text()),
                    None => value.clone(),
                };
                let (name, value) = own_expanded(&running!(), name, &whole).map_err(broken)?;
                variables.set(&name, &value);
            }
            Step::Do(command) => {
                let (rest, complaints) = {
                    let running = running!();
                    let expander = Expander::new(&running);
                    let rest = expander.expand(&command.rest).map_err(broken)?;
                    (rest, expander.complaints())
                };
                let (mut problems, mut doubts) = (complaints, Vec::new());
                let explained = |step: &dyn Fn() -> String| {
                    if explain {
                        outcome.borrow_mut().steps.push(step());
                    }
                };
                if !matches!(command.verb, Verb::Copy | Verb::Rename | Verb::Delete) {
                    explained(&|| told(command.verb, &command.name, &rest));
                }
                match command.verb {
                    Verb::EvalMacro => {
                        let value = evaluated(&running!(), command, &rest, &mut doubts);
                        match value {
                            Some(value) => {
                                let text = text_of(&value);
                                explained(&|| format!("          {} = {text}", command.name));
                                // The value is data: what looks like a macro in it is not one.
                                variables.set(&command.name, &text.replace('$', "$(DOLLAR)"));
                            }
                            None => problems.push(format!(
                                "EVALMACRO {}: could not evaluate {rest}",
                                command.name
                            )),
                        }
                    }
                    Verb::Default if noted(&running!(), &command.name) => {}
                    Verb::Set | Verb::Default => match expression(&rest) {
                        Some(expr) => {
                            if command.verb == Verb::Default {
                                explained(&|| told(Verb::Set, &command.name, &rest));
                            }
                            insert(ad, outcome, &command.name, expr);
                        }
                        None => problems.push(format!(
                            "{} {}: invalid expression: {rest}",
                            command.verb.text(),
                            command.name
                        )),
                    },
                    Verb::EvalSet => {
                        let value = evaluated(&running!(), command, &rest, &mut doubts);
                        let text = match &value {
                            Some(value) if explain => text_of(value),
                            _ => String::new(),
                        };
                        match value.and_then(definition) {
                            Some(expr) => {
                                explained(&|| {
                                    format!("    {}", told(Verb::Set, &command.name, &text))
                                });
                                insert(ad, outcome, &command.name, expr);
                            }
                            None => problems.push(format!(
                                "EVALSET {}: could not evaluate {rest}",
                                command.name
                            )),
                        }
                    }
                    Verb::Copy | Verb::Rename | Verb::Delete => {
                        for (from, to) in targets(command, ad, &rest, outcome) {
                            explained(&|| told(command.verb, &from.to_text(), &to));
                            if let Err(problem) = one(command.verb, ad, outcome, &from, &to) {
                                problems.push(problem);
                            }
                        }
                    }
                }
                let mut outcome = outcome.borrow_mut();
                let at = |text| format!("{}, line {line}: {text}", rules.name);
                outcome.problems.extend(problems.into_iter().map(at));
                outcome.doubts.extend(doubts.into_iter().map(at));
            }
        }
    }
    Ok(true)
}

/// The ads that an iterating transform makes of each ad, in order.
///
/// # Errors
/// Arguments of TRANSFORM that are none, and items that cannot be read.
pub fn rows(
    rules: &Rules,
    variables: &Variables,
    around: &Surroundings<'_>,
) -> Result<Vec<Iteration>, ConfigError> {
    let Some(arguments) = &rules.iterates else {
        return Ok(vec![Iteration::default()]);
    };
    let (ad, outcome, none) = (Ad::new(), RefCell::default(), Iteration::default());
    let running = Running {
        around,
        iteration: &none,
        variables,
        ad: &ad,
        outcome: &outcome,
    };
    let located = |error: ConfigError| error.at(&rules.name, 0).about("TRANSFORM");
    let expanded = Expander::new(&running).expand(arguments)?;
    let mut queue = queue::parse(&expanded).map_err(located)?;
    if queue.place == Place::Below {
        items::below(&mut queue, &mut Lines::new(&rules.below)).map_err(located)?;
    }
    items::external(&mut queue, &Facts::default(), around.world).map_err(located)?;
    table::apply(&mut queue).map_err(located)?;
    if queue.mode.is_matching() {
        let matching = Matching::from_commands(&|_, _| None)?;
        items::matching(&mut queue, &matching, around.world, &mut |_| ()).map_err(located)?;
    }
    let names: Vec<String> = queue
        .variables
        .iter()
        .map(|name| name.to_ascii_lowercase())
        .collect();
    let length = queue.items.len();
    let chosen: Vec<(u32, Vec<(String, String)>)> = if queue.mode == Mode::Plain {
        vec![(0, Vec::new())]
    } else {
        let taken = (0..length).filter(|row| queue.slice.takes(*row, length));
        taken
            .map(|row| {
                let values = queue.split(&queue.items[row]);
                (row as u32, names.iter().cloned().zip(values).collect())
            })
            .collect()
    };
    let mut made = Vec::new();
    for (row, items) in chosen {
        for step in 0..queue.count {
            made.push(Iteration {
                items: items.clone(),
                row,
                step,
                number: made.len() as u32,
                iterating: true,
            });
        }
    }
    Ok(made)
}

fn own_expanded(
    running: &Running<'_>,
    name: &str,
    raw: &str,
) -> Result<(String, String), ConfigError> {
    let expander = Expander::new(running);
    let name = expander.expand(name)?;
    if !crate::statement::is_name(&name) {
        let error = ConfigError::new(Code::BadName, format!("Illegal Identifier: <{name}>"));
        return Err(error.hint("names of macros have letters, digits, _ and . only"));
    }
    let value = expander.expand_own(raw, &name, None)?;
    Ok((name, value))
}

/// A statement about one attribute as it is carried out, in HTCondor's words.
fn told(verb: Verb, name: &str, rest: &str) -> String {
    match verb {
        Verb::Delete => format!("DELETE {name}"),
        verb => format!("{} {name} to {rest}", verb.text()),
    }
}

fn expression(text: &str) -> Option<Expr> {
    parse_expr(&bytes::release(text), Syntax::OLD).ok()
}

/// The value of what stands behind EVALSET and EVALMACRO. HTCondor gives it to `ClassAd::EvaluateExpr`, which reads the new
/// syntax and stops where an expression is complete: configurations in use end in a bracket too many.
fn evaluated(
    running: &Running<'_>,
    command: &Command,
    text: &str,
    doubts: &mut Vec<String>,
) -> Option<Value> {
    let text = bytes::release(text);
    let (expr, end) = parse_leading(&text, Syntax::NORMAL).ok()?;
    let ignored = String::from_utf8_lossy(&text[end..]);
    if !ignored.trim().is_empty() {
        doubts.push(format!(
            "{} {}: ignored {:?} behind the expression",
            command.verb.text(),
            command.name,
            ignored.trim()
        ));
    }
    running.evaluate(&expr)
}

/// Whether the ad has an attribute; that it was asked is noted.
fn noted(running: &Running<'_>, name: &str) -> bool {
    let mut outcome = running.outcome.borrow_mut();
    outcome.read.insert(name.to_ascii_lowercase());
    running.ad.get_str(name).is_some()
}

fn insert(ad: &mut Ad, outcome: &RefCell<Outcome>, name: &str, expr: Expr) {
    let name = Name::from(name);
    outcome.borrow_mut().changed.insert(name.clone());
    ad.insert(name, expr);
}

/// The attributes that COPY, RENAME or DELETE is about, with their new names.
fn targets(
    command: &Command,
    ad: &Ad,
    rest: &str,
    outcome: &RefCell<Outcome>,
) -> Vec<(Name, String)> {
    let Some(mut pattern) = command.compiled() else {
        outcome
            .borrow_mut()
            .read
            .insert(command.name.to_ascii_lowercase());
        return vec![(Name::from(command.name.as_str()), rest.to_owned())];
    };
    let mut found: BTreeMap<Vec<u8>, (Name, String)> = BTreeMap::new();
    let mut steps = MATCHING_STEPS;
    for (name, _) in ad.iter() {
        if let Match::Found(groups) = pattern.find(name.as_bytes(), 0, false, &mut steps) {
            let to = substituted(rest, name.as_bytes(), &groups);
            outcome
                .borrow_mut()
                .read
                .insert(name.to_text().to_ascii_lowercase());
            found.insert(name.as_bytes().to_vec(), (name.clone(), to));
        }
    }
    found.into_values().collect()
}

/// `\0` to `\9` stand for the groups that a pattern found.
fn substituted(template: &str, text: &[u8], groups: &[Option<(usize, usize)>]) -> String {
    let mut out = String::with_capacity(template.len() + text.len());
    let mut letters = template.chars().peekable();
    while let Some(letter) = letters.next() {
        let group = (letter == '\\')
            .then(|| letters.peek().and_then(|digit| digit.to_digit(10)))
            .flatten()
            .filter(|&group| (group as usize) < groups.len());
        match group {
            Some(group) => {
                letters.next();
                if let Some((from, to)) = groups[group as usize] {
                    out.push_str(&String::from_utf8_lossy(&text[from..to]));
                }
            }
            None => out.push(letter),
        }
    }
    out
}

fn one(
    verb: Verb,
    ad: &mut Ad,
    outcome: &RefCell<Outcome>,
    from: &Name,
    to: &str,
) -> Result<(), String> {
    if verb == Verb::Delete {
        if ad.remove(from).is_some() {
            outcome.borrow_mut().changed.insert(from.clone());
        }
        return Ok(());
    }
    let valid = to.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
        && to.bytes().next().is_some_and(|c| !c.is_ascii_digit());
    if !valid {
        return Err(format!(
            "{} {}: new name {to} is not valid",
            verb.text(),
            from.to_text()
        ));
    }
    let expr = match verb {
        Verb::Copy => ad.get(from).cloned(),
        _ => ad.remove(from),
    };
    if let Some(expr) = expr {
        if verb == Verb::Rename {
            outcome.borrow_mut().changed.insert(from.clone());
        }
        insert(ad, outcome, to, expr);
    }
    Ok(())
}
