//! The submit description language: from text to cluster ads and, for each job, what differs from its cluster.
//!
//! [`read`] goes through the statements; at each queue statement [`builder`] builds the jobs by the steps in [`basic_attrs`],
//! [`resources`], [`policy`], [`transfer`] and [`requirements`]. The first job of a cluster goes through all steps and
//! becomes the cluster's ad; for the others only those steps run again that touched something that differs from job
//! to job.

pub mod accounting;
pub mod base_ad;
pub mod basic_attrs;
pub mod builder;
pub mod commands;
pub mod credentials;
pub mod env;
pub mod extended;
pub mod glob;
pub mod gpus;
pub mod items;
pub mod job;
pub mod job_set;
pub mod policy;
pub mod program;
pub mod queue;
pub mod read;
pub mod requirements;
pub mod resources;
pub mod scope;
pub mod slice;
pub mod table;
pub mod transfer;
pub mod units;
pub mod universe;
pub mod virtual_machine;

use classad::Ad;

use crate::error::ConfigError;
use crate::source::Source;

/// Knobs as a submission reads them.
pub trait Knobs {
    /// The expanded value; `None` when undefined, empty, or not expandable.
    fn text(&self, name: &str) -> Option<String>;
}

impl Knobs for crate::View<'_> {
    fn text(&self, name: &str) -> Option<String> {
        crate::View::text(self, name).ok().flatten()
    }
}

/// No configuration: every knob is undefined.
#[derive(Clone, Copy, Debug)]
pub struct NoKnobs;

impl Knobs for NoKnobs {
    fn text(&self, _name: &str) -> Option<String> {
        None
    }
}

/// Facts of one submission.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Name of the description, for messages and `$(SUBMIT_FILE)`.
    pub file: String,
    /// Where relative names start.
    pub cwd: String,
    /// Who submits, without domain.
    pub owner: String,
    /// User id of the process that reads the description.
    pub uid: u32,
    /// Seconds since the epoch.
    pub now: i64,
    /// Year, month, day of that, local time.
    pub date: (i64, u32, u32),
    /// ARCH, OPSYS, OPSYSVER, OPSYSANDVER, OPSYSMAJORVER, SPOOL; names in lower case.
    pub macros: Vec<(String, String)>,
    /// Inputs are spooled: jobs wait on hold for them.
    pub spool: bool,
    /// Whether executables and input files must be there.
    pub check_files: bool,
    /// Cluster id of the first cluster, when it is known already; clusters after it count on.
    pub first_cluster: Option<i32>,
    /// Statements that stand before the description.
    pub before: Vec<String>,
    /// Statements that stand before each queue statement.
    pub append: Vec<String>,
    /// Arguments of a queue statement that replaces those of the description.
    pub queue: Option<String>,
    /// Standard input, for a description that reads its items from `-`.
    pub stdin: Option<String>,
    /// The most work that all expansions of macros may do together, in bytes; `None`: it is the sender's own time.
    pub most_work: Option<usize>,
}

/// Jobs of one cluster.
#[derive(Debug, Default)]
pub struct Cluster {
    /// What all jobs share.
    pub ad: Ad,
    /// What the description says about the set of the cluster, whose name is JobSetName.
    pub job_set: Ad,
    /// What each job has of its own, in order; an empty ad when that is nothing.
    pub jobs: Vec<Ad>,
}

/// A description that was read.
#[derive(Debug, Default)]
pub struct Submission {
    /// Clusters in the order of the queue statements.
    pub clusters: Vec<Cluster>,
    /// What looks wrong but can be queued.
    pub warnings: Vec<String>,
    /// Whether `$(Cluster)` was used, so that the ids must be known first.
    pub mentions_cluster: bool,
    /// Limits of late materialization, if the description asks for it.
    pub max_materialize: Option<i64>,
}

/// Reads a description.
///
/// # Errors
/// Everything the language refuses, with line, command and remedy. Nothing is to be queued then.
pub fn parse(
    text: &str,
    facts: &Facts,
    knobs: &dyn Knobs,
    world: &dyn Source,
) -> Result<Submission, ConfigError> {
    read::Reading::new(facts, knobs, world).whole(text)
}

/// Reads a description up to its first queue statement, without making jobs.
///
/// # Errors
/// Everything the language refuses up to there.
pub fn outline(
    text: &str,
    facts: &Facts,
    knobs: &dyn Knobs,
    world: &dyn Source,
) -> Result<read::Outline, ConfigError> {
    read::Reading::new(facts, knobs, world).outline(text)
}
