//! Hostile expressions cost neither the stack nor unbounded time or memory.

use classad::{Context, Syntax, Value, evaluate, parse_ad, parse_expr};

fn value(my: &str, expr: &str) -> Value {
    let (my, _) = parse_ad(my.as_bytes(), Syntax::NORMAL).expect("an ad");
    let expr = parse_expr(expr.as_bytes(), Syntax::NORMAL).expect("an expression");
    evaluate(
        &expr,
        &Context {
            my: Some(&my),
            ..Context::default()
        },
    )
}

#[test]
fn deep_nesting_is_refused() {
    for text in [
        "(".repeat(100_000),
        "-".repeat(100_000),
        "!".repeat(100_000),
        "[a=".repeat(100_000),
        "{".repeat(100_000),
    ] {
        assert!(parse_expr(text.as_bytes(), Syntax::NORMAL).is_err());
    }
}

#[test]
fn nesting_is_read_as_deep_as_the_reference_does() {
    let nested = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
    assert!(parse_expr(nested(165).as_bytes(), Syntax::NORMAL).is_ok());
    assert!(parse_expr(nested(167).as_bytes(), Syntax::NORMAL).is_err());
}

#[test]
fn chains_evaluate_to_the_reference_s_depth_and_no_further() {
    let chain = |n: usize| vec!["1"; n].join("+");
    assert!(matches!(value("[]", &chain(401)), Value::Int(401)));
    assert!(matches!(value("[]", &chain(402)), Value::Error));
    assert!(parse_expr(chain(100_000).as_bytes(), Syntax::NORMAL).is_err());
}

#[test]
fn cycles_are_undefined() {
    assert!(matches!(
        value("[ a = b; b = c; c = a + 1 ]", "a"),
        Value::Undefined
    ));
    assert!(matches!(
        value("[ a = { a } ]", "a[0][0][0]"),
        Value::List(_) | Value::Undefined
    ));
}

#[test]
fn doubling_stops() {
    let names: Vec<String> = (0..60)
        .map(|i| format!("s{i} = strcat(s{}, s{})", i + 1, i + 1))
        .collect();
    let ad = format!("[ {}; s60 = \"0123456789abcdef\" ]", names.join("; "));
    assert!(matches!(value(&ad, "s0"), Value::Error));
    let sums: Vec<String> = (0..60)
        .map(|i| format!("n{i} = n{} + n{}", i + 1, i + 1))
        .collect();
    let ad = format!("[ {}; n60 = 1 ]", sums.join("; "));
    assert!(matches!(value(&ad, "n0"), Value::Error));
}

#[test]
fn recursion_through_eval_and_contexts_stops() {
    assert!(matches!(
        value("[ a = eval(\"a\") ]", "a"),
        Value::Undefined | Value::Error
    ));
    assert!(matches!(
        value("[ a = eval(\"MY[\\\"a\\\"]\") ]", "a"),
        Value::Undefined | Value::Error
    ));
    let each = "[ a = countMatches(b, {[c = 1]}); b = a ].b";
    assert!(matches!(value("[]", each), Value::Int(_) | Value::Error));
}

#[test]
fn selecting_from_a_list_that_contains_itself_stops() {
    assert!(matches!(value("[ a = { a } ]", "a.x"), Value::Error));
    assert!(matches!(
        value("[ a = { a, a, b }; b = { a } ]", "a.x"),
        Value::Error
    ));
}

#[test]
fn functions_of_a_list_that_calls_them_stop() {
    let calls = [
        "member(1, l)",
        "identicalMember(1, l)",
        "sum(l)",
        "max(l)",
        "anyCompare(\"<\", l, 1)",
        "join(\",\", l)",
        "regexpMember(\"a\", l)",
        "evalInEachContext(1, l)",
        "countMatches(1, l)",
        "listToArgs(l)",
        "stringListsIntersect(l[0], l)",
    ];
    for call in calls {
        let ad = format!("[ l = {{ {call}, 1 }}; b = {call} ]");
        // It ends, and not with the program.
        let _ = value(&ad, "b");
    }
}

#[test]
fn calls_nested_in_chained_definitions_stop() {
    let nested =
        |inner: String| (0..90).fold(inner, |inner, _| format!("ifThenElse(true, {inner}, 0)"));
    let chain: Vec<String> = (0..390)
        .map(|i| format!("a{i} = {}", nested(format!("a{}", i + 1))))
        .collect();
    let ad = format!("[ {}; a390 = 1 ]", chain.join("; "));
    assert!(matches!(value(&ad, "a0"), Value::Error));
    assert!(matches!(value(&ad, "a387"), Value::Int(1)));
}

#[test]
fn catastrophic_patterns_stop() {
    let subject = "a".repeat(64);
    let expr = format!("regexp(\"(a+)+$\", \"{subject}!\")");
    assert!(matches!(
        value("[]", &expr),
        Value::Error | Value::Bool(false)
    ));
}
