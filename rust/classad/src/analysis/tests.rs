use super::*;
use crate::parser::{Syntax, parse_ad, parse_expr};

fn of(text: &str) -> Reads {
    Reads::of(&parse_expr(text.as_bytes(), Syntax::NORMAL).unwrap())
}

fn text(names: &[Name]) -> String {
    let words: Vec<String> = names
        .iter()
        .map(|name| name.to_text().into_owned())
        .collect();
    words.join(" ")
}

#[test]
fn each_name_counts_for_the_ad_it_is_read_of() {
    let reads = of("MY.a + TARGET.b * c + other.d + A + target.B");
    assert_eq!(text(&reads.my), "a");
    assert_eq!(text(&reads.target), "b d");
    assert_eq!(text(&reads.either), "c A");
    assert_eq!(text(&reads.scope_words), "MY TARGET other");
    assert!(!reads.unbounded && !reads.volatile && !reads.random && !reads.moves);
}

#[test]
fn constant_subscripts_of_an_ad_are_names() {
    let reads = of(r#"TARGET["Color"] == MY[strcat("Pa", "int")]"#);
    assert_eq!(
        (text(&reads.my), text(&reads.target)),
        ("Paint".into(), "Color".into())
    );
    assert!(!reads.unbounded);
    assert!(of("TARGET[Wanted]").unbounded);
    assert!(of(r#"TARGET["parent"]"#).unbounded);
}

#[test]
fn constant_text_is_looked_into() {
    let reads = of(r#"eval("TARGET.Color") == eval(strcat("OkTo", "Start"))"#);
    assert_eq!(
        (text(&reads.target), text(&reads.either)),
        ("Color".into(), "OkToStart".into())
    );
    assert!(!reads.unbounded && !reads.volatile);
    assert!(of(r#"eval("time()")"#).volatile);
    assert!(!of(r#"eval("a +")"#).unbounded);
    assert!(of(r#"eval(strcat("slot", SlotID - 1, "_State"))"#).unbounded);
    assert!(of(r#"eval("eval(a)")"#).unbounded);
}

#[test]
fn an_ad_as_a_value_is_unbounded() {
    for ad in [
        "TARGET",
        "MY",
        "parent",
        "root",
        "self",
        "other",
        ".left",
        "MY.parent",
        "(TARGET)",
    ] {
        assert!(of(&format!("size({ad})")).unbounded, "{ad}");
        let part = of(&format!("{ad}.Color"));
        assert!(!part.unbounded, "{ad}");
        assert!(part.names().any(|name| name.is("color")), "{ad}");
    }
    assert!(of("symmetricMatch").unbounded);
    assert!(of("ifThenElse(a, MY, TARGET).Color").unbounded);
    let absolute = of(".x");
    assert_eq!(text(&absolute.either), "x");
    assert!(!absolute.unbounded);
}

#[test]
fn matches_of_a_list_of_devices_are_bounded() {
    let reads = of("countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs");
    assert_eq!(text(&reads.either), "RequireGPUs RequestGPUs AvailableGPUs");
    assert_eq!(text(&reads.dereferenced), "RequireGPUs");
    assert!(!reads.unbounded && !reads.volatile && !reads.moves);
    assert!(!reads.moves_in(|name| name.is("requiregpus")));
    assert!(reads.moves_in(|_| false));
    assert!(reads.moves_in(|_| true), "an attribute named MY");
    assert!(of("countMatches(TARGET.Require, MY.Available)").moves);
    assert!(!of("countMatches(Capability > 7, AvailableGPUs)").moves_in(|_| false));
    assert!(of("countMatches(a.b, l)").unbounded);
    assert!(of("unresolved(a)").unbounded);
}

#[test]
fn names_defined_around_them_are_not_read_elsewhere() {
    let reads = of("[ x = y; z = x; w = TARGET.x ].z");
    assert_eq!(text(&reads.either), "y x");
    assert_eq!(text(&of("[ x = y; z = x ].z").either), "y");
    assert_eq!(
        text(&of("[ x = y; z = { x } ].z").either),
        "y x",
        "items are evaluated where the list is used"
    );
    assert_eq!(text(&of("a.b").either), "b a", "b may be around a");
    assert_eq!(text(&of("{ MY.a, TARGET.b }[0]").either), "a b");
}

#[test]
fn time_chance_and_the_host_are_volatile() {
    for expr in [
        "time()",
        "CurrentTime",
        "MY.CurrentTime",
        "userHome(a)",
        "debug(a)",
        "formatTime(a, b)",
    ] {
        assert!(of(expr).volatile, "{expr}");
        assert!(!of(expr).random && !of(expr).unbounded, "{expr}");
    }
    assert!(of("random(3)").volatile && of("random(3)").random);
    for expr in [
        "unparse(a)",
        "countMatches(a, b)",
        "member(a, b)",
        "strcat(a)",
    ] {
        assert!(!of(expr).volatile, "{expr}");
    }
}

#[test]
fn definitions_are_followed_in_their_own_ad() {
    let job = "[ RequestCpus = 2; Need = RequestCpus * MY.Factor; Factor = TARGET.Speed; N = [ a = b ]; L = {Need}; Require = Capability > Need ]";
    let (job, _) = parse_ad(job.as_bytes(), Syntax::NORMAL).unwrap();
    let reads = |text: &str| {
        let reads = reads_in(&parse_expr(text.as_bytes(), Syntax::NORMAL).unwrap(), &job);
        assert!(reads.either.is_empty());
        (self::text(&reads.my), self::text(&reads.target))
    };
    assert_eq!(
        reads("TARGET.Cpus >= Need && Arch == 1"),
        ("Need RequestCpus Factor".into(), "Cpus Arch Speed".into())
    );
    assert_eq!(reads("MY.Gone"), ("Gone".into(), String::new()));
    assert_eq!(reads("N.a"), ("N".into(), "b".into()));
    assert_eq!(reads("N.c"), ("c N".into(), "c b".into()));
    assert_eq!(
        reads("L[0]"),
        ("L Need RequestCpus Factor".into(), "Speed".into())
    );
    assert_eq!(
        reads("countMatches(MY.Require, TARGET.Devices) > Need"),
        (
            "Require Need Capability RequestCpus Factor".into(),
            "Devices Need Capability Speed".into()
        ),
        "a definition that is taken out may read either ad"
    );
    assert_eq!(
        reads("countMatches(MY.Gone, TARGET.Devices)"),
        ("Gone Devices".into(), "Gone Devices".into()),
        "where the evaluator ends up when it finds nothing is not told"
    );
}

/// Two tables of definitions, one an ad.
struct Pair<'a>(&'a Ad, &'a Ad);

impl Definitions for Pair<'_> {
    fn visit(&mut self, ours: bool, name: &Name, visit: &mut dyn FnMut(&Reads)) {
        let ad = if ours { self.0 } else { self.1 };
        if let Some(definition) = ad.get(name) {
            visit(&Reads::of(definition));
        }
    }
}

use crate::ad::Ad;

#[test]
fn definitions_of_the_other_ad_read_ours_as_their_target() {
    let (job, _) = parse_ad(b"[ Want = TARGET.Have; Size = 1 ]", Syntax::NORMAL).unwrap();
    let (slot, _) = parse_ad(b"[ Have = TARGET.Size + MY.Own; Own = 2 ]", Syntax::NORMAL).unwrap();
    let all = reach(&of("MY.Want"), &mut Pair(&job, &slot));
    assert_eq!(
        (text(&all.my), text(&all.target)),
        ("Want Size".into(), "Have Own".into())
    );
}

#[test]
fn a_definition_that_is_taken_out_may_read_either_ad() {
    let (job, _) = parse_ad(
        b"[ Require = MY.Capability > 7; Capability = 1 ]",
        Syntax::NORMAL,
    )
    .unwrap();
    let (slot, _) = parse_ad(
        b"[ Devices = { [ a = 1 ] }; Capability = Base; Base = 8 ]",
        Syntax::NORMAL,
    )
    .unwrap();
    let all = reach(
        &of("countMatches(MY.Require, TARGET.Devices)"),
        &mut Pair(&job, &slot),
    );
    assert!(all.target.iter().any(|name| name.is("Base")), "{all:?}");
    let (job, _) = parse_ad(b"[ A = B; B = eval(C) ]", Syntax::NORMAL).unwrap();
    assert!(reach(&of("A"), &mut Pair(&job, &slot)).unbounded);
}
