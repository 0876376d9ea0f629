//! HTCondor's recorded evaluations through the column engine: the same as the plain evaluator's.

use std::path::Path;

use classad::{Ad, Context, Expr, Syntax, Value, parse_ad, parse_expr};
use columns::{AdTable, EvalSettings, Matcher, Owner};

/// The string after `"key":` in a line of JSON; none for null or without the key.
fn field(line: &str, key: &str) -> Option<String> {
    let start = line.find(&format!("\"{key}\":"))? + key.len() + 3;
    let mut chars = line[start..].trim_start().chars();
    if chars.next() != Some('"') {
        return None;
    }
    let mut out = String::new();
    loop {
        match chars.next()? {
            '"' => return Some(out),
            '\\' => match chars.next()? {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'b' => out.push('\u{8}'),
                'f' => out.push('\u{c}'),
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    out.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
}

fn ad(text: Option<String>) -> Ad {
    let parsed = text.and_then(|text| parse_ad(text.as_bytes(), Syntax::NORMAL).ok());
    parsed.map(|(ad, _)| ad).unwrap_or_default()
}

fn shown(value: &Value) -> String {
    String::from_utf8_lossy(&classad::print::unparse_value(value)).into_owned()
}

#[test]
fn recorded_evaluations_come_out_alike() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/classad-sample.jsonl");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut cases = 0;
    for line in text.lines() {
        let Some(source) = field(line, "expr") else {
            continue;
        };
        let Ok(expr) = parse_expr(source.as_bytes(), Syntax::NORMAL) else {
            continue;
        };
        let settings = EvalSettings {
            now: 1_700_000_000,
            strict: line.contains("\"mode\":\"strict\""),
            ..EvalSettings::default()
        };
        let (my, target) = (ad(field(line, "my")), ad(field(line, "target")));
        cases += 1;
        for (slot, job, owner) in [(&target, &my, Owner::Job), (&my, &target, Owner::Slot)] {
            let mut table = AdTable::new();
            let mut other = slot.clone();
            other.set("Padding", Expr::Lit(Value::Int(1)));
            table.upsert(b"a", slot, 0.0).unwrap();
            table.upsert(b"b", &other, 0.0).unwrap();
            for from in [1, usize::MAX] {
                let mut matcher = Matcher::new(settings).with_programs_from(from);
                matcher.refresh(&table, settings);
                let values = matcher.values(&table, &expr, owner, Some(job));
                let truth = matcher.rows_where(&table, &expr, owner, Some(job));
                for row in table.rows() {
                    let slot = table.ad(row);
                    let (my, target) = if owner == Owner::Job {
                        (job, &slot)
                    } else {
                        (&slot, job)
                    };
                    let context = Context {
                        my: Some(my),
                        target: Some(target),
                        now: settings.now,
                        strict: settings.strict,
                        ..Context::default()
                    };
                    let expected = classad::evaluate(&expr, &context);
                    assert_eq!(shown(values.get(row)), shown(&expected), "{line}");
                    assert_eq!(truth.get(row as usize), expected.is_true(), "{line}");
                }
            }
        }
    }
    assert!(cases > 2000, "only {cases} cases were found");
}
