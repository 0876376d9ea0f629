//! Text into a table against the reader of the `classad` crate.

use classad::formats::old::{OldReader, Rules};
use classad::{Ad, Name};
use columns::{AdTable, KeyRule, TableError, TextLoader};
use proptest::prelude::*;
use testkit::{JobSpec, MachineSpec, job_text, slot_text};

fn load(
    text: &[u8],
    key: KeyRule,
    lenient: bool,
    pieces: usize,
) -> Result<(AdTable, usize), TableError> {
    let mut table = AdTable::new();
    let mut loader = TextLoader::new(key, lenient, 0.0);
    for piece in text.chunks(pieces.max(1)) {
        loader.feed(&mut table, piece)?;
    }
    let report = loader.finish(&mut table)?;
    Ok((table, report.ads))
}

fn read(text: &[u8], lenient: bool) -> Vec<Ad> {
    let rules = Rules {
        rules_separate: true,
        lenient,
        strict: false,
    };
    let mut reader = OldReader::new(text, rules);
    std::iter::from_fn(|| reader.next_ad())
        .map_while(Result::ok)
        .collect()
}

#[test]
fn a_pool_and_a_queue_are_read_as_the_reader_reads_them() {
    let spec = MachineSpec {
        claimed_every: 5,
        ..MachineSpec::default()
    };
    let slots: String = (0..300)
        .map(|index| slot_text(&spec, index * 7) + "\n")
        .collect();
    let (table, ads) = load(
        slots.as_bytes(),
        KeyRule::Attribute(Name::from("Name")),
        false,
        1000,
    )
    .unwrap();
    let expected = read(slots.as_bytes(), false);
    assert_eq!((ads, table.len()), (300, 300));
    for (row, ad) in table.rows().zip(&expected) {
        assert_eq!(&table.ad(row), ad);
    }
    let queue: String = (0..50)
        .map(|at| {
            job_text(&JobSpec {
                seed: 3,
                submitter: at % 7,
                autocluster: at / 7,
                proc: at,
                now: 1_800_000_000,
            }) + "\n"
        })
        .collect();
    let (table, _) = load(queue.as_bytes(), KeyRule::Job, false, 4096).unwrap();
    for (row, ad) in table.rows().zip(&read(queue.as_bytes(), false)) {
        assert_eq!(&table.ad(row), ad);
    }
}

fn line() -> impl Strategy<Value = String> {
    let name = proptest::sample::select(
        &[
            "Memory", "memory", " Memory", "Cpus", "Start", "# note", "x y", "",
        ][..],
    );
    let sign = proptest::sample::select(&[" = ", "=", " =  ", "= "][..]);
    let value = prop_oneof![
        Just("12".to_owned()),
        Just("-12".to_owned()),
        Just("012".to_owned()),
        Just("-0".to_owned()),
        Just("-0.0".to_owned()),
        Just("9223372036854775808".to_owned()),
        Just("1.50".to_owned()),
        Just("1.5e3 ".to_owned()),
        Just("true".to_owned()),
        Just("TRUE".to_owned()),
        Just("\"a\\b\"".to_owned()),
        Just("\"a\\\"b\"".to_owned()),
        Just("\"a\" ".to_owned()),
        Just("\"a\" \"b\"".to_owned()),
        Just("\"".to_owned()),
        Just("TARGET.x > 5 && undefined".to_owned()),
        Just("1 trailing".to_owned()),
        Just("{ 1,2 }".to_owned()),
        "[a-z0-9\" .+(-]{0,6}",
    ];
    prop_oneof![
        12 => (name, sign, value, any::<bool>()).prop_map(|(name, sign, value, cr)| format!("{name}{sign}{value}{}", if cr { "\r" } else { "" })),
        2 => Just(String::new()),
        1 => proptest::sample::select(&["-----", "***", "  ", "\t", "no attribute", "-- x"][..]).prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..300), pieces in 1usize..50, lenient in any::<bool>()) {
        let _ = load(&text, KeyRule::Attribute(Name::from("A")), lenient, pieces);
        let lines: Vec<u8> = text.iter().map(|byte| b"A =\n\"1.-\\ "[*byte as usize % 10]).collect();
        let _ = load(&lines, KeyRule::Number, lenient, pieces);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_lines_are_read_alike(lines in proptest::collection::vec(line(), 0..20), pieces in 1usize..40, lenient in any::<bool>()) {
        let text = lines.join("\n");
        let expected = read(text.as_bytes(), lenient);
        let found = load(text.as_bytes(), KeyRule::Number, lenient, pieces);
        if let Ok((table, _)) = found {
            let ads: Vec<Ad> = table.rows().map(|row| table.ad(row)).collect();
            if lenient {
                // The reader stops at an ad whose first line is bad; the loader goes on behind it.
                prop_assert!(ads.len() >= expected.len());
                prop_assert_eq!(&ads[..expected.len()], &expected[..]);
            } else {
                prop_assert_eq!(ads, expected);
            }
        } else {
            prop_assert!(!lenient);
            let rules = Rules { rules_separate: true, lenient, strict: false };
            let mut reader = OldReader::new(text.as_bytes(), rules);
            prop_assert!(std::iter::from_fn(|| reader.next_ad()).any(|ad| ad.is_err()));
        }
    }
}
