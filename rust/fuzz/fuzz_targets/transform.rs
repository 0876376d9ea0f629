//! Any text as a transform, applied to an ad; what iterates makes several.
#![no_main]

use classad::{Syntax, parse_ad};
use config::source::Unseen;
use config::transform::{Outcome, Rules, Surroundings, Variables, apply, rows};
use libfuzzer_sys::fuzz_target;

const AD: &[u8] = br#"[ ClusterId = 1; ProcId = 0; Owner = "ann"; RequestMemory = 100; Args = "a b"; Rank = RequestMemory * 2 ]"#;
/// Rows that are applied; more of them find nothing more.
const ROWS: usize = 8;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(rules) = Rules::parse("rules", text) else {
        return;
    };
    let around = Surroundings {
        knobs: None,
        world: &Unseen::new(1),
        now: 1,
        utc_offset_s: 0,
        seed: 1,
        given: Vec::new(),
    };
    let (ad, _) = parse_ad(AD, Syntax::NORMAL).expect("it is an ad");
    let mut variables = Variables::default();
    let Ok(made) = rows(&rules, &variables, &around) else {
        return;
    };
    for iteration in made.iter().take(ROWS) {
        let (mut changed, mut outcome) = (ad.clone(), Outcome::default());
        let _ = apply(
            &rules,
            &mut changed,
            &mut variables,
            iteration,
            &around,
            &mut outcome,
            true,
        );
    }
});
