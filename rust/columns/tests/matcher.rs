//! The matcher against the plain evaluator: the same answer for every row, also after changes.

use classad::{Ad, Context, Expr, Name, Syntax, Value, matching, parse_expr};
use columns::{AdTable, EvalSettings, HostRef, Matcher, Owner, Row, Truth};
use proptest::prelude::*;

const SETTINGS: EvalSettings = EvalSettings {
    now: 1_800_000_000,
    utc_offset_s: 3600,
    seed: 7,
    strict: false,
    host: HostRef(None),
};

const NAMES: [&str; 8] = [
    "Requirements",
    "Start",
    "Memory",
    "Cpus",
    "OpSys",
    "Owner",
    "Rank",
    "Sub",
];

/// Texts of small expressions over those names.
fn expr_text() -> impl Strategy<Value = String> {
    let literal = prop_oneof![
        (0i64..4).prop_map(|value| value.to_string()),
        proptest::sample::select(
            &[
                "true",
                "false",
                "undefined",
                "error",
                "1.5",
                "\"a\"",
                "\"A\"",
                "\"LINUX\"",
                "9007199254740993"
            ][..]
        )
        .prop_map(str::to_owned),
    ];
    let reference = (
        proptest::sample::select(&["", "MY.", "TARGET."][..]),
        proptest::sample::select(&NAMES[..]),
    )
        .prop_map(|(scope, name)| format!("{scope}{name}"));
    let leaf = prop_oneof![2 => literal, 3 => reference];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let op = proptest::sample::select(
            &["&&", "||", "==", "!=", "<", "<=", ">", ">=", "=?=", "=!=", "+", "-", "*", "/", "%", "&", "<<"][..],
        );
        prop_oneof![
            4 => (inner.clone(), op, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} && {b}")),
            1 => inner.clone().prop_map(|a| format!("!({a})")),
            1 => inner.clone().prop_map(|a| format!("-({a})")),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} ?: {b})")),
            1 => inner.clone().prop_map(|a| format!("isUndefined({a})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("strcat({a},{b})")),
            1 => inner.clone().prop_map(|a| format!("toUpper({a})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("regexp({a},{b})")),
            1 => inner.clone().prop_map(|a| format!("eval({a})")),
            1 => inner.clone().prop_map(|a| format!("(random(10) < {a})")),
            1 => inner.clone().prop_map(|a| format!("(time() - {a})")),
            1 => inner.clone().prop_map(|a| format!("size({a})")),
            1 => inner.clone().prop_map(|a| format!("real({a})")),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("ifThenElse({a},{b},{c})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{{a},{b}}}[{b}]")),
            1 => (inner.clone(), inner).prop_map(|(a, b)| format!("[Memory = {a}; x = {b} + Memory].x")),
        ]
    })
}

fn parsed(text: &str) -> Expr {
    parse_expr(text.as_bytes(), Syntax::NORMAL).unwrap_or(Expr::Lit(Value::Undefined))
}

fn ad() -> impl Strategy<Value = Ad> {
    let entry = (
        proptest::sample::select(&NAMES[..]),
        prop_oneof![
            2 => (0i64..4).prop_map(|value| value.to_string()),
            1 => proptest::sample::select(&["\"LINUX\"", "\"a\"", "2.5", "true", "undefined"][..]).prop_map(str::to_owned),
            2 => expr_text(),
        ],
    );
    (
        proptest::collection::vec(entry, 0..7),
        expr_text(),
        any::<bool>(),
    )
        .prop_map(|(entries, requirements, has)| {
            let mut ad: Ad = entries
                .iter()
                .map(|(name, text)| (Name::from(*name), parsed(text)))
                .collect();
            if has {
                ad.set("Requirements", parsed(&requirements));
            }
            ad
        })
}

fn context<'a>(my: &'a Ad, target: &'a Ad) -> Context<'a> {
    Context {
        my: Some(my),
        target: Some(target),
        now: SETTINGS.now,
        utc_offset_s: SETTINGS.utc_offset_s,
        seed: SETTINGS.seed,
        strict: SETTINGS.strict,
        host: None,
    }
}

fn shown(value: &Value) -> String {
    String::from_utf8_lossy(&classad::print::unparse_value(value)).into_owned()
}

fn passes(truth: &Truth, row: Row) -> bool {
    match truth {
        Truth::Never => false,
        Truth::Always => true,
        Truth::Rows(rows) => rows.get(row as usize),
    }
}

/// Asks everything of both and compares.
fn check(matcher: &Matcher, table: &AdTable, job: &Ad, expr: &Expr) {
    let matches = matcher.matches(table, job);
    let job_side = matcher.job_accepts(table, job);
    let slot_side = matcher.slot_accepts(table, job);
    let by_job = matcher.values(table, expr, Owner::Job, Some(job));
    let by_slot = matcher.values(table, expr, Owner::Slot, Some(job));
    let true_by_slot = matcher.truth(table, expr, Owner::Slot, Some(job));
    let alone = matcher.values(table, expr, Owner::Slot, None);
    let rank = matcher.job_rank(table, job);
    for row in table.rows() {
        let slot = table.ad(row);
        let (mine, theirs) = (context(job, &slot), context(&slot, job));
        let what = || {
            format!(
                "row {row} {slot:?}\njob {job:?}\nexpr {}",
                shown(&Value::list(vec![expr.clone()]))
            )
        };
        assert_eq!(
            passes(&job_side, row),
            matching::accepts(&mine),
            "job side, {}",
            what()
        );
        assert_eq!(
            passes(&slot_side, row),
            matching::accepts(&theirs),
            "slot side, {}",
            what()
        );
        assert_eq!(
            matches.get(row as usize),
            matching::symmetric(&mine),
            "match, {}",
            what()
        );
        assert_eq!(
            shown(by_job.get(row)),
            shown(&classad::evaluate(expr, &mine)),
            "by job, {}",
            what()
        );
        let value = classad::evaluate(expr, &theirs);
        assert_eq!(
            shown(by_slot.get(row)),
            shown(&value),
            "by slot, {}",
            what()
        );
        assert_eq!(
            passes(&true_by_slot, row),
            value.is_true(),
            "truth, {}",
            what()
        );
        let lone = Context {
            target: None,
            ..theirs
        };
        assert_eq!(
            shown(alone.get(row)),
            shown(&classad::evaluate(expr, &lone)),
            "alone, {}",
            what()
        );
        let expected = job
            .get_str("Rank")
            .map(|rank| classad::evaluate(rank, &mine))
            .and_then(|value| value.as_number());
        assert_eq!(
            rank.get(row),
            expected.filter(|rank| !rank.is_nan()),
            "rank, {}",
            what()
        );
    }
    let explained = matcher.explain(table, job);
    assert_eq!(explained.matches, matches.count());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_row_gets_the_plain_answer(
        slots in proptest::collection::vec(ad(), 1..12),
        jobs in proptest::collection::vec(ad(), 1..3),
        expr in expr_text(),
        programs_from in proptest::sample::select(&[1usize, 1, 3, usize::MAX][..]),
        changes in proptest::collection::vec((0usize..14, ad(), 0u8..3), 0..6),
    ) {
        let mut table = AdTable::new();
        for (at, slot) in slots.iter().enumerate() {
            table.upsert(format!("slot{at}").as_bytes(), slot, 0.0).unwrap();
        }
        let expr = parsed(&expr);
        let mut matcher = Matcher::new(SETTINGS).with_programs_from(programs_from);
        matcher.refresh(&table, SETTINGS);
        for job in jobs.iter().chain(&jobs) {
            check(&matcher, &table, job, &expr);
        }
        for (at, ad, how) in &changes {
            let key = format!("slot{at}");
            match how {
                0 => { table.remove(key.as_bytes()); }
                1 => { table.update(key.as_bytes(), ad, &[Name::from("Memory")], 0.0).unwrap(); }
                _ => { table.upsert(key.as_bytes(), ad, 0.0).unwrap(); }
            }
            matcher.refresh(&table, SETTINGS);
            for job in &jobs {
                check(&matcher, &table, job, &expr);
            }
        }
    }
}
