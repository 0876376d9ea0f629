//! Facts of the machine that a few functions ask for, and who answers in this process.
//!
//! An evaluation asks the host of its context. A program that has facts to offer installs them once, and every
//! context made by default then asks there; this crate itself looks at nothing.

use std::sync::OnceLock;

/// Facts of the machine that a few functions ask for. Without one they say undefined.
pub trait Host: Sync {
    /// The canonical names `map` gives `input`, comma separated.
    fn user_map(&self, map: &[u8], input: &[u8]) -> Option<Vec<u8>>;
    /// The home directory of a user.
    fn user_home(&self, user: &[u8]) -> Option<Vec<u8>>;
    /// Takes a line that `debug()` tells; who does not want any says so in [`Host::wants_debug`].
    fn debug(&self, _line: &str) {}
    /// Whether the lines of `debug()` are worth making.
    fn wants_debug(&self) -> bool {
        false
    }
    /// A number that changes when the answers do, so that nobody keeps what followed from the old ones.
    fn version(&self) -> u64 {
        0
    }
}

static INSTALLED: OnceLock<&'static dyn Host> = OnceLock::new();

/// Makes `host` the one that contexts ask by default. The first one stays.
pub fn install(host: &'static dyn Host) {
    let _ = INSTALLED.set(host);
}

/// The host that contexts ask by default, if one was installed.
#[must_use]
pub fn installed() -> Option<&'static dyn Host> {
    INSTALLED.get().copied()
}
