//! One command of the language, from its words. Messages are HTCondor's, spelling included: programs look for them.

use std::borrow::Cow;

use crate::lines::Lines;
use crate::words::{Quotes, Words, is, number};

/// The commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Word {
    /// A node of one submit description.
    Job,
    /// The node that runs at the end.
    Final,
    /// The node that runs first, alone.
    Provisioner,
    /// A node that runs beside the others.
    Service,
    /// A node that is a DAG with a runner of its own.
    Subdag,
    /// The nodes of another file.
    Splice,
    /// The commands of another file.
    Include,
    /// A submit description that nodes share.
    SubmitDescription,
    /// The category of a node.
    Category,
    /// Dependencies.
    Parent,
    /// A script of a node.
    Script,
    /// Attempts of a node.
    Retry,
    /// A value of a node that ends the DAG.
    AbortDagOn,
    /// Macros of a node.
    Vars,
    /// A node's priority.
    Priority,
    /// A value of a PRE script that makes its node done.
    PreSkip,
    /// Jobs of a node that may fail.
    Tolerance,
    /// A node that is done.
    Done,
    /// A throttle of a category.
    Maxjobs,
    /// DAGMan's configuration.
    Config,
    /// A picture of the DAG.
    Dot,
    /// The states of the nodes in a file.
    NodeStatusFile,
    /// What happens, line by line.
    JobstateLog,
    /// A rescue file of the moment when a node starts.
    SavePointFile,
    /// An attribute of the DAG's job.
    SetJobAttr,
    /// Environment of the DAG's job.
    Env,
    /// Refuses the DAG.
    Reject,
    /// Dependencies between the pins of two splices.
    Connect,
    /// A pin of a splice where parents come in.
    PinIn,
    /// A pin of a splice where children go out.
    PinOut,
}

/// Command words as they are written and told, with the syntax as HTCondor tells it. `WEAK` is a PARENT, too.
const TABLE: &[(&str, Word, &str)] = &[
    (
        "JOB",
        Word::Job,
        "JOB <name> <submit description> [DIR <directory>] [NOOP] [DONE]",
    ),
    (
        "FINAL",
        Word::Final,
        "FINAL <name> <submit description> [DIR <directory>] [NOOP] [DONE]",
    ),
    (
        "PROVISIONER",
        Word::Provisioner,
        "PROVISIONER <name> <submit description> [DIR <directory>] [NOOP] [DONE]",
    ),
    (
        "SERVICE",
        Word::Service,
        "SERVICE <name> <submit description> [DIR <directory>] [NOOP] [DONE]",
    ),
    (
        "SUBDAG",
        Word::Subdag,
        "SUBDAG EXTERNAL <name> <dag file> [DIR <directory>] [NOOP] [DONE]",
    ),
    (
        "SPLICE",
        Word::Splice,
        "SPLICE <name> <dag file> [DIR <directory>]",
    ),
    ("INCLUDE", Word::Include, "INCLUDE <dag file>"),
    (
        "SUBMIT_DESCRIPTION",
        Word::SubmitDescription,
        "SUBMIT_DESCRIPTION <name> {\\n<inline description>\\n}",
    ),
    ("CATEGORY", Word::Category, "CATEGORY <node> <name>"),
    (
        "PARENT",
        Word::Parent,
        "[WEAK] PARENT p1 [p2 p3 ...] CHILD c1 [c2 c3 ...]",
    ),
    (
        "WEAK",
        Word::Parent,
        "[WEAK] PARENT p1 [p2 p3 ...] CHILD c1 [c2 c3 ...]",
    ),
    (
        "SCRIPT",
        Word::Script,
        "SCRIPT [DEFER <status> <time>] [DEBUG <file> (STDOUT|STDERR|ALL)] (PRE|POST|HOLD) <node> <script> <arguments ...>",
    ),
    (
        "RETRY",
        Word::Retry,
        "RETRY <node> <max retries> [UNLESS-EXIT <code>]",
    ),
    (
        "ABORT_DAG_ON",
        Word::AbortDagOn,
        "ABORT_DAG_ON <node> <status> [RETURN <code>]",
    ),
    (
        "VARS",
        Word::Vars,
        "VARS <node> [PREPEND|APPEND] key1=value1 [key2=value2 key3=value3 ...]",
    ),
    ("PRIORITY", Word::Priority, "PRIORITY <node> <value>"),
    ("PRE_SKIP", Word::PreSkip, "PRE_SKIP <node> <status>"),
    (
        "TOLERANCE",
        Word::Tolerance,
        "TOLERANCE <node> <value>[%] [FAIL-FAST|WAIT]",
    ),
    ("DONE", Word::Done, "DONE <node>"),
    ("MAXJOBS", Word::Maxjobs, "MAXJOBS <category> <value>"),
    ("CONFIG", Word::Config, "CONFIG <file>"),
    (
        "DOT",
        Word::Dot,
        "DOT <file> [UPDATE|DONT-UPDATE] [OVERWRITE|DONT-OVERWRITE] [INCLUDE <header file>]",
    ),
    (
        "NODE_STATUS_FILE",
        Word::NodeStatusFile,
        "NODE_STATUS_FILE <file> [<min update time>] [ALWAYS-UPDATE]",
    ),
    ("JOBSTATE_LOG", Word::JobstateLog, "JOBSTATE_LOG <file>"),
    (
        "SAVE_POINT_FILE",
        Word::SavePointFile,
        "SAVE_POINT_FILE <node> [<file>]",
    ),
    (
        "SET_JOB_ATTR",
        Word::SetJobAttr,
        "SET_JOB_ATTR <key> = <value>",
    ),
    ("ENV", Word::Env, "ENV (SET|GET) <environment variables>"),
    ("REJECT", Word::Reject, "REJECT"),
    ("CONNECT", Word::Connect, "CONNECT <splice 1> <splice 2>"),
    ("PIN_IN", Word::PinIn, "PIN_IN <node> <pin number>"),
    ("PIN_OUT", Word::PinOut, "PIN_OUT <node> <pin number>"),
];

impl Word {
    /// The command of a word, and whether it is `WEAK`.
    #[must_use]
    pub fn of(word: &str) -> Option<(Self, bool)> {
        let (name, found, _) = TABLE.iter().find(|(name, _, _)| is(word, name))?;
        Some((*found, *name == "WEAK"))
    }

    fn row(self) -> &'static (&'static str, Self, &'static str) {
        TABLE
            .iter()
            .find(|(_, word, _)| *word == self)
            .expect("every command is in the table")
    }

    /// Its name, with `_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// How it is written.
    #[must_use]
    pub fn syntax(self) -> &'static str {
        self.row().2
    }

    /// Whether it is carried out in the first pass over a file: what makes names, and what belongs to the whole DAG.
    #[must_use]
    pub fn is_first(self) -> bool {
        use Word::{
            Dot, Final, Job, JobstateLog, NodeStatusFile, Provisioner, Reject, Service, Splice,
            Subdag, SubmitDescription,
        };
        matches!(
            self,
            SubmitDescription
                | Job
                | Final
                | Provisioner
                | Service
                | Subdag
                | Splice
                | Reject
                | Dot
                | NodeStatusFile
                | JobstateLog
        )
    }

    /// Whether its inline description may go on in lines that are no commands.
    #[must_use]
    pub fn may_be_long(self) -> bool {
        use Word::{Final, Job, Provisioner, Service, SubmitDescription};
        matches!(
            self,
            Job | Final | Provisioner | Service | SubmitDescription
        )
    }

    /// The command words that are like a word which is none: an edit away, or its beginning.
    #[must_use]
    pub fn near(word: &str) -> Vec<&'static str> {
        let word = word.to_ascii_uppercase().replace('-', "_");
        let mut near: Vec<&str> = TABLE
            .iter()
            .map(|(name, _, _)| *name)
            .filter(|name| {
                (word.len() >= 3 && name.starts_with(word.as_str()))
                    || distance(&word, name) <= if name.len() < 5 { 1 } else { 2 }
            })
            .collect();
        near.truncate(3);
        near
    }
}

/// Edits between two short words; 3 for more than two.
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 2 || a.len() < 3 {
        return 3;
    }
    let b = b.as_bytes();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, c) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, d) in b.iter().enumerate() {
            let here = if c == *d {
                corner
            } else {
                1 + corner.min(row[j]).min(row[j + 1])
            };
            corner = row[j + 1];
            row[j + 1] = here;
        }
    }
    row[b.len()].min(3)
}

/// Where a node's submit description is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description<'a> {
    /// A file, or the name of a shared description.
    Named(Cow<'a, str>),
    /// In the DAG file.
    Inline(String),
}

/// `JOB`, `FINAL`, `PROVISIONER`, `SERVICE`, `SUBDAG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCommand<'a> {
    /// Its name, without those of splices.
    pub name: Cow<'a, str>,
    /// The description, or the file of a sub-DAG.
    pub description: Description<'a>,
    /// DIR.
    pub directory: Option<Cow<'a, str>>,
    /// NOOP.
    pub noop: bool,
    /// DONE.
    pub done: bool,
}

/// Which script of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    /// Before the job.
    Pre,
    /// After the job.
    Post,
    /// When a job is held.
    Hold,
}

impl ScriptKind {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["PRE", "POST", "HOLD"][self as usize]
    }
}

/// What of a script's output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
    /// Both.
    All,
}

/// `SCRIPT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCommand<'a> {
    /// Which.
    pub kind: ScriptKind,
    /// Whose.
    pub node: Cow<'a, str>,
    /// Program and arguments.
    pub line: &'a str,
    /// A status that means "again", and after how many seconds.
    pub defer: Option<(i32, i32)>,
    /// A file for its output.
    pub debug: Option<(Cow<'a, str>, Output)>,
}

/// Whether the jobs that remain are removed when a node has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// As DAGMAN_REMOVE_JOB_LIST_ON_FAILURE says.
    #[default]
    Configured,
    /// They are removed.
    Removed,
    /// They go on.
    Left,
}

/// What a command says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the words of the syntax")]
pub enum Command<'a> {
    Node(Word, NodeCommand<'a>),
    Splice {
        name: Cow<'a, str>,
        file: Cow<'a, str>,
        directory: Option<Cow<'a, str>>,
    },
    Include(Cow<'a, str>),
    SubmitDescription {
        name: Cow<'a, str>,
        text: String,
    },
    Category {
        node: Cow<'a, str>,
        name: Cow<'a, str>,
    },
    Parent {
        parents: Vec<Cow<'a, str>>,
        children: Vec<Cow<'a, str>>,
        weak: bool,
    },
    Script(ScriptCommand<'a>),
    Retry {
        node: Cow<'a, str>,
        most: i32,
        unless: Option<i32>,
    },
    AbortDagOn {
        node: Cow<'a, str>,
        value: i32,
        result: Option<i32>,
    },
    Vars {
        node: Cow<'a, str>,
        append: Option<bool>,
        pairs: Vec<(Cow<'a, str>, String)>,
    },
    Priority {
        node: Cow<'a, str>,
        value: i32,
    },
    PreSkip {
        node: Cow<'a, str>,
        value: i32,
    },
    Tolerance {
        node: Cow<'a, str>,
        value: i32,
        percent: bool,
        rest: Rest,
    },
    Done(Cow<'a, str>),
    Maxjobs {
        category: Cow<'a, str>,
        limit: i32,
    },
    Config(Cow<'a, str>),
    Dot {
        file: Cow<'a, str>,
        update: bool,
        overwrite: bool,
        header: Option<Cow<'a, str>>,
    },
    NodeStatusFile {
        file: Cow<'a, str>,
        seconds: Option<i32>,
        always: bool,
    },
    JobstateLog(Cow<'a, str>),
    SavePointFile {
        node: Cow<'a, str>,
        file: Option<Cow<'a, str>>,
    },
    SetJobAttr(&'a str),
    Env {
        set: bool,
        variables: Cow<'a, str>,
    },
    Reject,
    Connect(Cow<'a, str>, Cow<'a, str>),
    Pin {
        out: bool,
        node: Cow<'a, str>,
        pin: i32,
    },
}

type Parsed<'a> = Result<Command<'a>, String>;

/// Reads the rest of a line after its command word; inline descriptions go on in the lines that follow.
///
/// # Errors
/// What is wrong with it, as HTCondor says it.
pub fn parse<'a>(
    word: Word,
    weak: bool,
    rest: &'a str,
    lines: &mut Lines<'_>,
    any_name: bool,
) -> Parsed<'a> {
    let mut words = Words::new(rest);
    let parsed = of_words(word, weak, &mut words, lines, any_name);
    match words.fault() {
        Some(fault) => Err(fault.to_owned()), // most likely the cause of whatever else is wrong
        None => parsed,
    }
}

fn of_words<'a>(
    word: Word,
    weak: bool,
    words: &mut Words<'a>,
    lines: &mut Lines<'_>,
    any_name: bool,
) -> Parsed<'a> {
    let command = match word {
        Word::Subdag if !is(&words.word(), "EXTERNAL") => {
            return Err("Missing EXTERNAL keyword".to_owned());
        }
        Word::Job | Word::Final | Word::Provisioner | Word::Service | Word::Subdag => {
            return node(word, words, lines, any_name);
        }
        Word::SubmitDescription => return description(words, lines),
        Word::Splice => splice(words)?,
        Word::Parent => return parent(weak, words),
        Word::Script => return script(words),
        Word::Vars => return vars(words),
        Word::Env => return env(words),
        Word::SetJobAttr => {
            return match words.remain() {
                "" => Err("No attribute line (key = value) provided".to_owned()),
                line => Ok(Command::SetJobAttr(line)),
            };
        }
        Word::Include => Command::Include(file(words, "No include file specified")?),
        Word::JobstateLog => Command::JobstateLog(file(words, "No include file specified")?),
        Word::Config => Command::Config(file(words, "No configuration file specified")?),
        Word::Category => Command::Category {
            node: named(words)?,
            name: some(words.word(), "No category name specified")?,
        },
        Word::Retry => retry(words)?,
        Word::AbortDagOn => abort(words)?,
        Word::Priority => Command::Priority {
            node: named(words)?,
            value: counted(words, "Missing priority value", "priority value")?,
        },
        Word::PreSkip => Command::PreSkip {
            node: named(words)?,
            value: counted(words, "Missing exit code", "exit code")?,
        },
        Word::Tolerance => tolerance(words)?,
        Word::Done => Command::Done(named(words)?),
        Word::Maxjobs => Command::Maxjobs {
            category: some(words.word(), "No category name specified")?,
            limit: at_least(0, words, "No throttle limit specified", "throttle limit")?,
        },
        Word::Dot => return dot(words),
        Word::NodeStatusFile => return node_status(words),
        Word::SavePointFile => save_point(words)?,
        Word::Reject => Command::Reject,
        Word::Connect => {
            let (from, to) = (words.word(), words.word());
            if from.is_empty() || to.is_empty() {
                return Err("Missing splice(s) to connect".to_owned());
            }
            Command::Connect(from, to)
        }
        Word::PinIn | Word::PinOut => Command::Pin {
            out: word == Word::PinOut,
            node: named(words)?,
            pin: at_least(1, words, "No pin number specified", "pin number")?,
        },
    };
    end(words).map(|()| command)
}

fn end(words: &mut Words<'_>) -> Result<(), String> {
    match words.word() {
        word if word.is_empty() => Ok(()),
        word => Err(unexpected(&word)),
    }
}

fn unexpected(word: &str) -> String {
    format!("Unexpected token '{word}'")
}

fn some<'a>(word: Cow<'a, str>, missing: &str) -> Result<Cow<'a, str>, String> {
    if word.is_empty() {
        Err(missing.to_owned())
    } else {
        Ok(word)
    }
}

fn named<'a>(words: &mut Words<'a>) -> Result<Cow<'a, str>, String> {
    some(words.word(), "No node name specified")
}

fn file<'a>(words: &mut Words<'a>, missing: &str) -> Result<Cow<'a, str>, String> {
    some(words.next(Quotes::Removed), missing)
}

fn counted(words: &mut Words<'_>, missing: &str, what: &str) -> Result<i32, String> {
    at_least(i32::MIN, words, missing, what)
}

fn at_least(least: i32, words: &mut Words<'_>, missing: &str, what: &str) -> Result<i32, String> {
    let word = some(words.word(), missing)?;
    number(&word)
        .filter(|value| *value >= least)
        .ok_or_else(|| format!("Invalid {what} '{word}'"))
}

/// The token that ends an inline description which `word` begins; "" where that is missing.
fn closing(word: &str) -> Option<String> {
    if word.starts_with('{') {
        return Some("}".to_owned());
    }
    let tag = word.strip_prefix("@=")?;
    Some(if tag.is_empty() {
        String::new()
    } else {
        format!("@{tag}")
    })
}

/// An inline description, and what stands behind its closing token.
fn inline<'l>(token: &str, lines: &mut Lines<'l>) -> Result<(String, &'l str), String> {
    if token.is_empty() {
        return Err("No inline description closing token specified (@=TOKEN)".to_owned());
    }
    let mut text = String::new();
    while let Some(line) = lines.raw() {
        if let Some(behind) = line.strip_prefix(token)
            && (behind.is_empty() || behind.starts_with(' '))
        {
            return Ok((text, behind));
        }
        text.push_str(line);
        text.push('\n');
    }
    Err(format!("Missing inline description closing token: {token}"))
}

fn node<'a>(
    word: Word,
    words: &mut Words<'a>,
    lines: &mut Lines<'_>,
    any_name: bool,
) -> Parsed<'a> {
    let name = some(words.word(), "Missing node name")?;
    if ["PARENT", "CHILD", "ALL_NODES"]
        .iter()
        .any(|reserved| name.eq_ignore_ascii_case(reserved))
    {
        return Err("Node name is a reserved word".to_owned());
    }
    if !any_name && name.contains('+') {
        return Err("Node name contains illegal charater".to_owned());
    }
    let text = file(words, "No submit description provided")?;
    let mut made = NodeCommand {
        name,
        description: Description::Named(Cow::Borrowed("")),
        directory: None,
        noop: false,
        done: false,
    };
    if word != Word::Subdag
        && let Some(token) = closing(&text)
    {
        let (body, behind) = inline(&token, lines)?;
        made.description = Description::Inline(body);
        let mut behind = Words::new(behind);
        node_options(&mut made, &mut behind, |directory| {
            Cow::Owned(directory.into_owned())
        })?;
        if let Some(fault) = behind.fault() {
            return Err(fault.to_owned());
        }
    } else {
        made.description = Description::Named(text);
        node_options(&mut made, words, |directory| directory)?;
    }
    Ok(Command::Node(word, made))
}

fn node_options<'a, 'w>(
    made: &mut NodeCommand<'a>,
    words: &mut Words<'w>,
    keep: impl Fn(Cow<'w, str>) -> Cow<'a, str>,
) -> Result<(), String> {
    loop {
        let word = words.word();
        if word.is_empty() {
            return Ok(());
        } else if is(&word, "NOOP") {
            made.noop = true;
        } else if is(&word, "DONE") {
            made.done = true;
        } else if is(&word, "DIR") {
            let directory = file(words, "No directory path provided for DIR subcommand")?;
            made.directory = Some(keep(directory));
        } else {
            return Err(unexpected(&word));
        }
    }
}

fn description<'a>(words: &mut Words<'a>, lines: &mut Lines<'_>) -> Parsed<'a> {
    let name = some(words.word(), "No submit description name provided")?;
    let token = closing(&words.word()).ok_or("No inline description provided")?;
    let (text, _) = inline(&token, lines)?;
    Ok(Command::SubmitDescription { name, text })
}

fn splice<'a>(words: &mut Words<'a>) -> Parsed<'a> {
    let name = some(words.word(), "Missing splice name")?;
    let file_name = file(words, "Missing DAG file")?;
    let directory = match words.word() {
        word if word.is_empty() => None,
        word if is(&word, "DIR") => Some(file(
            words,
            "No directory path provided for DIR subcommand",
        )?),
        word => return Err(unexpected(&word)),
    };
    Ok(Command::Splice {
        name,
        file: file_name,
        directory,
    })
}

fn parent<'a>(weak: bool, words: &mut Words<'a>) -> Parsed<'a> {
    if weak && !is(&words.word(), "PARENT") {
        return Err("WEAK dependency missing PARENT keyword".to_owned());
    }
    let (mut parents, mut children, mut seen) = (Vec::new(), Vec::new(), false);
    let mut word = words.word();
    if word.is_empty() || is(&word, "CHILD") {
        return Err("No parent node(s) specified".to_owned());
    }
    while !word.is_empty() {
        if is(&word, "CHILD") {
            seen = true;
            if words.peek().is_empty() {
                return Err("No children node(s) specified".to_owned());
            }
        } else if seen {
            children.push(word);
        } else {
            parents.push(word);
        }
        word = words.word();
    }
    if !seen {
        return Err("Missing CHILD specifier".to_owned());
    }
    Ok(Command::Parent {
        parents,
        children,
        weak,
    })
}

fn script<'a>(words: &mut Words<'a>) -> Parsed<'a> {
    let (mut defer, mut debug) = (None, None);
    let kind = loop {
        let word = words.word();
        let kinds = [ScriptKind::Pre, ScriptKind::Post, ScriptKind::Hold];
        if let Some(kind) = kinds.into_iter().find(|kind| is(&word, kind.name())) {
            break kind;
        } else if is(&word, "DEFER") {
            let status = counted(words, "DEFER missing status value", "DEFER status value")?;
            let after = counted(words, "DEFER missing time value", "DEFER time value")?;
            defer = Some((status, after));
        } else if is(&word, "DEBUG") {
            let into = some(words.word(), "DEBUG missing filename")?;
            let stream = some(
                words.word(),
                "DEBUG missing output stream type (STDOUT, STDERR, ALL)",
            )?;
            let output = if is(&stream, "STDOUT") {
                Output::Stdout
            } else if is(&stream, "STDERR") {
                Output::Stderr
            } else if is(&stream, "ALL") {
                Output::All
            } else {
                return Err(format!("Unknown DEBUG output stream type '{stream}'"));
            };
            debug = Some((into, output));
        } else {
            return Err(
                "Missing script type (PRE, POST, HOLD) and optional sub-commands (DEFER, DEBUG)"
                    .to_owned(),
            );
        }
    };
    let node = named(words)?;
    let line = words.remain();
    if line.is_empty() {
        return Err("No script specified".to_owned());
    }
    Ok(Command::Script(ScriptCommand {
        kind,
        node,
        line,
        defer,
        debug,
    }))
}

fn retry<'a>(words: &mut Words<'a>) -> Parsed<'a> {
    let node = named(words)?;
    let most =
        at_least(0, words, "Missing max retry value", "max retry value").map_err(|text| {
            let hint = " (Must be positive integer)";
            if text.starts_with("Invalid") {
                text + hint
            } else {
                text
            }
        })?;
    let unless = match words.word() {
        word if word.is_empty() => None,
        word if is(&word, "UNLESS_EXIT") => {
            let code = some(words.word(), "UNLESS-EXIT missing exit code")?;
            let value = number(&code)
                .ok_or_else(|| format!("Invalid UNLESS-EXIT code '{code}' specified"))?;
            Some(value)
        }
        word => return Err(unexpected(&word)),
    };
    Ok(Command::Retry { node, most, unless })
}

fn abort<'a>(words: &mut Words<'a>) -> Parsed<'a> {
    let node = named(words)?;
    let status = some(words.word(), "Missing exit status to abort on")?;
    let value =
        number(&status).ok_or_else(|| format!("Invalid exit status '{status}' specified"))?;
    let result = match words.word() {
        word if word.is_empty() => None,
        word if is(&word, "RETURN") => {
            let code = some(words.word(), "RETURN is missing value")?;
            let valid = number(&code).filter(|code| (0..=255).contains(code));
            Some(valid.ok_or_else(|| {
                format!("Invalid RETURN code '{code}' (Must be between 0 and 255)")
            })?)
        }
        word => return Err(unexpected(&word)),
    };
    Ok(Command::AbortDagOn {
        node,
        value,
        result,
    })
}

fn vars<'a>(words: &mut Words<'a>) -> Parsed<'a> {
    let node = named(words)?;
    let first = words.peek();
    let append = if is(&first, "PREPEND") {
        Some(false)
    } else if is(&first, "APPEND") {
        Some(true)
    } else {
        None
    };
    if append.is_some() {
        words.word();
    }
    let mut pairs = Vec::new();
    while let Some((key, value)) = words.pair() {
        if key == "+" || key == "My." {
            return Err(
                "Variable name must contain at least one alphanumeric character".to_owned(),
            );
        }
        let key = match key.strip_prefix('+') {
            Some(name) => Cow::Owned(format!("My.{name}")),
            None => Cow::Borrowed(key),
        };
        if key
            .get(..5)
            .is_some_and(|begin| begin.eq_ignore_ascii_case("queue"))
        {
            return Err(format!(
                "Illegal variable name '{key}': name can not begin with 'queue'"
            ));
        }
        pairs.push((key, value));
    }
    if pairs.is_empty() {
        return Err("No key=value pairs specified".to_owned());
    }
    Ok(Command::Vars {
        node,
        append,
        pairs,
    })
}

fn tolerance<'a>(words: &mut Words<'a>) -> Parsed<'a> {
    let node = named(words)?;
    let word = some(words.word(), "Missing failure tolerance value")?;
    let (digits, mut percent) = match word.strip_suffix('%') {
        Some("") => return Err("Empty percentage specified for failure tolerance".to_owned()),
        Some(digits) => (digits, true),
        None => (&*word, false),
    };
    if !percent && words.peek() == "%" {
        words.word();
        percent = true;
    }
    let value = number(digits)
        .filter(|value| *value >= 0)
        .ok_or_else(|| format!("Invalid tolerance value '{digits}'"))?;
    let mode = words.peek();
    let rest = if is(&mode, "FAIL_FAST") {
        Rest::Removed
    } else if is(&mode, "WAIT") {
        Rest::Left
    } else {
        Rest::Configured
    };
    if rest != Rest::Configured {
        words.word();
    }
    Ok(Command::Tolerance {
        node,
        value,
        percent,
        rest,
    })
}

fn dot<'a>(words: &mut Words<'a>) -> Parsed<'a> {
    let name = file(words, "No file specified")?;
    let (mut update, mut overwrite, mut header) = (false, false, None);
    loop {
        let word = words.word();
        if word.is_empty() {
            break;
        } else if is(&word, "UPDATE") {
            update = true;
        } else if is(&word, "DONT_UPDATE") {
            update = false;
        } else if is(&word, "OVERWRITE") {
            overwrite = true;
        } else if is(&word, "DONT_OVERWRITE") {
            overwrite = false;
        } else if is(&word, "INCLUDE") {
            header = Some(some(words.word(), "Missing INCLUDE header file")?);
        } else {
            return Err(unexpected(&word));
        }
    }
    Ok(Command::Dot {
        file: name,
        update,
        overwrite,
        header,
    })
}

fn node_status<'a>(words: &mut Words<'a>) -> Parsed<'a> {
    let name = file(words, "No file specified")?;
    let (mut seconds, mut always) = (None, false);
    loop {
        let word = words.word();
        if word.is_empty() {
            break;
        } else if is(&word, "ALWAYS_UPDATE") {
            always = true;
        } else {
            seconds = Some(number(&word).ok_or_else(|| unexpected(&word))?);
        }
    }
    Ok(Command::NodeStatusFile {
        file: name,
        seconds,
        always,
    })
}

fn save_point<'a>(words: &mut Words<'a>) -> Parsed<'a> {
    let node = named(words)?;
    if is(&node, "ALL_NODES") {
        return Err("ALL_NODES cannot be used for save point file command".to_owned());
    }
    let name = words.next(Quotes::Removed);
    let named_file = (!name.is_empty()).then_some(name);
    Ok(Command::SavePointFile {
        node,
        file: named_file,
    })
}

fn env<'a>(words: &mut Words<'a>) -> Parsed<'a> {
    let action = some(words.word(), "Missing action (SET or GET) and variables")?;
    let set = is(&action, "SET");
    if !set && !is(&action, "GET") {
        return Err(unexpected(&action));
    }
    let line = words.remain();
    if line.is_empty() {
        return Err("No environment variables provided".to_owned());
    }
    let variables = if set {
        Cow::Borrowed(line)
    } else {
        let names: Vec<&str> = line
            .split([' ', '\t', ',', '\r', '\n'])
            .filter(|name| !name.is_empty())
            .collect();
        Cow::Owned(names.join(","))
    };
    Ok(Command::Env { set, variables })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> String {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (word, weak) = Word::of(word).unwrap();
        parse(word, weak, rest, &mut Lines::new(""), false).unwrap_err()
    }

    #[test]
    fn what_is_wrong_is_said_as_htcondor_says_it() {
        for (line, text) in [
            ("JOB", "Missing node name"),
            ("JOB A", "No submit description provided"),
            ("JOB Child a", "Node name is a reserved word"),
            ("JOB a+b a", "Node name contains illegal charater"),
            (
                "JOB a a DIR",
                "No directory path provided for DIR subcommand",
            ),
            ("JOB a { ", "Missing inline description closing token: }"),
            (
                "JOB a @=",
                "No inline description closing token specified (@=TOKEN)",
            ),
            ("SUBDAG a b", "Missing EXTERNAL keyword"),
            ("PARENT CHILD a", "No parent node(s) specified"),
            ("PARENT a b", "Missing CHILD specifier"),
            ("PARENT a CHILD", "No children node(s) specified"),
            ("WEAK a CHILD b", "WEAK dependency missing PARENT keyword"),
            ("SCRIPT DEFER x 1 PRE a b", "Invalid DEFER status value 'x'"),
            (
                "SCRIPT DEBUG f BOTH PRE a b",
                "Unknown DEBUG output stream type 'BOTH'",
            ),
            (
                "RETRY a -1",
                "Invalid max retry value '-1' (Must be positive integer)",
            ),
            ("RETRY a", "Missing max retry value"),
            (
                "RETRY a 1 UNLESS-EXIT x",
                "Invalid UNLESS-EXIT code 'x' specified",
            ),
            (
                "ABORT-DAG-ON a 1 RETURN 256",
                "Invalid RETURN code '256' (Must be between 0 and 255)",
            ),
            (
                "VARS a queue_x=1",
                "Illegal variable name 'queue_x': name can not begin with 'queue'",
            ),
            (
                "VARS a +=1",
                "Variable name must contain at least one alphanumeric character",
            ),
            ("VARS a", "No key=value pairs specified"),
            ("VARS a x=\"1", "Invalid quoting: no ending quote found"),
            (
                "TOLERANCE a %",
                "Empty percentage specified for failure tolerance",
            ),
            ("TOLERANCE a 5 NOW", "Unexpected token 'NOW'"),
            ("MAXJOBS c -1", "Invalid throttle limit '-1'"),
            ("PIN_IN a 0", "Invalid pin number '0'"),
            ("REJECT now", "Unexpected token 'now'"),
            ("ENV PUT x", "Unexpected token 'PUT'"),
            (
                "SAVE_POINT_FILE all_nodes",
                "ALL_NODES cannot be used for save point file command",
            ),
        ] {
            assert_eq!(error(line), text, "{line}");
        }
    }

    #[test]
    fn options_behind_an_inline_description() {
        let mut lines =
            Lines::new("executable = /bin/true\n  # none\n\n} # no\n} DIR 'a b' noop\n");
        let parsed = parse(Word::Job, false, "A {", &mut lines, false);
        assert_eq!(parsed, Err("Unexpected token '#'".to_owned()));
        let mut lines = Lines::new("executable = /bin/true\n} DIR 'a b' noop\nJOB B b\n");
        let parsed = parse(Word::Job, false, "A {", &mut lines, false).unwrap();
        let Command::Node(_, made) = parsed else {
            panic!("{parsed:?}")
        };
        assert_eq!(
            made.description,
            Description::Inline("executable = /bin/true\n".to_owned())
        );
        assert_eq!(
            (made.directory.as_deref(), made.noop, made.done),
            (Some("a b"), true, false)
        );
        assert_eq!(lines.next().unwrap().number, 3);
    }

    #[test]
    fn words_that_are_near_to_commands() {
        assert_eq!(Word::near("PARRENT"), ["PARENT"]);
        assert_eq!(Word::near("ABORT-DAG"), ["ABORT_DAG_ON"]);
        assert!(Word::near("FROB").is_empty());
    }
}
