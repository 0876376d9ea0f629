//! The files of a DAG into a graph, in HTCondor's two passes.
//!
//! HTCondor stops at the first error. Here reading goes on, so that all of them are known; the first is HTCondor's
//! first, in its words.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::command::{self, Command, Description, NodeCommand, Word};
use crate::files::{Files, absolute, below};
use crate::graph::{Dot, Graph, Kind, Node, NodeId, Script, StatusFile, Tolerance, Var, WEAK};
use crate::limits;
use crate::lines::Lines;
use crate::names::NONE;
use crate::words::{Words, is};

mod apply;
mod relate;

/// How files are read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the DAG's job runs; an absolute path.
    pub directory: String,
    /// Whether each file is read, and its nodes run, in the file's own directory (-usedagdir).
    pub use_dag_dir: bool,
    /// Whether nodes of several files get the number of theirs (DAGMAN_MUNGE_NODE_NAMES).
    pub munge: bool,
    /// Whether names may have a `+` (DAGMAN_ALLOW_ANY_NODE_NAME_CHARACTERS).
    pub any_name: bool,
    /// Whether nodes are put between many parents and many children (DAGMAN_USE_JOIN_NODES).
    pub join: bool,
    /// Whether VARS come behind the description unless they say otherwise (DAGMAN_DEFAULT_APPEND_VARS).
    pub append_vars: bool,
    /// DAGMAN_USE_STRICT: warnings of this level and below are errors.
    pub strict: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            directory: "/".to_owned(),
            use_dag_dir: false,
            munge: true,
            any_name: false,
            join: true,
            append_vars: false,
            strict: 1,
        }
    }
}

/// Whether a DAG with a problem runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It does not.
    Error,
    /// It does.
    Warning,
}

/// What is wrong with a DAG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The file, as it was named.
    pub file: String,
    /// The command's last line; 0 for the file as a whole.
    pub line: u32,
    /// What, in a sentence.
    pub text: String,
    /// What to do about it; "" where that is plain.
    pub hint: String,
    /// What HTCondor writes into its log, line by line.
    pub log: Vec<String>,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The DAG, as far as it could be read.
    pub graph: Graph,
    /// What is wrong with it, in the order in which HTCondor would meet it; the first [`limits::PROBLEMS`]
    /// errors and as many warnings.
    pub problems: Vec<Problem>,
    /// Errors that are not among them.
    pub more: usize,
}

impl Outcome {
    /// Whether the DAG can be run.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.more == 0 && !self.problems.iter().any(|p| p.severity == Severity::Error)
    }
}

/// Reads the files of a DAG, as they were named on the command line.
#[must_use]
pub fn read(files: &dyn Files, paths: &[String], options: &Options) -> Outcome {
    let mut reader = Reader::new(files, options);
    let several = paths.len() > 1;
    for (number, path) in paths.iter().enumerate() {
        reader.munge = if several && options.munge {
            format!("{number}.")
        } else {
            String::new()
        };
        reader.primary.clone_from(path);
        reader.file(path, 0);
    }
    reader.end()
}

/// What one file says about its DAG's job (CONFIG, SET_JOB_ATTR, ENV), as condor_submit_dag reads it: other commands,
/// splices and included files are passed over. `label`: the file's name in messages. The first problem ends it.
#[must_use]
pub fn read_header(label: &str, text: &str, options: &Options) -> Outcome {
    let mut reader = Reader::new(&NoFiles, options);
    label.clone_into(&mut reader.primary);
    label.clone_into(&mut reader.label);
    let mut lines = Lines::new(text);
    while let Some(line) = lines.next() {
        reader.line = line.number;
        let mut words = Words::new(&line.text);
        let written = words.word();
        let Some((word, weak)) = Word::of(&written) else {
            reader.unknown(&written);
            break;
        };
        let of_job = matches!(word, Word::Config | Word::SetJobAttr | Word::Env);
        if !of_job && !word.may_be_long() {
            continue;
        }
        let parsed = command::parse(word, weak, words.remain(), &mut lines, true);
        match parsed {
            _ if !of_job => {} // its inline description has been passed over
            Ok(command) => reader.setting(command, 0),
            Err(text) => {
                reader.misread(Some(word), &text, String::new());
                break;
            }
        }
    }
    reader.out
}

/// Nothing to read.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &str, _: u64) -> Result<String, crate::Fault> {
        Err(crate::Fault::Missing)
    }
}

/// Carries out the commands of a rescue file, which names nodes by their full names.
///
/// The problems are those of this file alone.
#[must_use]
pub fn read_rescue(graph: Graph, label: &str, text: &str, options: &Options) -> Outcome {
    let mut reader = Reader::new(&NoFiles, options);
    reader.out.graph = graph;
    reader.lifted = true;
    label.clone_into(&mut reader.primary);
    label.clone_into(&mut reader.label);
    reader.pass(text, 0, false);
    reader.out
}

/// A level of files: the DAG's own, or a splice's.
#[derive(Default)]
struct Scope {
    /// What stands before the names of its nodes.
    prefix: String,
    /// DIR of the splices on the way, for its nodes.
    node_directory: String,
    /// Where its files are read; absolute.
    directory: String,
    depth: usize,
    nodes: Vec<NodeId>,
    /// Its splices by name: their scopes.
    splices: BTreeMap<String, usize>,
    /// Nodes without parents, and without children, when its file had been read.
    first: Vec<NodeId>,
    last: Vec<NodeId>,
    /// Nodes of each pin, in and out.
    pins: [Vec<Vec<NodeId>>; 2],
    has_final: bool,
}

/// Why reading cannot go on.
struct Stop;

type Step = Result<(), Stop>;

struct Reader<'f> {
    files: &'f dyn Files,
    options: &'f Options,
    out: Outcome,
    scopes: Vec<Scope>,
    /// Files that are being read, by absolute path.
    open: FxHashSet<String>,
    /// What the files on the way say when the one within fails, from the outside in.
    frames: Vec<Vec<String>>,
    /// The file on the command line that is being read.
    primary: String,
    munge: String,
    /// Names are full ones, of nodes at any level.
    lifted: bool,
    label: String,
    line: u32,
    read: usize,
    bytes: u64,
    joined: usize,
    inline: usize,
    /// The level that has set a category's throttle.
    throttled: FxHashMap<u32, usize>,
    throttle_at: FxHashMap<u32, usize>,
    /// Descriptions in the files, by name.
    described: FxHashMap<u32, u32>,
    /// Errors and warnings that are kept.
    kept: [usize; 2],
    stopped: bool,
}

impl<'f> Reader<'f> {
    fn new(files: &'f dyn Files, options: &'f Options) -> Self {
        let root = Scope {
            directory: options.directory.clone(),
            ..Scope::default()
        };
        Self {
            files,
            options,
            out: Outcome::default(),
            scopes: vec![root],
            open: FxHashSet::default(),
            frames: Vec::new(),
            primary: String::new(),
            munge: String::new(),
            lifted: false,
            label: String::new(),
            line: 0,
            read: 0,
            bytes: 0,
            joined: 0,
            inline: 0,
            throttled: FxHashMap::default(),
            throttle_at: FxHashMap::default(),
            described: FxHashMap::default(),
            kept: [0, 0],
            stopped: false,
        }
    }

    fn end(mut self) -> Outcome {
        self.leave(0);
        let root = &mut self.scopes[0];
        self.out.graph.order = std::mem::take(&mut root.nodes);
        self.out.graph.finish();
        self.out
    }

    // ---------------------------------------------------------------------------------------------- problems

    fn problem(&mut self, severity: Severity, text: String, hint: String, log: Vec<String>) {
        let kept = &mut self.kept[usize::from(severity == Severity::Warning)];
        if *kept >= limits::PROBLEMS {
            self.out.more += usize::from(severity == Severity::Error);
            return;
        }
        *kept += 1;
        let plain = ["Warning: ", "WARNING: ", "ERROR: ", "Error: "]
            .iter()
            .find_map(|word| text.strip_prefix(word));
        let text = plain.map_or_else(|| text.clone(), str::to_owned);
        self.out.problems.push(Problem {
            severity,
            file: self.label.clone(),
            line: self.line,
            text,
            hint,
            log,
        });
    }

    /// An error of the text, in the words of [`command::parse`].
    fn misread(&mut self, word: Option<Word>, text: &str, hint: String) {
        let place = format!("{}:{}", self.label, self.line);
        let (said, syntax) = match word {
            Some(word) => (
                format!("Failed to parse {} command: {text}", word.name()),
                word.syntax(),
            ),
            None => (text.to_owned(), "Not a valid command"),
        };
        let mut log = vec![
            format!("ERROR: {place} {said}"),
            format!("       Example sytanx: {syntax}"),
        ];
        self.close(&mut log);
        let hint = if hint.is_empty() {
            word.map_or_else(String::new, |word| format!("write {}", word.syntax()))
        } else {
            hint
        };
        self.problem(Severity::Error, said, hint, log);
    }

    /// An error of meaning: HTCondor's lines, and ours.
    fn wrong(&mut self, log: &[String], text: &str, hint: &str) {
        let mut log = log.to_vec();
        log.push(format!("Processing error at {}:{}", self.label, self.line));
        self.close(&mut log);
        self.problem(Severity::Error, text.to_owned(), hint.to_owned(), log);
    }

    /// A warning of a strictness; as HTCondor has it, one that the strictness makes an error.
    fn warn(&mut self, strictness: u8, text: &str) {
        let log = vec![text.to_owned()];
        if self.options.strict >= strictness {
            let fatal =
                "ERROR: Warning is fatal error because of DAGMAN_USE_STRICT setting".to_owned();
            self.wrong(&[log, vec![fatal]].concat(), text, "");
        } else {
            self.problem(Severity::Warning, text.to_owned(), String::new(), log);
        }
    }

    fn close(&self, log: &mut Vec<String>) {
        for frame in self.frames.iter().rev() {
            log.extend_from_slice(frame);
        }
        log.push(format!("Failed to parse {}", self.primary));
    }

    /// An end of all reading, at a bound.
    fn bound(&mut self, what: &str) -> Step {
        if !self.stopped {
            self.stopped = true;
            let text = format!("the DAG has more than {what}, which is the most that is read");
            self.wrong(
                &[format!("ERROR: {text}")],
                &text,
                "make several DAGs of it",
            );
        }
        Err(Stop)
    }

    // ------------------------------------------------------------------------------------------------- files

    /// Reads a file of a scope; false if it could not be opened.
    fn file(&mut self, name: &str, scope: usize) -> bool {
        let (label, line) = (std::mem::take(&mut self.label), self.line);
        let done = self.open_and_read(name, scope);
        self.label = label;
        self.line = line;
        done
    }

    fn refuse_file(&mut self, name: &str, said: String, text: &str, hint: &str) -> bool {
        let mut log = vec![said];
        self.close(&mut log);
        name.clone_into(&mut self.label);
        self.line = 0;
        self.problem(Severity::Error, text.to_owned(), hint.to_owned(), log);
        false
    }

    fn open_and_read(&mut self, name: &str, scope: usize) -> bool {
        let path = absolute(&self.scopes[scope].directory, name);
        if self.open.contains(&path) {
            let said = format!("ERROR: Recursive DAG file parsing detected with {path}");
            let hint = "a file cannot be included or spliced in itself";
            return self.refuse_file(name, said, "the file is read inside itself", hint);
        }
        if self.frames.len() >= limits::DEPTH || self.read >= limits::FILES {
            let text = format!(
                "files are read within one another more than {} deep, or more than {} times",
                limits::DEPTH,
                limits::FILES
            );
            self.stopped = true;
            return self.refuse_file(name, format!("ERROR: {text}"), &text, "");
        }
        self.read += 1;
        let text = match self.files.read(&path, limits::BYTES - self.bytes) {
            Ok(text) => text,
            Err(fault) => {
                let why = fault.text();
                let said = format!("ERROR: Failed to open {name}: {why}");
                let hint = format!("it is looked for as {path}");
                return self.refuse_file(name, said, &format!("cannot be read: {why}"), &hint);
            }
        };
        self.bytes += text.len() as u64;
        self.open.insert(path.clone());
        let (outer, inner) = if self.options.use_dag_dir {
            let (directory, base) = name.rsplit_once('/').unwrap_or(("", name));
            let inner = absolute(&self.scopes[scope].directory, directory);
            base.clone_into(&mut self.label);
            let outer = std::mem::replace(&mut self.scopes[scope].directory, inner.clone());
            (outer, inner)
        } else {
            name.clone_into(&mut self.label);
            (String::new(), String::new())
        };
        if self.pass(&text, scope, true) && !self.stopped {
            self.pass(&text, scope, false);
        }
        if !inner.is_empty() {
            self.scopes[scope].directory = outer;
        }
        self.open.remove(&path);
        true
    }

    /// One pass over a text; gives whether there are commands for the other one.
    fn pass(&mut self, text: &str, scope: usize, first: bool) -> bool {
        let mut lines = Lines::new(text);
        let mut others = false;
        while let Some(line) = lines.next() {
            self.line = line.number;
            let mut words = Words::new(&line.text);
            let written = words.word();
            let Some((word, weak)) = Word::of(&written) else {
                if first || self.lifted {
                    self.unknown(&written);
                }
                continue;
            };
            others |= !word.is_first();
            let mine = word.is_first() == first;
            if !mine && !word.may_be_long() {
                continue;
            }
            let parsed = command::parse(
                word,
                weak,
                words.remain(),
                &mut lines,
                self.options.any_name,
            );
            if !mine {
                continue; // its inline description has been passed over
            }
            match parsed {
                Ok(command) => {
                    if self.apply(command, scope).is_err() {
                        return false;
                    }
                }
                Err(text) => self.misread(Some(word), &text, String::new()),
            }
            if self.stopped {
                return false;
            }
        }
        if let (Some(open), true) = (lines.left_open(), first) {
            self.line = open;
            let text = "the file ends in a command that goes on in the next line";
            let log = [format!("ERROR: {}:{open} {text}", self.label)];
            self.wrong(&log, text, "remove the \\ at the end of the line");
        }
        others
    }

    fn unknown(&mut self, written: &str) {
        let shown = written.replace('-', "_");
        let near = Word::near(written);
        let hint = if near.is_empty() {
            String::new()
        } else {
            format!("did you mean {}?", near.join(" or "))
        };
        let text = format!("'{shown}' is not a valid DAG command");
        self.misread(None, &text, hint);
    }

    /// What a scope's file leaves for the outer one: its nodes in order, and those at its ends.
    fn leave(&mut self, scope: usize) {
        let splices: Vec<usize> = self.scopes[scope].splices.values().copied().collect();
        for inner in splices {
            let mut nodes = std::mem::take(&mut self.scopes[inner].nodes);
            self.scopes[scope].nodes.append(&mut nodes);
        }
        let nodes = &self.out.graph.nodes;
        let here = &mut self.scopes[scope];
        let those = |wanted: fn(&Node) -> bool| {
            here.nodes
                .iter()
                .copied()
                .filter(|node| wanted(&nodes[*node as usize]))
                .collect()
        };
        let (first, last): (Vec<_>, Vec<_>) =
            (those(|node| !node.related.0), those(|node| !node.related.1));
        here.first = first;
        here.last = last;
    }

    // ------------------------------------------------------------------------------------------------- names

    /// A node's or splice's name with the number of its file.
    fn munged<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if self.munge.is_empty() || is(name, "ALL_NODES") {
            Cow::Borrowed(name)
        } else {
            Cow::Owned(format!("{}{name}", self.munge))
        }
    }

    fn find(&self, scope: usize, name: &str) -> Option<NodeId> {
        let names = &self.out.graph.names;
        if self.lifted {
            return names.find(name);
        }
        let prefix = &self.scopes[scope].prefix;
        let found = if prefix.is_empty() && self.munge.is_empty() {
            names.find(name)
        } else {
            names.find(&format!("{prefix}{}", self.munged(name)))
        };
        found.filter(|node| self.out.graph.nodes[*node as usize].scope as usize == scope)
    }

    /// A name that is known and like one that is not: in another letter case, or an edit away.
    fn like(&self, scope: usize, name: &str) -> String {
        const MOST: usize = 20_000;
        let mut splices = self.scopes[scope].splices.keys().map(String::as_str);
        let nodes = self.scopes[scope].nodes.iter().take(MOST);
        let mut names = nodes.map(|node| {
            let full = self.out.graph.name(*node);
            full.strip_prefix(self.scopes[scope].prefix.as_str())
                .unwrap_or(full)
        });
        let near = |known: &&str| known.eq_ignore_ascii_case(name);
        let found = splices.find(near).or_else(|| names.find(near));
        match found {
            Some(known) => format!("did you mean {known}?"),
            None if name.contains('+') => {
                "nodes inside a splice cannot be named from outside it".to_owned()
            }
            None => "define it with JOB, or correct the name".to_owned(),
        }
    }

    fn unknown_node(&mut self, scope: usize, name: &str, said: &str) {
        let shown = self.munged(name).into_owned();
        let log = [
            format!("ERROR: Node {shown} not found!"),
            format!("ERROR: {said}"),
        ];
        let hint = self.like(scope, name);
        self.wrong(&log, said, &hint);
    }
}

#[cfg(test)]
mod tests;
