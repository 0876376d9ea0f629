//! Any bytes as a batch of ads on the wire: read, surveyed, divided and written again.
#![no_main]

use classad::Name;
use columns::{PackHeader, PackWriter, PackedOp, split, survey, unpack};
use libfuzzer_sys::fuzz_target;

fn written(header: PackHeader, operations: &[PackedOp]) -> Vec<u8> {
    let mut writer = PackWriter::new(header);
    for operation in operations {
        match operation {
            PackedOp::Full(Some(key), ad) => writer.upsert(key, ad),
            PackedOp::Full(None, ad) => writer.ad(ad),
            PackedOp::Delta(key, changed, removed) => writer.update(key, changed, removed),
            PackedOp::Remove(key) => writer.remove(key),
        }
    }
    writer.finish()
}

fuzz_target!(|data: &[u8]| {
    let surveyed = survey(data, &[Name::new(b"Owner"), Name::new(b"Requirements")]);
    let Ok((header, operations)) = unpack(data) else {
        return;
    };
    let surveyed = surveyed.expect("what can be read can be surveyed");
    let ads = operations.iter();
    let ads = ads
        .filter(|one| !matches!(one, PackedOp::Remove(_)))
        .count();
    assert_eq!(surveyed.ads(), ads);
    let again = written(header, &operations);
    let (_, same) = unpack(&again).expect("what was written can be read");
    assert_eq!(same.len(), operations.len());
    // `- 1` is written `-1`, which is read as a number: each round may fold one sign, and then nothing changes
    let mut last = again;
    for _ in data {
        let (_, same) = unpack(&last).expect("what was written again can be read");
        let next = written(header, &same);
        if next == last {
            break;
        }
        last = next;
    }
    let (_, same) = unpack(&last).expect("what was written again can be read");
    assert_eq!(written(header, &same), last);
    for piece in split(data, 64).expect("what can be read can be divided") {
        unpack(&piece).expect("a piece can be read");
    }
});
