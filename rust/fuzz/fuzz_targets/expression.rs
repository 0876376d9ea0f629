//! Any bytes as an expression: parse, print, evaluate, fold, and the places of its nodes.
//!
//! The first byte chooses the dialect. Behind the last `\0` stands the ad the expression is evaluated in.
#![no_main]

use classad::analysis::{Reads, reads_in};
use classad::identity::canonical_hash;
use classad::{
    Ad, Context, Syntax, evaluate, fold, parse_ad, parse_expr, parse_expr_spanned, spans, unparse,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    let (text, context_text) = match rest.iter().rposition(|b| *b == 0) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &b""[..]),
    };
    let syntax = Syntax {
        strict: kind & 1 != 0,
        old_strings: kind & 2 != 0,
        closed_comments: kind & 4 != 0,
        ..Syntax::NORMAL
    };
    let parsed = match parse_expr_spanned(text, syntax) {
        Ok(parsed) => parsed,
        Err(error) => {
            assert!(error.span.start <= text.len());
            let _ = error.render(text);
            return;
        }
    };
    let (expr, places) = parsed;
    for (_, node) in spans::nodes(&expr, &places, 0) {
        let span = places.get(node).expect("every node has a place");
        assert!(span.start <= span.end && span.end <= text.len());
    }
    let printed = unparse(&expr);
    if let Ok(second) = parse_expr(&printed, Syntax::NORMAL) {
        // Equal trees are too much to ask: the 16 digits of a real may round it to infinity.
        assert!(parse_expr(&unparse(&second), Syntax::NORMAL).is_ok());
    }
    let my = parse_ad(context_text, Syntax::NORMAL).map_or_else(|_| Ad::new(), |(ad, _)| ad);
    for target in [None, Some(&my)] {
        let context = Context {
            my: Some(&my),
            target,
            now: 1_700_000_000,
            seed: 1,
            strict: syntax.strict,
            ..Context::default()
        };
        let _ = evaluate(&expr, &context);
    }
    let _ = (Reads::of(&expr), reads_in(&expr, &my));
    let _ = (
        canonical_hash(&expr),
        fold::fold(&expr),
        fold::residual(&expr, &my),
    );
});
