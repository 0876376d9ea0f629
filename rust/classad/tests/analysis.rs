//! Laws of static analysis: what it does not name is never read, and what it calls steady is.

use classad::analysis::{Definitions, Reads, reach, reads_in};
use classad::print::{unparse_ad, unparse_value};
use classad::{Ad, Context, Expr, Name, Syntax, evaluate, parse_expr, unparse};
use proptest::collection::vec;
use proptest::prelude::*;

const NAMES: [&str; 6] = ["a", "b", "c", "L", "N", "Memory"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned)
}

fn scope() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "MY", "TARGET", "MY", "TARGET", "MY", "TARGET", "other", "self", "ad", "parent", "root",
        ".left", "(TARGET)",
    ])
}

/// Text of an expression in which every way to read an attribute occurs.
fn text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => name(),
        4 => (scope(), name()).prop_map(|(scope, name)| format!("{scope}.{name}")),
        2 => (scope(), name()).prop_map(|(scope, name)| format!("{scope}[\"{name}\"]")),
        1 => (scope(), name()).prop_map(|(scope, name)| format!("{scope}[strcat(\"{name}\", \"\")]")),
        1 => name().prop_map(|name| format!(".{name}")),
        1 => (scope(), name()).prop_map(|(scope, name)| format!("eval(\"{scope}.{name}\")")),
        1 => name().prop_map(|name| format!("eval(strcat(\"\", \"{name}\"))")),
        1 => name().prop_map(|name| format!("unparse({name})")),
        1 => prop::sample::select(vec!["time()", "CurrentTime", "MY.CurrentTime", "random(9)", "MY.parent", "TARGET"])
            .prop_map(str::to_owned),
        3 => prop::sample::select(vec!["1", "2", "true", "\"x\"", "undefined", "{ 1, 2 }", "0"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let one = inner.clone();
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            3 => (two.clone(), prop::sample::select(vec!["+", "==", "<", "&&", "||", "=?=", "?:"]))
                .prop_map(|((a, b), op)| format!("({a} {op} {b})")),
            1 => (one.clone(), two.clone()).prop_map(|(a, (b, c))| format!("({a} ? {b} : {c})")),
            1 => (one.clone(), name()).prop_map(|(a, name)| format!("({a}).{name}")),
            1 => two.clone().prop_map(|(a, b)| format!("({a})[{b}]")),
            2 => vec(one.clone(), 0..3).prop_map(|items| format!("{{ {} }}", items.join(", "))),
            2 => vec((name(), one.clone()), 1..3).prop_map(|parts| {
                let parts: Vec<String> = parts.iter().map(|(name, part)| format!("{name} = {part}")).collect();
                format!("[ {} ]", parts.join("; "))
            }),
            2 => (one.clone(), vec((name(), one.clone()), 1..3)).prop_map(|(a, parts)| {
                let parts: Vec<String> = parts.iter().map(|(name, part)| format!("[ {name} = {part} ]")).collect();
                format!("evalInEachContext({a}, {{ {} }})", parts.join(", "))
            }),
            1 => two.clone().prop_map(|(a, b)| format!("countMatches({a}, {b})")),
            1 => (name(), one.clone()).prop_map(|(a, b)| format!("countMatches(MY.{a}, {b})")),
            1 => two.clone().prop_map(|(a, b)| format!("member({a}, {b})")),
            1 => name().prop_map(|a| format!("unresolved({a})")),
            1 => one.clone().prop_map(|a| format!("eval({a})")),
            1 => one.clone().prop_map(|a| format!("size({a})")),
        ]
    })
}

fn expr() -> impl Strategy<Value = Expr> {
    text().prop_map(|text| {
        parse_expr(text.as_bytes(), Syntax::NORMAL)
            .unwrap_or_else(|error| panic!("{text}: {error:?}"))
    })
}

fn ad() -> impl Strategy<Value = Ad> {
    vec((name(), expr()), 0..6).prop_map(|parts| {
        parts
            .into_iter()
            .map(|(name, expr)| (Name::from(name.as_str()), expr))
            .collect()
    })
}

fn literals() -> impl Strategy<Value = Ad> {
    vec((name(), 0i64..4), 0..6).prop_map(|parts| {
        let value = |n: i64| Expr::Lit(classad::Value::Int(n));
        parts
            .into_iter()
            .map(|(name, n)| (Name::from(name.as_str()), value(n)))
            .collect()
    })
}

fn only(ad: &Ad, names: &[Name]) -> Ad {
    ad.iter()
        .filter(|(name, _)| names.contains(name))
        .map(|(name, expr)| (name.clone(), expr.clone()))
        .collect()
}

/// The definitions of two ads.
struct Pair<'a>(&'a Ad, &'a Ad);

impl Definitions for Pair<'_> {
    fn visit(&mut self, ours: bool, name: &Name, visit: &mut dyn FnMut(&Reads)) {
        if let Some(definition) = if ours { self.0 } else { self.1 }.get(name) {
            visit(&Reads::of(definition));
        }
    }
}

fn value(expr: &Expr, my: &Ad, target: &Ad, now: i64, seed: u64) -> String {
    let context = Context {
        my: Some(my),
        target: Some(target),
        now,
        seed,
        ..Context::default()
    };
    String::from_utf8_lossy(&unparse_value(&evaluate(expr, &context))).into_owned()
}

fn shown(expr: &Expr, my: &Ad, target: &Ad) -> String {
    let texts = [unparse(expr), unparse_ad(my), unparse_ad(target)];
    texts
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .join("\n in ")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn attributes_that_are_not_named_are_not_read(e in expr(), my in ad(), target in ad()) {
        let found = reach(&Reads::of(&e), &mut Pair(&my, &target));
        if found.unbounded {
            return Ok(());
        }
        let all = value(&e, &my, &target, 7, 5);
        let named = value(&e, &only(&my, &found.my), &only(&target, &found.target), 7, 5);
        prop_assert_eq!(all, named, "{}", shown(&e, &my, &target));
    }

    #[test]
    fn what_one_ad_defines_is_enough_to_know_what_is_read_of_a_plain_other(e in expr(), my in ad(), target in literals()) {
        let found = reads_in(&e, &my);
        if found.unbounded {
            return Ok(());
        }
        let all = value(&e, &my, &target, 7, 5);
        let named = value(&e, &only(&my, &found.my), &only(&target, &found.target), 7, 5);
        prop_assert_eq!(all, named, "{}", shown(&e, &my, &target));
    }

    #[test]
    fn only_what_is_volatile_changes_with_time_and_chance(e in expr(), my in ad(), target in ad()) {
        let found = reach(&Reads::of(&e), &mut Pair(&my, &target));
        let first = value(&e, &my, &target, 7, 5);
        if !found.random {
            prop_assert_eq!(&first, &value(&e, &my, &target, 7, 6), "{}", shown(&e, &my, &target));
        }
        if !found.volatile {
            prop_assert_eq!(&first, &value(&e, &my, &target, 90_000, 6), "{}", shown(&e, &my, &target));
        }
    }

    #[test]
    fn clauses_that_do_not_move_can_be_taken_apart(a in expr(), b in expr(), my in ad(), target in ad()) {
        let first = Reads::of(&a);
        if first.random || first.moves_in(|name| my.contains(name)) {
            return Ok(());
        }
        let both = Expr::binary(classad::BinaryOp::And, a.clone(), b.clone());
        let is_true = |e: &Expr| {
            let context = Context { my: Some(&my), target: Some(&target), now: 7, ..Context::default() };
            evaluate(e, &context).is_true()
        };
        prop_assert_eq!(is_true(&both), is_true(&a) && is_true(&b), "{}", shown(&both, &my, &target));
    }
}
