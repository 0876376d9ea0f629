//! What evaluation may know besides the ads.

use classad::builtins::Env;
use classad::{Ad, Context, Externals};

/// What evaluation may know besides the ads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvalSettings {
    /// Seconds since the epoch.
    pub now: i64,
    /// Seconds local time is east of UTC.
    pub utc_offset_s: i32,
    /// Seed of `random()`.
    pub seed: u64,
    /// STRICT_CLASSAD_EVALUATION.
    pub strict: bool,
    /// Who answers `userMap()` and the like.
    pub externals: ExternalsRef,
}

/// Facts of the machine for the few functions that ask for them, or nobody to ask.
#[derive(Clone, Copy)]
pub struct ExternalsRef(pub Option<&'static dyn Externals>);

impl ExternalsRef {
    pub(crate) fn version(self) -> u64 {
        self.0.map_or(0, Externals::version)
    }
}

impl Default for ExternalsRef {
    /// The externals that this process has installed.
    fn default() -> Self {
        Self(classad::externals::installed())
    }
}

impl std::fmt::Debug for ExternalsRef {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if self.0.is_some() {
            "HostRef(Some)"
        } else {
            "HostRef(None)"
        })
    }
}

impl PartialEq for ExternalsRef {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_some() == other.0.is_some()
    }
}

impl EvalSettings {
    pub(crate) fn env(&self) -> Env {
        Env {
            now: self.now,
            utc_offset_s: self.utc_offset_s,
        }
    }

    pub(crate) fn context<'a>(&self, my: Option<&'a Ad>, target: Option<&'a Ad>) -> Context<'a> {
        Context {
            my,
            target,
            now: self.now,
            utc_offset_s: self.utc_offset_s,
            seed: self.seed,
            strict: self.strict,
            externals: self
                .externals
                .0
                .map(|externals| externals as &dyn Externals),
        }
    }
}
