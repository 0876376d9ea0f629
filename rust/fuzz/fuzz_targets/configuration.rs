//! Any text as a configuration file, and every knob in it expanded.
#![no_main]

use config::source::Source;
use config::{Reader, Request, Seeded, load};
use libfuzzer_sys::fuzz_target;

/// A world of one file, which includes may name.
struct OneFile<'a>(&'a str, Seeded);

impl Source for OneFile<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        if path == "/etc/condor_config" {
            Ok(self.0.to_owned())
        } else {
            Err(format!("there is no file {path}"))
        }
    }
    fn list(&self, _directory: &str) -> Result<Vec<String>, String> {
        Ok(vec!["/etc/condor_config".to_owned()])
    }
    fn run(&self, _command: &str) -> Result<(String, i32), String> {
        Ok(("A = 1\n".to_owned(), 0))
    }
    fn readable(&self, _path: &str) -> bool {
        true
    }
    fn env(&self, _name: &str) -> Option<String> {
        None
    }
    fn random(&self, below: u64) -> u64 {
        self.1.below(below)
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let world = OneFile(text, Seeded::new(1));
    let mut reader = Reader::new(&world);
    let request = Request {
        root: Some("/etc/condor_config".to_owned()),
        ..Request::default()
    };
    let _ = load(&mut reader, &request);
    let entries = reader.set.entries().iter();
    let names: Vec<String> = entries.map(|entry| entry.name.to_string()).collect();
    for name in names {
        let _ = reader.value(&name);
    }
});
