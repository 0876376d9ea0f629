//! Any bytes as the specification of a run that a keeper reads.
#![no_main]

use keeper::spec::Spec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(spec) = Spec::parse(data) {
        let _ = spec.dedicated_uid();
    }
});
