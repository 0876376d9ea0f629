//! Any bytes as ads of a format; what was read is written in all formats and read again.
//!
//! The first byte chooses the format.
#![no_main]

use classad::formats::old::Rules;
use classad::formats::stream::{AdReader, Format, read_as_reference};
use classad::formats::{json, old, xml};
use classad::print::{pretty_ad, unparse_ad};
use classad::{Ad, Syntax, parse_ad};
use libfuzzer_sys::fuzz_target;

const FORMATS: [Format; 4] = [Format::Old, Format::New, Format::Json, Format::Xml];
/// Ads that are written again; more of them find nothing more.
const REWRITTEN: usize = 8;

fn read(text: &[u8], format: Format) -> Vec<Ad> {
    let mut reader = AdReader::new(text, format, Rules::default());
    let mut ads = Vec::new();
    while let Some(ad) = reader.next_ad() {
        ads.extend(ad);
    }
    ads
}

fuzz_target!(|data: &[u8]| {
    let Some((&kind, text)) = data.split_first() else {
        return;
    };
    let format = FORMATS[usize::from(kind & 3)];
    for ad in read(text, format).iter().take(REWRITTEN) {
        let new = unparse_ad(ad);
        if let Ok((again, _)) = parse_ad(&new, Syntax::NORMAL) {
            assert_eq!(again.len(), ad.len());
        }
        let _ = pretty_ad(ad);
        let mut out = Vec::new();
        json::write_json(&mut out, ad, true);
        let _ = read(&out, Format::Json);
        out.clear();
        xml::write_xml(&mut out, ad, false);
        let _ = read(&out, Format::Xml);
        out.clear();
        old::write_old(&mut out, ad);
        let _ = read(&out, Format::Old);
    }
    let _ = read_as_reference(text, (kind & 4 == 0).then_some(format), false);
});
