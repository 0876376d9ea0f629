//! Where submit macros get their values: the description, loop variables of the queue statement, automatic
//! variables of the job being made, and a few defaults. Notes which of them vary from job to job.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;

use crate::scope::Scope;
use crate::set::MacroSet;
use crate::source::Source;

/// Variables of the job being made.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Cluster id; text, so that it may be a placeholder.
    pub cluster: String,
    /// Number of the job in its cluster.
    pub process: u32,
    /// Position of the item in its list.
    pub row: u32,
    /// Number of the job within its item.
    pub step: u32,
    /// What `$(Node)` stands for.
    pub node: &'static str,
    /// Loop variables in lower case, with their values.
    pub items: Vec<(String, String)>,
}

/// What a lookup touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// Something that differs from job to job.
    pub job: Cell<bool>,
    /// The cluster id.
    pub cluster: Cell<bool>,
}

/// Facts that are defaults of macros.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Name of the description, for `$(SUBMIT_FILE)`.
    pub file: String,
    /// Seconds since the epoch, for `$(SUBMIT_TIME)`.
    pub now: i64,
    /// Year, month and day, local time.
    pub date: (i64, u32, u32),
    /// ARCH, OPSYS and the like, in lower case.
    pub macros: Vec<(String, String)>,
}

/// Lookups for one job.
pub struct SubmitScope<'a> {
    /// The description so far.
    pub set: &'a MacroSet,
    /// Variables of the job.
    pub live: &'a Live,
    /// Facts.
    pub given: &'a Given,
    /// The world.
    pub world: &'a dyn Source,
    /// Bytes of work that are left for all expansions.
    pub work: &'a Cell<usize>,
    /// Directory of the job, once known.
    pub iwd: &'a str,
    /// What was touched.
    pub touched: &'a Touched,
    /// Names that were used, in lower case, for the warning about unused ones.
    pub used: &'a std::cell::RefCell<rustc_hash::FxHashSet<String>>,
    /// Names of references that have no value, as they are written, for the warning about them.
    pub missing: &'a std::cell::RefCell<BTreeSet<String>>,
}

impl SubmitScope<'_> {
    fn touch(&self) {
        self.touched.job.set(true);
    }

    fn automatic(&self, name: &str) -> Option<Cow<'_, str>> {
        let given = self.given;
        Some(match name {
            "cluster" | "clusterid" => {
                self.touched.cluster.set(true);
                self.live.cluster.as_str().into()
            }
            "process" | "procid" => {
                self.touch();
                self.live.process.to_string().into()
            }
            "row" | "itemindex" => {
                self.touch();
                self.live.row.to_string().into()
            }
            "step" => {
                self.touch();
                self.live.step.to_string().into()
            }
            "node" => self.live.node.into(),
            "taskid" => "0".into(),
            "jobid" => "$(ClusterId).$(ProcId)".into(),
            "joblistid" => "$(ClusterId)".into(),
            "request_cpus" => "$(RequestCPUs)".into(),
            "vm_vcpus" => "$(Request_CPUs)".into(),
            "request_memory" => "$(RequestMemory)".into(),
            "vm_memory" => "$(Request_Memory)".into(),
            "submit_file" => given.file.as_str().into(),
            "submit_time" => given.now.to_string().into(),
            "year" => given.date.0.to_string().into(),
            "month" => format!("{:02}", given.date.1).into(),
            "day" => format!("{:02}", given.date.2).into(),
            "islinux" => "true".into(),
            "iswindows" => "false".into(),
            _ => given
                .macros
                .iter()
                .find(|(known, _)| known == name)?
                .1
                .as_str()
                .into(),
        })
    }

    fn mark_used(&self, lower: &str) {
        if !self.used.borrow().contains(lower) {
            self.used.borrow_mut().insert(lower.to_owned());
        }
    }
}

impl Scope for SubmitScope<'_> {
    fn raw(&self, name: &str) -> Option<Cow<'_, str>> {
        let lower = crate::knobs::folded(name);
        if let Some((_, value)) = self.live.items.iter().find(|(known, _)| *known == *lower) {
            self.touch();
            self.mark_used(&lower);
            return Some(value.as_str().into());
        }
        if let Some(entry) = self.set.get(&lower) {
            self.mark_used(&lower);
            return Some((&*entry.raw).into());
        }
        self.automatic(&lower)
    }

    fn missing(&self, name: &str) {
        if !matches!(
            crate::knobs::folded(name).as_ref(),
            "requestcpus" | "requestmemory"
        ) {
            self.missing.borrow_mut().insert(name.to_owned());
        }
    }

    fn source(&self) -> &dyn Source {
        self
    }

    fn cwd(&self) -> Option<&str> {
        Some(self.iwd)
    }

    fn spend(&self, bytes: usize) -> bool {
        let left = self.work.get();
        self.work.set(left.saturating_sub(bytes));
        bytes <= left
    }
}

impl Source for SubmitScope<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        self.world.read(path)
    }
    fn list(&self, directory: &str) -> Result<Vec<String>, String> {
        self.world.list(directory)
    }
    fn run(&self, command: &str) -> Result<(String, i32), String> {
        self.world.run(command)
    }
    fn write(&self, path: &str, text: &str) -> Result<(), String> {
        self.world.write(path, text)
    }
    fn readable(&self, path: &str) -> bool {
        self.world.readable(path)
    }
    fn program_fault(&self, path: &str) -> Option<String> {
        self.world.program_fault(path)
    }
    fn env(&self, name: &str) -> Option<String> {
        self.world.env(name)
    }
    fn environment(&self) -> Vec<(String, String)> {
        self.world.environment()
    }
    fn random(&self, below: u64) -> u64 {
        self.touch();
        self.world.random(below)
    }
    fn now(&self) -> i64 {
        self.world.now()
    }
    fn entries(&self, directory: &str) -> Vec<(String, bool)> {
        self.world.entries(directory)
    }
    fn size(&self, path: &str) -> Option<u64> {
        self.world.size(path)
    }
}
