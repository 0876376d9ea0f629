//! Goes through a description: statements into the macro set, queue statements into jobs.

use std::cell::RefCell;

use classad::{Ad, Expr, Value};
use rustc_hash::FxHashSet;

use crate::condition::Blocks;
use crate::error::{Code, ConfigError};
use crate::expand::{Expander, Scope};
use crate::lines::{Lines, trim};
use crate::reader::MAX_DEPTH;
use crate::set::{MacroSet, Origin};
use crate::source::Source;
use crate::statement::{self, Op, Statement};
use crate::submit::items::{self, Matching};
use crate::submit::job::Job;
use crate::submit::make::{self, Cache, Step};
use crate::submit::queue::{self, Mode, Place, Queue};
use crate::submit::scope::{Given, Live, SubmitScope, Touched};
use crate::submit::{Cluster, Facts, Knobs, Submission, commands};
use crate::templates;

type Done = Result<(), ConfigError>;

/// Most jobs that one description may make.
const MAX_JOBS: usize = 10_000_000;

/// A description being read.
pub struct Reading<'a> {
    facts: &'a Facts,
    knobs: &'a dyn Knobs,
    world: &'a dyn Source,
    set: MacroSet,
    live: Live,
    given: Given,
    touched: Touched,
    used: RefCell<FxHashSet<String>>,
    warnings: RefCell<Vec<String>>,
    cache: Cache,
    made: Submission,
    loop_names: FxHashSet<String>,
    stopped: bool,
}

struct Text {
    name: String,
    tag: String,
    lines: Vec<String>,
    line: u32,
}

impl<'a> Reading<'a> {
    /// Nothing read yet.
    #[must_use]
    pub fn new(facts: &'a Facts, knobs: &'a dyn Knobs, world: &'a dyn Source) -> Self {
        let given = Given {
            file: facts.file.clone(),
            now: facts.now,
            date: facts.date,
            macros: facts.macros.clone(),
        };
        Self {
            facts,
            knobs,
            world,
            set: MacroSet::default(),
            live: Live {
                node: "",
                ..Live::default()
            },
            given,
            touched: Touched::default(),
            used: RefCell::default(),
            warnings: RefCell::default(),
            cache: RefCell::default(),
            made: Submission::default(),
            loop_names: FxHashSet::default(),
            stopped: false,
        }
    }

    fn scope(&self) -> SubmitScope<'_> {
        SubmitScope {
            set: &self.set,
            live: &self.live,
            given: &self.given,
            world: self.world,
            iwd: &self.facts.cwd,
            touched: &self.touched,
            used: &self.used,
        }
    }

    fn expand(&self, text: &str) -> Result<String, ConfigError> {
        Expander::new(&self.scope()).expand(text)
    }

    /// Reads the whole description.
    ///
    /// # Errors
    /// Everything the language refuses.
    pub fn whole(mut self, text: &str) -> Result<Submission, ConfigError> {
        self.live.cluster = self.facts.first_cluster.unwrap_or(1).to_string();
        let before = self.facts.before.join("\n");
        if !before.is_empty() {
            self.text("<command line>", &(before + "\n"), 0)?;
        }
        let file = if self.facts.file.is_empty() {
            "<description>"
        } else {
            &self.facts.file
        };
        self.text(file, text, 0)?;
        if let Some(arguments) = self.facts.queue.clone().filter(|_| !self.stopped) {
            let mut nothing = Lines::new("");
            self.appended()?;
            self.queue(&arguments, &mut nothing)
                .map_err(|error| error.at("<command line>", 0))?;
        }
        self.warn_unused();
        self.made.mentions_cluster = self.touched.cluster.get();
        self.made.warnings = self.warnings.take();
        Ok(self.made)
    }

    fn text(&mut self, file: &str, text: &str, depth: u32) -> Done {
        let source = self.set.add_source(file);
        let mut blocks = Blocks::default();
        let mut open: Option<Text> = None;
        let mut lines = Lines::new(text);
        while let Some(line) = lines.next() {
            let at = lines.line().max(1);
            let place = |error: ConfigError| error.at(file, at);
            let line = trim(&line).to_owned();
            if line.is_empty() || (line.starts_with('#') && open.is_none()) {
                continue;
            }
            let origin = Origin {
                source,
                line: at,
                template: None,
            };
            if let Some(text) = &mut open {
                if line.strip_prefix('@') == Some(text.tag.as_str()) {
                    let (name, value) = (text.name.clone(), text.lines.join("\n"));
                    open = None;
                    self.assign(&name, &value, origin).map_err(place)?;
                } else if !line.starts_with('#') {
                    text.lines.push(line);
                }
                continue;
            }
            if blocks.take(&line, &self.scope()).map_err(place)? || !blocks.enabled() {
                continue;
            }
            if let Some(arguments) = queue::arguments(&line) {
                if self.facts.queue.is_some() {
                    return Ok(());
                }
                self.appended().map_err(place)?;
                let arguments = arguments.to_owned();
                self.queue(&arguments, &mut lines).map_err(place)?;
                continue;
            }
            open = self.statement(&line, &origin, depth).map_err(place)?;
            if self.stopped {
                return Ok(());
            }
        }
        if let Some(text) = open {
            let message = format!("Found end-of-file while scanning for '@{}'", text.tag);
            let hint = format!("the text of {} ends with a line `@{}`", text.name, text.tag);
            return Err(ConfigError::new(Code::OpenText, message)
                .hint(hint)
                .about(&text.name)
                .at(file, text.line));
        }
        if blocks.inside() {
            let error = ConfigError::new(Code::Unbalanced, "endif(s) not found before end-of-file");
            return Err(error
                .hint("every if needs its endif")
                .at(file, lines.line()));
        }
        Ok(())
    }

    fn assign(&mut self, name: &str, raw: &str, origin: Origin) -> Done {
        let value = Expander::new(&self.scope())
            .expand_own(raw, name, None)
            .map_err(|error| error.about(name))?;
        self.set.insert(name, &value, origin);
        Ok(())
    }

    fn statement(
        &mut self,
        line: &str,
        origin: &Origin,
        depth: u32,
    ) -> Result<Option<Text>, ConfigError> {
        let Some(found) = statement::split(line) else {
            let shown: String = line.chars().take(60).collect();
            let word = shown.split_whitespace().next().unwrap_or_default();
            let hint = match commands::similar(word) {
                Some(name) => format!("did you mean `{name} = ...`?"),
                None => "a statement is `key = value`, or a queue statement".into(),
            };
            return Err(
                ConfigError::new(Code::Syntax, format!("`{shown}` is no statement"))
                    .hint(hint)
                    .about(word),
            );
        };
        let keyword = found.name.strip_prefix('@').unwrap_or(found.name);
        if found.op == Op::Colon {
            return self.colon(&found, keyword, origin, depth).map(|()| None);
        }
        if let Some(rest) = found
            .name
            .strip_prefix(['+', '-'])
            .filter(|_| found.op == Op::Assign)
        {
            let value = if found.name.starts_with('+') {
                found.value
            } else {
                ""
            };
            self.set
                .insert(&format!("MY.{}", self.expand(rest)?), value, origin.clone());
            return Ok(None);
        }
        if !found.between.is_empty() {
            let message = format!(
                "`{}` is no key",
                line.split(['=', '@', '+']).next().unwrap_or(line).trim()
            );
            let hint = match queue_like(line) {
                true => "a queue statement starts with the word queue".to_owned(),
                false => "keys have no blanks; a line that goes on needs a \\ at the end of the line before".to_owned(),
            };
            return Err(ConfigError::new(Code::Syntax, message)
                .hint(hint)
                .about(found.name));
        }
        let name = self.expand(found.name)?;
        if !statement::is_name(&name) {
            return Err(
                ConfigError::new(Code::BadName, format!("Illegal Identifier: <{name}>"))
                    .hint("keys have letters, digits, _ and . only")
                    .about(&name),
            );
        }
        match found.op {
            Op::Text => {
                let tag = found.value.to_owned();
                return Ok(Some(Text {
                    name,
                    tag,
                    lines: Vec::new(),
                    line: origin.line,
                }));
            }
            Op::Append(joint) => {
                let old = self
                    .scope()
                    .raw(&name)
                    .map(|raw| raw.into_owned())
                    .unwrap_or_default();
                let value = if old.is_empty() {
                    found.value.to_owned()
                } else {
                    format!("{old}{}{}", joint.text(), found.value)
                };
                self.assign(&name, &value, origin.clone())?;
            }
            Op::Assign | Op::Colon => self.assign(&name, found.value, origin.clone())?,
        }
        Ok(None)
    }

    fn colon(&mut self, found: &Statement<'_>, keyword: &str, origin: &Origin, depth: u32) -> Done {
        match keyword.to_ascii_lowercase().as_str() {
            "include" => self.include(found, depth),
            "use" => self.use_template(found, origin, depth),
            "warning" => {
                let message = self.expand(found.value)?;
                self.warnings.borrow_mut().push(message);
                Ok(())
            }
            "error" => {
                let message = self.expand(found.value)?;
                Err(ConfigError::new(Code::Stated, message)
                    .hint("an `error :` statement of the description stops it here"))
            }
            _ => {
                let message = format!("`{} : {}` is no statement", found.name, found.value);
                Err(ConfigError::new(Code::Syntax, message)
                    .hint("write = instead of :")
                    .about(found.name))
            }
        }
    }

    fn include(&mut self, found: &Statement<'_>, depth: u32) -> Done {
        let options = statement::include_options(found.between).map_err(|words| {
            ConfigError::new(
                Code::Syntax,
                format!("unexpected keyword(s) '{words}' after include"),
            )
            .hint("these may follow: ifexist, command")
        })?;
        let name = self.expand(found.value)?;
        let failed = |reason: String| {
            ConfigError::new(Code::Unreadable, format!("can't include {name}: {reason}"))
        };
        let command = options.command || name.ends_with('|');
        let read = if command {
            self.world
                .run(name.trim_end_matches(['|', ' ']))
                .map(|(text, _)| text)
        } else {
            self.world.read(&name)
        };
        match read {
            Err(_) if options.if_exists => Ok(()),
            Err(reason) => Err(failed(reason).hint("check the name, or write `include ifexist :`")),
            Ok(_) if depth + 1 >= MAX_DEPTH => Err(ConfigError::new(
                Code::TooDeep,
                format!("{name}: includes nested too deep"),
            )
            .hint("look for a file that includes itself")),
            Ok(text) => self.text(&name, &text, depth + 1),
        }
    }

    /// `use TEMPLATE : name(args)`: templates of the administrator, from SUBMIT_TEMPLATE_<name>.
    fn use_template(&mut self, found: &Statement<'_>, origin: &Origin, depth: u32) -> Done {
        let unknown = |name: &str| {
            ConfigError::new(
                Code::UnknownTemplate,
                format!("use {}: does not recognise {name}", found.between),
            )
            .hint("templates are knobs of the configuration: SUBMIT_TEMPLATE_<name>")
        };
        let wanted = templates::wanted(found.value).map_err(unknown)?;
        for want in wanted {
            let strict = found.between.eq_ignore_ascii_case("STRICT");
            let text = match strict {
                true => strict_template(want.name).map(str::to_owned),
                false => self.knobs.text(&format!("SUBMIT_TEMPLATE_{}", want.name)),
            };
            let text = text.ok_or_else(|| unknown(want.name))?;
            if depth + 1 >= MAX_DEPTH {
                return Err(ConfigError::new(
                    Code::TooDeep,
                    format!("{}: templates nested too deep", want.name),
                ));
            }
            let text = templates::with_arguments(&text, want.arguments) + "\n";
            let label = format!("{} (line {})", want.name, origin.line);
            self.text(&label, &text, depth + 1)?;
        }
        Ok(())
    }

    fn appended(&mut self) -> Done {
        let lines = self.facts.append.clone();
        for (at, line) in lines.iter().enumerate() {
            let source = self.set.add_source("<command line>");
            let origin = Origin {
                source,
                line: at as u32 + 1,
                template: None,
            };
            let line = trim(line);
            if queue::arguments(line).is_some() {
                let error =
                    ConfigError::new(Code::BadQueue, "a queue statement cannot be appended");
                return Err(error.hint("use -queue").at("<command line>", 0));
            }
            self.statement(line, &origin, 0)
                .map_err(|error| error.at("<command line>", 0))?;
        }
        Ok(())
    }

    fn queue(&mut self, arguments: &str, lines: &mut Lines<'_>) -> Done {
        let expanded = self.expand(arguments)?;
        let mut queue = queue::parse(&expanded)?;
        if queue.place == Place::Below {
            items::below(&mut queue, lines)?;
        }
        items::external(&mut queue, self.facts, self.world)?;
        if queue.mode.is_matching() {
            let rules = {
                let scope = self.scope();
                let command = |name: &str, other: &str| {
                    let raw = scope.raw(name).or_else(|| scope.raw(other))?;
                    Expander::new(&scope)
                        .expand(&raw)
                        .ok()
                        .filter(|text| !text.is_empty())
                };
                Matching::from_commands(&command)?
            };
            let warnings = &self.warnings;
            items::matching(&mut queue, &rules, self.world, &mut |text| {
                warnings.borrow_mut().push(text)
            })?;
        }
        self.jobs(&queue)
    }

    fn jobs(&mut self, queue: &Queue) -> Done {
        let names: Vec<String> = queue
            .variables
            .iter()
            .map(|name| name.to_ascii_lowercase())
            .collect();
        self.loop_names.extend(names.iter().cloned());
        let steps = make::steps(&self.set);
        let mut plan = Plan {
            steps,
            again: Vec::new(),
            fixed: Ad::new(),
            started: false,
        };
        if queue.mode == Mode::Plain {
            for step in 0..queue.count {
                self.live.step = step;
                self.live.row = 0;
                self.job(&mut plan)?;
            }
        } else {
            let length = queue.items.len();
            if length == 0 {
                self.warnings
                    .borrow_mut()
                    .push("the queue statement has no items, so it makes no jobs".into());
            }
            for (row, item) in queue
                .items
                .iter()
                .enumerate()
                .filter(|(row, _)| queue.slice.takes(*row, length))
            {
                let values = queue::split_item(item, names.len());
                self.live.items = names.iter().cloned().zip(values).collect();
                self.live.row = row as u32;
                for step in 0..queue.count {
                    self.live.step = step;
                    self.job(&mut plan)?;
                }
            }
        }
        self.live.items.clear();
        Ok(())
    }

    /// Makes one job, in the present cluster or a new one.
    fn job(&mut self, plan: &mut Plan) -> Done {
        let jobs: usize = self
            .made
            .clusters
            .iter()
            .map(|cluster| cluster.jobs.len())
            .sum();
        if jobs >= MAX_JOBS {
            return Err(
                ConfigError::new(Code::BadQueue, format!("more than {MAX_JOBS} jobs"))
                    .hint("use several submissions"),
            );
        }
        if !plan.started {
            return self.first_of_statement(plan);
        }
        let Some(cluster) = self.made.clusters.last_mut() else {
            return Ok(());
        };
        let mut cluster = std::mem::take(cluster);
        self.live.process = cluster.jobs.len() as u32;
        let made = self.with_job(&cluster.ad, plan.fixed.clone(), |job| {
            make::again(job, &plan.again)
        });
        let delta = made.map(|own| {
            if own.is_empty() {
                own
            } else {
                make::difference(&own, &cluster.ad)
            }
        });
        let result = delta.map(|delta| cluster.jobs.push(delta));
        if let Some(last) = self.made.clusters.last_mut() {
            *last = cluster;
        }
        result
    }

    /// The first job of a queue statement goes through all steps; a new executable starts a new cluster.
    fn first_of_statement(&mut self, plan: &mut Plan) -> Done {
        if let Some(cluster) = self.made.clusters.last_mut() {
            let cluster = std::mem::take(cluster);
            self.live.process = cluster.jobs.len() as u32;
            let steps = plan.steps.clone();
            let mut again = Vec::new();
            let made = self.with_job(&cluster.ad, Ad::new(), |job| {
                again = make::first(job, &steps)?;
                Ok(())
            });
            let same_program = made.as_ref().is_ok_and(|own| {
                own.get_str("Cmd") == cluster.ad.get_str("Cmd") || own.get_str("Cmd").is_none()
            });
            let cluster_slot = self.made.clusters.last_mut();
            match made {
                Ok(own) if same_program => {
                    let delta = make::difference(&own, &cluster.ad);
                    if let Some(slot) = cluster_slot {
                        *slot = cluster;
                        plan.begin(again, delta.clone());
                        slot.jobs.push(delta);
                    }
                    return Ok(());
                }
                other => {
                    if let Some(slot) = cluster_slot {
                        *slot = cluster;
                    }
                    other?;
                }
            }
        }
        self.new_cluster(plan)
    }

    fn new_cluster(&mut self, plan: &mut Plan) -> Done {
        let number = self.facts.first_cluster.unwrap_or(1) + self.made.clusters.len() as i32;
        self.live.cluster = number.to_string();
        self.live.process = 0;
        let steps = plan.steps.clone();
        let mut again = Vec::new();
        let own = self.with_job(&Ad::new(), base_ad(self.facts, self.knobs), |job| {
            again = make::first(job, &steps)?;
            Ok(())
        })?;
        plan.begin(again, Ad::new());
        if self.made.max_materialize.is_none() {
            let text = self
                .scope()
                .raw("max_materialize")
                .map(|raw| raw.into_owned());
            self.made.max_materialize = text.and_then(|text| crate::expr::integer(&text, "x"));
        }
        self.made.clusters.push(Cluster {
            ad: own,
            jobs: vec![Ad::new()],
        });
        Ok(())
    }

    fn with_job(
        &self,
        base: &Ad,
        own: Ad,
        run: impl FnOnce(&mut Job<'_>) -> Done,
    ) -> Result<Ad, ConfigError> {
        let iwd = match base.get_str("Iwd") {
            Some(Expr::Lit(Value::Str(text))) => text.to_text().into_owned(),
            _ => self.facts.cwd.clone(),
        };
        let mut job = Job {
            scope: self.scope(),
            facts: self.facts,
            knobs: self.knobs,
            base,
            own,
            iwd,
            warnings: &self.warnings,
            cached_requirements: &self.cache,
        };
        run(&mut job)?;
        Ok(job.own)
    }

    fn warn_unused(&self) {
        if self.made.clusters.is_empty() {
            return;
        }
        let used = self.used.borrow();
        for entry in self.set.entries() {
            let lower = entry.name.to_ascii_lowercase();
            if used.contains(&lower) || lower.starts_with("my.") || self.loop_names.contains(&lower)
            {
                continue;
            }
            let line = if entry.origin.line > 0 {
                format!("line {}: ", entry.origin.line)
            } else {
                String::new()
            };
            let mut text = format!("{line}`{} = {}` was not used", entry.name, entry.raw);
            if !commands::is_known(&entry.name) {
                match commands::similar(&entry.name) {
                    Some(name) => text.push_str(&format!("; did you mean {name}?")),
                    None => text.push_str("; is it a typo?"),
                }
            }
            self.warnings.borrow_mut().push(text);
        }
    }
}

struct Plan {
    steps: Vec<Step>,
    again: Vec<Step>,
    /// What all jobs of the statement have that differs from the cluster.
    fixed: Ad,
    started: bool,
}

impl Plan {
    fn begin(&mut self, again: Vec<Step>, fixed: Ad) {
        self.again = again;
        self.fixed = fixed;
        self.started = true;
    }
}

fn queue_like(line: &str) -> bool {
    let word = line
        .split_ascii_whitespace()
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    crate::knobs::distance(word.as_bytes(), b"queue", 2).is_some()
}

fn strict_template(name: &str) -> Option<&'static str> {
    let harsh = "SubmitWarnEmptyMatches=true\nSubmitFailEmptyMatches=true\nSubmitWarnDuplicateMatches=true\n\
                 SubmitFailEmptyFields=true\nSubmitWarnEmptyFields=true";
    match name.to_ascii_uppercase().as_str() {
        "FALSE" => Some(
            "SubmitWarnEmptyMatches=false\nSubmitFailEmptyMatches=false\nSubmitWarnDuplicateMatches=false\n\
             SubmitFailEmptyFields=false\nSubmitWarnEmptyFields=false",
        ),
        "TRUE" => Some(
            "SubmitWarnEmptyMatches=true\nSubmitFailEmptyMatches=true\nSubmitWarnDuplicateMatches=true\n\
             SubmitFailEmptyFields=false\nSubmitWarnEmptyFields=true",
        ),
        "HARSH" => Some(harsh),
        _ => None,
    }
}

/// What every cluster ad starts with.
fn base_ad(facts: &Facts, knobs: &dyn Knobs) -> Ad {
    const COUNTS: [&str; 15] = [
        "ExitStatus",
        "NumCkpts",
        "NumJobStarts",
        "NumJobCompletions",
        "NumRestarts",
        "NumSystemHolds",
        "CommittedTime",
        "CommittedSlotTime",
        "CumulativeSlotTime",
        "TotalSuspensions",
        "LastSuspensionTime",
        "CumulativeSuspensionTime",
        "CommittedSuspensionTime",
        "NumShadowStarts",
        "JobSubmitMethod",
    ];
    const TIMES: [&str; 5] = [
        "RemoteWallClockTime",
        "RemoteUserCpu",
        "RemoteSysCpu",
        "CumulativeRemoteUserCpu",
        "CumulativeRemoteSysCpu",
    ];
    let mut ad = Ad::with_capacity(96);
    let mut put = |name: &str, value: Value| {
        ad.insert(name.into(), Expr::Lit(value));
    };
    put("MyType", "Job".into());
    put("TargetType", "Machine".into());
    put("QDate", facts.now.into());
    put("EnteredCurrentStatus", facts.now.into());
    put("RootDir", "/".into());
    for name in COUNTS {
        put(name, 0.into());
    }
    for name in TIMES {
        put(name, 0.0.into());
    }
    put("ExitBySignal", false.into());
    for list in ["SUBMIT_ATTRS", "SUBMIT_EXPRS", "SYSTEM_SUBMIT_ATTRS"] {
        let names = knobs.text(list).unwrap_or_default();
        for name in crate::functions::list_items(&names) {
            let name = name.trim_start_matches('+');
            let text = knobs.text(name).unwrap_or_default();
            if let Ok(parsed) = classad::parse_expr(text.as_bytes(), classad::Syntax::default()) {
                ad.insert(name.into(), parsed);
            }
        }
    }
    ad
}
