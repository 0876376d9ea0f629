//! Laws that hold for every expression and ad: printing and reading are inverse, folding and residuals keep the
//! value, no text makes the crate panic or run on.

use classad::formats::old::Rules;
use classad::formats::stream::{AdReader, Format, detect};
use classad::print::{pretty_ad, unparse_ad, unparse_value};
use classad::{
    Ad, BinaryOp, Context, Expr, Name, Syntax, UnaryOp, Value, evaluate, fold, parse_ad,
    parse_expr, unparse,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "B", "x", "Memory", "MY", "TARGET", "parent", "s1"]),
        1 => prop::sample::select(vec!["true", "odd name", "q'uote", "back\\slash"]),
    ]
    .prop_map(Name::from)
}

fn plain_name() -> impl Strategy<Value = Name> {
    prop::sample::select(vec!["a", "B", "x", "Memory", "s1", "size"]).prop_map(Name::from)
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Undefined),
        Just(Value::Error),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-5i64..5).prop_map(Value::Int),
        // 15 digits survive printing; HTCondor prints no more than 16.
        (-1_000_000i64..1_000_000).prop_map(|n| Value::Real(n as f64 / 64.0)),
        "[ -~\\n\\t\u{e9}]{0,8}".prop_map(Value::str),
    ]
}

fn binary_op() -> impl Strategy<Value = BinaryOp> {
    use BinaryOp::*;
    prop::sample::select(vec![
        Lt, Le, Eq, Ne, Ge, Gt, Is, Isnt, Add, Sub, Mul, Div, Mod, And, Or, BitAnd, BitOr, BitXor,
        Shl, Shr, Ushr,
    ])
}

/// Trees whose every operation is in parentheses, as only those print without changing shape.
fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        value().prop_map(Expr::Lit),
        name().prop_map(Expr::Attr),
        name().prop_map(Expr::AbsAttr)
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let item = inner.clone();
        prop_oneof![
            (binary_op(), inner.clone(), inner.clone())
                .prop_map(|(op, l, r)| Expr::paren(Expr::binary(op, l, r))),
            (
                prop::sample::select(vec![UnaryOp::Not, UnaryOp::BitNot, UnaryOp::Plus]),
                inner.clone()
            )
                .prop_map(|(op, e)| Expr::paren(Expr::unary(op, e))),
            (inner.clone(), name()).prop_map(|(e, n)| {
                let base = if matches!(e, Expr::Lit(_)) {
                    e
                } else {
                    Expr::paren(e)
                };
                Expr::select(base, n)
            }),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| Expr::Subscript(Arc::new((Expr::paren(a), b)))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Expr::paren(Expr::Elvis(Arc::new((
                Expr::paren(a),
                Expr::paren(b)
            ))))),
            (
                prop::sample::select(vec!["size", "strcat", "ifThenElse", "int", "nosuch"]),
                vec(item.clone(), 0..4)
            )
                .prop_map(|(f, args)| Expr::call(f, args)),
            vec(item.clone(), 0..4).prop_map(|items| Expr::List(items.into())),
            vec((name(), item), 0..4)
                .prop_map(|pairs| Expr::Ad(Arc::new(pairs.into_iter().collect()))),
        ]
    })
}

fn ad() -> impl Strategy<Value = Ad> {
    vec((plain_name(), expr()), 0..6).prop_map(|pairs| pairs.into_iter().collect())
}

fn read_all(text: &[u8], format: Format) -> Vec<Ad> {
    let mut reader = AdReader::new(text, format, Rules::default());
    std::iter::from_fn(|| reader.next_ad())
        .filter_map(Result::ok)
        .collect()
}

/// Texts that look like the language, for the fuzzing laws.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let bits: Vec<&'static [u8]> = vec![
        b"[",
        b"]",
        b"{",
        b"}",
        b"(",
        b")",
        b"\"",
        b"'",
        b"\\",
        b"=",
        b";",
        b",",
        b".",
        b"..",
        b"-",
        b"0x",
        b"1e",
        b"99",
        b"a",
        b"MY",
        b"TARGET.",
        b"eval",
        b"strcat(",
        b"regexp(\"(a+)+$\",",
        b"absTime(\"",
        b"relTime(",
        b" ",
        b"\n",
        b"\n\n",
        b"?",
        b":",
        b"=?=",
        b"||",
        b"&&",
        b"/*",
        b"//",
        b"<c>",
        b"<a n=\"",
        b"</",
        b">",
        b"&amp;",
        b"\\u00",
        b"\xff",
        b"\0",
        b"undefined",
        b"is",
        b"formatTime(1,\"%",
        b"[a=a]",
        b"split(",
    ];
    let piece = prop_oneof![
        8 => prop::sample::select(bits).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..6),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// 600, or as many as PROPTEST_CASES says.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn printing_and_parsing_are_inverse(e in expr()) {
        let text = unparse(&e);
        let again = parse_expr(&text, Syntax::NORMAL);
        prop_assert!(again.is_ok(), "{}", String::from_utf8_lossy(&text));
        prop_assert_eq!(again.ok(), Some(e));
    }

    #[test]
    fn the_text_at_a_node_is_that_node(e in expr(), soup in soup()) {
        for text in [unparse(&e), soup] {
            let Ok((tree, places)) = classad::parse_expr_spanned(&text, Syntax::NORMAL) else { continue };
            prop_assert!(parse_expr(&text, Syntax::NORMAL).is_ok_and(|plain| plain == tree));
            let nodes = classad::spans::nodes(&tree, &places, 0);
            prop_assert_eq!(nodes.len(), places.len());
            for (at, (node, number)) in nodes.into_iter().enumerate() {
                prop_assert_eq!(at, number);
                let span = places.get(number).unwrap_or_default();
                let part = &text[span.start..span.end];
                let again = parse_expr(part, Syntax::NORMAL);
                prop_assert!(again.is_ok_and(|e| e == *node), "{}", String::from_utf8_lossy(part));
            }
        }
    }

    #[test]
    fn every_format_gives_the_ad_back(ad in ad()) {
        let text = unparse_ad(&ad);
        prop_assert_eq!(parse_ad(&text, Syntax::NORMAL).ok().map(|(ad, _)| ad), Some(ad.clone()));
        let pretty = pretty_ad(&ad);
        prop_assert_eq!(parse_ad(&pretty, Syntax::NORMAL).ok().map(|(ad, _)| ad), Some(ad.clone()));
        let expected = if ad.is_empty() { vec![] } else { vec![ad.clone()] };
        let mut json = Vec::new();
        classad::formats::json::write_json(&mut json, &ad, true);
        prop_assert_eq!(read_all(&json, Format::Json), vec![ad.clone()]);
        let mut xml = Vec::new();
        classad::formats::xml::write_xml(&mut xml, &ad, true);
        prop_assert_eq!(read_all(&xml, Format::Xml), vec![ad.clone()]);
        // The old syntax cannot hold every string: no line ends, and a backslash before a quote is an escape.
        if !text.contains(&b'\\') {
            let mut old = Vec::new();
            classad::formats::old::write_old(&mut old, &ad);
            prop_assert_eq!(read_all(&old, Format::Old), expected);
        }
    }

    #[test]
    fn folding_keeps_the_value(e in expr(), my in ad(), target in ad()) {
        let context = Context { my: Some(&my), target: Some(&target), ..Context::default() };
        let value = unparse_value(&evaluate(&e, &context));
        prop_assert_eq!(unparse_value(&evaluate(&fold::fold(&e), &context)), value.clone());
        // Lists and ads come back as written, so only their values would be equal.
        if !matches!(evaluate(&e, &context), Value::List(_) | Value::Ad(_)) {
            let rest = fold::residual(&e, &my);
            prop_assert_eq!(unparse_value(&evaluate(&rest, &context)), value, "{}", classad::unparse_text(&rest));
        }
    }

    #[test]
    fn equal_up_to_case_and_parentheses_means_equal_hash(e in expr()) {
        let shouted = unparse(&Expr::paren(e.clone()));
        if let Ok(other) = parse_expr(&shouted, Syntax::NORMAL) {
            prop_assert_eq!(classad::identity::canonical_hash(&e), classad::identity::canonical_hash(&other));
        }
    }

    #[test]
    fn no_text_breaks_the_reader(text in soup()) {
        for strict in [false, true] {
            let syntax = Syntax { strict, ..Syntax::NORMAL };
            match parse_expr(&text, syntax) {
                Ok(e) => {
                    let printed = unparse(&e);
                    // A second reading settles the shape.
                    if let Ok(second) = parse_expr(&printed, syntax) {
                        prop_assert_eq!(parse_expr(&unparse(&second), syntax).ok(), Some(second));
                    }
                    let _ = evaluate(&e, &Context { strict, ..Context::default() });
                    let _ = classad::analysis::Reads::of(&e);
                }
                Err(error) => {
                    prop_assert!(error.span.start <= text.len());
                    let _ = error.render(&text);
                }
            }
        }
        for format in [Format::Old, Format::New, Format::Json, Format::Xml, detect(&text)] {
            let _ = read_all(&text, format);
            let _ = classad::formats::stream::read_as_reference(&text, Some(format), false);
        }
    }

    #[test]
    fn no_bytes_break_the_reader(text in vec(any::<u8>(), 0..200)) {
        let _ = parse_expr(&text, Syntax::NORMAL);
        let _ = parse_expr(&text, Syntax::OLD);
        for format in [Format::Old, Format::New, Format::Json, Format::Xml] {
            let _ = read_all(&text, format);
        }
    }
}
