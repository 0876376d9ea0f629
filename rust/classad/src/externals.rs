//! What a few functions need from outside: user maps, home directories, and somewhere to write the lines of `debug()`.
//!
//! An evaluation asks the externals of its context. A program that has any installs them once, and every context made
//! by default then asks there; this crate itself looks at nothing outside its ads.

use std::sync::OnceLock;

/// What functions need from outside. Without it they return undefined.
pub trait Externals: Sync {
    /// The canonical names `map` gives `input`, comma separated. What looking takes is taken from `steps`.
    fn user_map(&self, map: &[u8], input: &[u8], steps: &mut i64) -> Option<Vec<u8>>;
    /// The home directory of a user.
    fn user_home(&self, user: &[u8]) -> Option<Vec<u8>>;
    /// Takes a line of `debug()`; an implementation that wants none says so in [`Externals::wants_debug`].
    fn debug(&self, _line: &str) {}
    /// Whether the lines of `debug()` are worth making.
    fn wants_debug(&self) -> bool {
        false
    }
    /// A number that changes when the answers do, so that results of the old ones are not kept.
    fn version(&self) -> u64 {
        0
    }
}

static INSTALLED: OnceLock<&'static dyn Externals> = OnceLock::new();

/// Makes `externals` what contexts ask by default. The first call wins.
pub fn install(externals: &'static dyn Externals) {
    let _ = INSTALLED.set(externals);
}

/// What contexts ask by default, if one was installed.
#[must_use]
pub fn installed() -> Option<&'static dyn Externals> {
    INSTALLED.get().copied()
}
