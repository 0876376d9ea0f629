//! What the language may ask of the world. The crate itself reads no file, runs no command, draws no number.

use std::sync::atomic::{AtomicU64, Ordering};

/// The world as a configuration or a submit description sees it.
pub trait Source {
    /// The text of a file.
    ///
    /// # Errors
    /// A sentence that says why not.
    fn read(&self, path: &str) -> Result<String, String>;

    /// Full paths of the plain files of a directory, in any order.
    ///
    /// # Errors
    /// A sentence that says why not.
    fn list(&self, directory: &str) -> Result<Vec<String>, String>;

    /// What a command prints, and its exit status.
    ///
    /// # Errors
    /// A sentence that says why it could not be run.
    fn run(&self, command: &str) -> Result<(String, i32), String>;

    /// Makes a file, for what `include command into` keeps.
    ///
    /// # Errors
    /// A sentence that says why not.
    fn write(&self, path: &str, _text: &str) -> Result<(), String> {
        Err(format!("{path} is not written here"))
    }

    /// Whether a file can be read.
    fn readable(&self, path: &str) -> bool;

    /// Why a file cannot be a program that is sent to another machine, as the rest of a sentence that begins with its
    /// name; `None` when it can.
    fn program_fault(&self, path: &str) -> Option<String> {
        (!self.readable(path)).then(|| "does not exist or cannot be read".to_owned())
    }

    /// Why a file or directory cannot be sent along as input, as the rest of a sentence that begins with its name;
    /// `None` when it can.
    fn input_fault(&self, _path: &str) -> Option<String> {
        None
    }

    /// An environment variable of whoever reads.
    fn env(&self, name: &str) -> Option<String>;

    /// All environment variables, for `getenv`.
    fn environment(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Names in a directory (hidden ones too), and whether each is a directory itself; empty when it cannot be read.
    fn entries(&self, _directory: &str) -> Vec<(String, bool)> {
        Vec::new()
    }

    /// Bytes of a file, or of all files below a directory; `None` when there is none.
    fn size(&self, _path: &str) -> Option<u64> {
        None
    }

    /// A number below `below` (which is at least 1), for `$RANDOM_CHOICE` and `$RANDOM_INTEGER`.
    fn random(&self, below: u64) -> u64;

    /// Seconds since the epoch, for `time()` in expressions.
    fn now(&self) -> i64 {
        0
    }
}

/// Numbers from a seed: splitmix64. The same seed gives the same numbers.
#[derive(Debug)]
pub struct Seeded(AtomicU64);

impl Seeded {
    /// A sequence of its own for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next number below `below`.
    #[must_use]
    pub fn below(&self, below: u64) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }
}

/// A world of which nothing may be looked at, for descriptions of others: every file is taken to be there, none is read.
#[derive(Debug)]
pub struct Unseen(Seeded);

impl Unseen {
    /// Its random choices come from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Seeded::new(seed))
    }
}

impl Source for Unseen {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("the file {path} is not read here"))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, String> {
        Err(format!("the directory {directory} is not read here"))
    }

    fn run(&self, _command: &str) -> Result<(String, i32), String> {
        Err("commands are not run here".to_owned())
    }

    fn readable(&self, _path: &str) -> bool {
        true
    }

    fn env(&self, _name: &str) -> Option<String> {
        None
    }

    fn random(&self, below: u64) -> u64 {
        self.0.below(below)
    }
}

/// A world with nothing in it, for tests and for text that stands alone.
#[derive(Debug)]
pub struct Nothing(Seeded);

impl Default for Nothing {
    fn default() -> Self {
        Self(Seeded::new(0))
    }
}

impl Source for Nothing {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("there is no file {path}"))
    }
    fn list(&self, directory: &str) -> Result<Vec<String>, String> {
        Err(format!("there is no directory {directory}"))
    }
    fn run(&self, command: &str) -> Result<(String, i32), String> {
        Err(format!("commands are not run here: {command}"))
    }
    fn readable(&self, _path: &str) -> bool {
        false
    }
    fn env(&self, _name: &str) -> Option<String> {
        None
    }
    fn random(&self, below: u64) -> u64 {
        self.0.below(below)
    }
}
