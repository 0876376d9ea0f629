//! Any bytes as a long stream in the old format, under each set of rules; and where an attribute is defined in it.
#![no_main]

use classad::formats::old::Rules;
use classad::formats::place::definition;
use classad::formats::stream::{AdReader, detect};
use classad::{Name, spans};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    for bits in 0..8_u8 {
        let rules = Rules {
            rules_separate: bits & 1 != 0,
            lenient: bits & 2 != 0,
            strict: bits & 4 != 0,
        };
        let mut reader = AdReader::new(text, detect(text), rules);
        let mut rounds = 0;
        while let Some(ad) = reader.next_ad() {
            // An ad, or an error, takes at least a byte of the text.
            rounds += 1;
            assert!(rounds <= text.len() + 1);
            drop(ad);
        }
    }
    if let Some((expr, places)) = definition(text, &Name::from("Requirements")) {
        for (_, node) in spans::nodes(&expr, &places, 0) {
            let span = places.get(node).expect("every node has a place");
            assert!(span.end <= text.len());
            let _ = span.excerpt(text);
        }
    }
});
