//! Steps stand for work: what a function does with long texts, and a pattern with a text, is charged.

use classad::allowance::{self, Account};
use classad::builtins::{Spec, table};
use classad::{Ad, Context, Expr, Syntax, Value, parse_expr, try_evaluate};

/// The longest text that an attribute of a job may reasonably be given in these tests.
const LONG: usize = 1 << 20;
/// Bytes that are copied or compared in a step: no function does less for each byte that it looks at.
const BYTES: i64 = 256;

fn spent(text: &str, my: &Ad, most: i64) -> (Option<Value>, Account) {
    let expr = parse_expr(text.as_bytes(), Syntax::NORMAL).expect("an expression");
    let context = Context {
        my: Some(my),
        ..Context::default()
    };
    let former = allowance::begin(most);
    let value = try_evaluate(&expr, &context).ok();
    (value, allowance::end(former))
}

fn ad(of: &[(&str, Value)]) -> Ad {
    let mut ad = Ad::new();
    for (name, value) in of {
        ad.set(name, Expr::Lit(value.clone()));
    }
    ad
}

fn text(bytes: Vec<u8>) -> Value {
    Value::Str(bytes.into())
}

/// Functions that look at no byte of a text, or at a few, or give it back: their names, as the table has them.
const OF_NO_BYTES: &[&str] = &[
    "isUndefined",
    "isError",
    "isString",
    "isInteger",
    "isReal",
    "isList",
    "isClassAd",
    "isBoolean",
    "isAbsTime",
    "isRelTime",
    "size",
    "sum",
    "avg",
    "min",
    "max",
    "member",
    "identicalMember",
    "anyCompare",
    "allCompare",
    "getYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDays",
    "getHours",
    "getMinutes",
    "getSeconds",
    "splitTime",
    "formatTime",
    "absTime",
    "relTime",
    "random",
    "ifThenElse",
    "debug",
    "evalInEachContext",
    "countMatches",
    "listToArgs",
    "unresolved",
    "regexpMember",
    "time",
    "currentTime",
    "timeZoneOffset",
    "dayTime",
    // Cuts a copy out, which is charged by what it is.
    "substr",
    // Ask for what no test has: a map, a user.
    "userMap",
    "userHome",
];

#[test]
fn every_function_of_texts_is_charged_for_their_bytes() {
    let long = ad(&[("A", text(vec![b'1'; LONG]))]);
    let mut free = Vec::new();
    for Spec { name, min_args, .. } in table() {
        let args = vec!["A"; usize::from(*min_args).max(1)].join(", ");
        let (_, done) = spent(&format!("isError({name}({args}))"), &long, 100_000_000);
        if done.used < LONG as i64 / BYTES && !OF_NO_BYTES.contains(name) {
            free.push((name, done.used));
        }
    }
    assert!(free.is_empty(), "steps for {LONG} bytes: {free:?}");
}

#[test]
fn long_options_and_separators_are_charged() {
    let long = ad(&[("A", text(vec![b'1'; LONG]))]);
    for call in [
        "regexp(\"a\", \"b\", A)",
        "regexps(\"a\", \"b\", \"c\", A)",
        "replace(\"b\", \"b\", A)",
        "regexpMember(\"a\", {\"b\"}, A)",
        "stringListSize(\"a\", A)",
        "split(\"a\", A)",
        "stringListsIntersect(\"a\", \"b\", A)",
        "stringListSubsetMatch(\"a\", \"b\", A)",
        "formatTime(0, A)",
        "join(A, \"a\", \"b\")",
        "A == A",
        "A =?= A",
        "member(A, {A})",
        "MY[A]",
    ] {
        let (_, done) = spent(call, &long, 100_000_000);
        assert!(done.used >= LONG as i64 / BYTES, "{call}: {}", done.used);
    }
}

#[test]
fn items_are_charged() {
    let items = LONG / 2;
    let list = ad(&[
        ("Items", text(b"1,".repeat(items))),
        ("Env", text(b"a=1 ".repeat(items / 2))),
    ]);
    for (call, each) in [
        ("size(split(Items))", 2),
        ("stringListSum(Items)", 3),
        ("stringListSubsetMatch(Items, Items)", 1),
        ("size(mergeEnvironment(Env))", 4),
        ("size(argsToList(Env))", 1),
        ("size(replaceAll(\"1\", Items, \"\"))", 1),
        ("stringList_regexpMember(\"x\", Items)", 1),
    ] {
        let (value, done) = spent(call, &list, 100_000_000);
        assert!(value.is_some(), "{call}");
        assert!(done.used >= (items * each) as i64, "{call}: {}", done.used);
    }
}

#[test]
fn a_list_of_one_long_text_many_times_is_charged_when_it_is_made() {
    let mut long = ad(&[("A", text(vec![b'1'; LONG]))]);
    long.set("L", Expr::List(vec![Expr::attr("A"); 1000].into()));
    let expr = parse_expr(b"L", Syntax::NORMAL).expect("an expression");
    let context = Context {
        my: Some(&long),
        ..Context::default()
    };
    let former = allowance::begin(200_000);
    assert!(classad::Evaluator::new(context).eval_deep(&expr).is_err());
    assert_eq!(allowance::end(former).broken, 1);
}

/// Patterns that go back, each in another way, with texts that make them.
const BACK: &[(&str, &[u8], usize)] = &[
    ("(a|aa)+$", b"a", 200),
    ("a*a*a*(b|c)", b"a", 3_000),
    ("(?:a{60000}|b)", b"a", 50_000),
    ("(a*)\\\\1(b|c)", b"a", 3_000),
    ("(?=(a*))(x|y)", b"a", 3_000),
    ("(.*,){8}(x|y)", b"a,", 100),
];

#[test]
fn going_back_is_charged_and_stops_where_the_steps_end() {
    for (pattern, unit, times) in BACK {
        let long = ad(&[("T", text([unit.repeat(*times), b"!".to_vec()].concat()))]);
        let call = format!("regexp(\"{pattern}\", T)");
        let (value, done) = spent(&call, &long, 100_000);
        let full = value.is_none() && done.broken == 1 && done.left == 0;
        assert!(full, "{call}: {value:?} {done:?}");
        // What catches an error does not catch this: thousands of such calls cost what one may.
        let many = format!(
            "sum({{{}}})",
            vec![format!("int(isError({call}))"); 1000].join(",")
        );
        let (value, done) = spent(&many, &long, 100_000);
        assert!(
            value.is_none() && done.used <= 100_000,
            "{pattern}: {value:?}"
        );
    }
}

#[test]
fn compiling_is_charged_once_for_patterns_that_are_asked_for_again() {
    let ads = ad(&[]);
    let long = "x".repeat(2000);
    let (_, first) = spent(&format!("regexp(\"{long}\", \"\")"), &ads, 100_000);
    let (_, again) = spent(&format!("regexp(\"{long}\", \"\")"), &ads, 100_000);
    assert!(
        first.used > 2000 && again.used < 100,
        "{} {}",
        first.used,
        again.used
    );
    let other: Vec<String> = (0..20)
        .map(|n| format!("regexp(\"{long}{n}\", \"\")"))
        .collect();
    let (_, others) = spent(&other.join(" || "), &ads, 1_000_000);
    assert!(others.used > 20 * 2000);
}

#[test]
fn ordinary_patterns_cost_little_and_answer_as_before() {
    let ads = ad(&[]);
    for (call, expected) in [
        ("regexp(\"^EPYC\", \"EPYC-Rome\")", "true"),
        ("regexp(\"node0[0-9]+\", \"node0042.example.org\")", "true"),
        ("regexp(\"^(.*)@(.*)$\", \"alice@example.org\")", "true"),
        ("replaceAll(\"[aeiou]\", \"example\", \"_\")", "\"_x_mpl_\""),
        (
            "regexps(\"(\\\\w+)@(\\\\w+)\", \"a@b\", \"\\\\2 \\\\1\")",
            "\"b a\"",
        ),
    ] {
        let (value, done) = spent(call, &ads, 100_000);
        let value = value.expect("a value");
        assert_eq!(
            classad::print::unparse_value(&value),
            expected.as_bytes(),
            "{call}"
        );
        assert!(done.used < 200, "{call}: {}", done.used);
    }
}

/// A pattern of hundreds of names is too long to be compiled with what counts its work.
#[test]
fn long_lists_of_alternatives_match_as_before() {
    let names: Vec<String> = (0..1500)
        .map(|n| format!("node{n:04}.example.org"))
        .collect();
    let pattern = format!("^({})$", names.join("|"));
    let ads = ad(&[("P", text(pattern.into_bytes()))]);
    for (name, expected) in [
        ("node1499.example.org", true),
        ("node1500.example.org", false),
    ] {
        let (value, done) = spent(&format!("regexp(P, \"{name}\")"), &ads, 200_000);
        assert!(
            matches!(value, Some(Value::Bool(said)) if said == expected),
            "{name} {done:?}"
        );
    }
}
