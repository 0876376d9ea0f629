//! The result of a run, as it is left in the control directory.

use std::fmt::Write;
use std::io;
use std::path::Path;

use crate::report::Stage;
use crate::sys;
use crate::usage::Usage;

/// Who ended the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndedBy {
    /// The job itself.
    #[default]
    Itself,
    /// A soft kill; the job left in time.
    Soft,
    /// A hard kill.
    Hard,
    /// The lease ran out: neither starter nor startd were there.
    Lease,
    /// The kernel or the keeper, for want of memory.
    Memory,
}

impl EndedBy {
    fn name(self) -> &'static str {
        match self {
            EndedBy::Itself => "itself",
            EndedBy::Soft => "soft",
            EndedBy::Hard => "hard",
            EndedBy::Lease => "lease",
            EndedBy::Memory => "memory",
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Stage and error number of a start that failed.
    pub failed: Option<(Stage, i32)>,
    /// More about that failure.
    pub detail: String,
    /// Wait status of the job.
    pub status: Option<i32>,
    /// Who ended it.
    pub ended_by: EndedBy,
    /// Processes the kernel killed for want of memory.
    pub oom_kills: u64,
    /// When the job began to run, epoch seconds; 0 = never.
    pub started_at: f64,
    /// Limits that the kernel refused.
    pub unenforced: Vec<String>,
    /// Processes or groups that could not be ended.
    pub leftovers: bool,
    /// What it used.
    pub usage: Usage,
}

impl Outcome {
    /// Writes the result in one step. After this the run is over.
    ///
    /// # Errors
    /// When the file system refuses it.
    pub fn save(&self, control: &Path) -> io::Result<()> {
        sys::replace_file(&control.join("result"), &self.lines())
    }

    fn lines(&self) -> String {
        let mut text = String::with_capacity(400);
        match (self.failed, self.status) {
            (Some((stage, errno)), _) => {
                let _ = writeln!(text, "how=failed\nstage={}\nerrno={errno}", stage.name());
                if !self.detail.is_empty() {
                    let _ = writeln!(text, "detail={}", self.detail.replace('\n', " "));
                }
            }
            (None, Some(status)) if libc::WIFEXITED(status) => {
                let _ = writeln!(text, "how=exited\ncode={}", libc::WEXITSTATUS(status));
            }
            (None, Some(status)) => {
                let core = u8::from(libc::WCOREDUMP(status));
                let _ = writeln!(
                    text,
                    "how=signaled\ncode={}\ncore={core}",
                    libc::WTERMSIG(status)
                );
            }
            (None, None) => text.push_str("how=lost\n"),
        }
        let _ = write!(
            text,
            "ended_by={}\noom_kills={}\nstarted_at={:.6}\nended_at={:.6}\nleftovers={}\n",
            self.ended_by.name(),
            self.oom_kills,
            self.started_at,
            sys::epoch_s(),
            u8::from(self.leftovers),
        );
        for limit in &self.unenforced {
            let _ = writeln!(text, "unenforced={limit}");
        }
        text.push_str(&self.usage.lines());
        text
    }
}
