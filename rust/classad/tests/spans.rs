//! Places of nodes, by example; the law is in `laws.rs`.

use classad::formats::place::definition;
use classad::{Name, Span, Syntax, parse_expr_spanned, spans};

fn texts(text: &str) -> Vec<&str> {
    let (tree, places) = parse_expr_spanned(text.as_bytes(), Syntax::NORMAL).expect("it parses");
    spans::nodes(&tree, &places, 0)
        .into_iter()
        .map(|(_, node)| {
            let span = places.get(node).expect("every node has a place");
            &text[span.start..span.end]
        })
        .collect()
}

#[test]
fn nodes_come_in_pre_order() {
    assert_eq!(
        texts(" a + f(b, (c)) * -2 "),
        [
            "a + f(b, (c)) * -2",
            "a",
            "f(b, (c)) * -2",
            "f(b, (c))",
            "b",
            "(c)",
            "c",
            "-2"
        ]
    );
    assert_eq!(
        texts("x.y[1] ?: {2}"),
        ["x.y[1] ?: {2}", "x.y[1]", "x.y", "x", "1", "{2}", "2"]
    );
}

#[test]
fn the_last_of_equal_attributes_counts() {
    assert_eq!(
        texts("[ a = 1 + 1; b = 2; A = x.y; ]"),
        ["[ a = 1 + 1; b = 2; A = x.y; ]", "x.y", "x", "2"]
    );
}

#[test]
fn a_time_literal_is_one_node() {
    assert_eq!(
        texts("1 + relTime(\"1:00\")"),
        ["1 + relTime(\"1:00\")", "1", "relTime(\"1:00\")"]
    );
}

#[test]
fn clauses_keep_their_parentheses() {
    let text = "a && (b || c) && ((d && e))";
    let (tree, places) = parse_expr_spanned(text.as_bytes(), Syntax::NORMAL).expect("it parses");
    let clauses: Vec<&str> = spans::conjuncts(&tree, &places, 0)
        .into_iter()
        .filter_map(|(_, node)| places.get(node))
        .map(|span| &text[span.start..span.end])
        .collect();
    assert_eq!(clauses, ["a", "(b || c)", "d", "e"]);
}

fn defined(text: &str) -> Option<&str> {
    let (_, places) = definition(text.as_bytes(), &Name::from("requirements"))?;
    places.get(0).map(|span| &text[span.start..span.end])
}

#[test]
fn an_attribute_is_found_in_the_text_of_its_ad() {
    assert_eq!(
        defined("A = 1\nRequirements =  x > 1 \nB = 2\n\nRequirements = 7"),
        Some("x > 1")
    );
    assert_eq!(
        defined("// c\n[ a = 1;\n Requirements = x\n > 1 ]"),
        Some("x\n > 1")
    );
    assert_eq!(defined("{ [ a = 1; Requirements = y ] }"), Some("y"));
    assert_eq!(defined("a = 1"), None);
    assert_eq!(defined("{\"Requirements\": 1}"), None);
}

#[test]
fn an_excerpt_shows_line_and_place() {
    let text = "first\n\tb\u{e9} && c\n";
    let span = Span { start: 7, end: 10 };
    assert_eq!(span.excerpt(text.as_bytes()), "   b\u{e9} && c\n   ^^");
    assert_eq!(span.line_column(text.as_bytes()), (2, 2));
}
