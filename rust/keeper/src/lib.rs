//! The keeper: the native half of the starter that looks after one job.
//!
//! A small clean process, the [`zygote`], forks one keeper per job on request, so that a job costs no interpreter
//! start. A keeper runs only the code of this crate. It makes the job's session, joins its cgroup, makes its
//! namespaces, drops to its user, starts it, adopts all its descendants (child subreaper), measures them, obeys the
//! starter's commands, ends the whole family with the job, and leaves the result in the run's control directory.
//! It outlives the starter: what it needs is in its [`spec`], what it found is in files.
//!
//! What to enforce is decided elsewhere; here it is done. Linux only.
//!
//! | File in the control directory | Written by | Content |
//! | --- | --- | --- |
//! | `spec` | starter | what to run, and how ([`spec::Spec`]) |
//! | `keeper.lock` | keeper | locked (POSIX lock) while the keeper lives |
//! | `commands` | starter | FIFO: `soft SIGNAL SECONDS`, `hard`, `suspend`, `continue`, `sample` |
//! | `state` | keeper | `pid=`, `started_at=` once the job runs; `suspended=` |
//! | `usage` | keeper | the newest measurement |
//! | `result` | keeper | how it ended; its presence means that the family is gone |
#![cfg(target_os = "linux")]

pub mod cgroup;
mod child;
mod devices;
pub mod family;
mod keeper;
mod kill;
mod mounts;
mod orphan_cleanup;
mod outcome;
mod process;
mod report;
pub mod scratch;
pub mod shown;
pub mod spec;
mod sys;
mod usage;
mod walk;
mod watch;
pub mod zygote;

pub use child::Program;
pub use keeper::run;
pub use orphan_cleanup::{Swept, holder, sweep};
pub use spec::Spec;
