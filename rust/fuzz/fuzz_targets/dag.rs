//! Any text as a DAG file, which may include and splice itself; as a header; and as a rescue file of what was read.
#![no_main]

use dag::{Fault, Files, Options, read, read_header, read_rescue};
use libfuzzer_sys::fuzz_target;

/// A world in which each DAG file has the same text, and submit files none.
struct Same<'a>(&'a str);

impl Files for Same<'_> {
    fn read(&self, path: &str, most: u64) -> Result<String, Fault> {
        if !path.ends_with(".dag") {
            return Err(Fault::Missing);
        }
        if self.0.len() as u64 > most {
            return Err(Fault::TooLarge);
        }
        Ok(self.0.to_owned())
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let options = Options::default();
    let _ = read_header("a.dag", text, &options);
    let files = Same(text);
    let outcome = read(&files, &["/a.dag".to_owned()], &options);
    let _ = read_rescue(outcome.graph, "a.dag.rescue001", text, &options);
    let _ = read(
        &files,
        &["/a.dag".to_owned(), "/b.dag".to_owned()],
        &options,
    );
});
