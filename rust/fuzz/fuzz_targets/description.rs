//! Any text as a submit description, in a world where every file is there and none is read.
#![no_main]

use config::source::Unseen;
use config::submit::{Facts, NoKnobs, outline, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let facts = Facts {
        file: "job.sub".to_owned(),
        cwd: "/home/ann".to_owned(),
        owner: "ann".to_owned(),
        first_cluster: Some(1),
        stdin: Some("a\nb\n".to_owned()),
        most_work: Some(config::expand::MAX_WORK_FOR_OTHERS),
        ..Facts::default()
    };
    let world = Unseen::new(1);
    let _ = outline(text, &facts, &NoKnobs, &world);
    let _ = parse(text, &facts, &NoKnobs, &world);
});
