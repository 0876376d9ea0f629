//! What each command does to the graph.

use super::{
    Command, Cow, Description, Dot, Kind, NONE, Node, NodeCommand, NodeId, Reader, Scope, Script,
    StatusFile, Step, Stop, Tolerance, Var, Word, absolute, below, is, limits,
};
use crate::command::ScriptCommand;

const SUB_DAG: &str = ".condor.sub";

impl Reader<'_> {
    pub(super) fn apply(&mut self, command: Command<'_>, scope: usize) -> Step {
        match command {
            Command::Node(word, node) => return self.node(word, &node, scope),
            Command::Splice {
                name,
                file,
                directory,
            } => return self.splice(&name, &file, directory.as_deref(), scope),
            Command::Include(file) => {
                let close = vec![format!("Processing error at {}:{}", self.label, self.line)];
                self.frames.push(close);
                self.file(&file, scope);
                self.frames.pop();
            }
            Command::SubmitDescription { name, text } => self.describe(&name, &text),
            Command::Parent {
                parents,
                children,
                weak,
            } => return self.dependencies(&parents, &children, weak, scope),
            Command::Connect(from, to) => return self.connect(&from, &to, scope),
            Command::Pin { out, node, pin } => self.pin(out, &node, pin, scope),
            Command::Script(script) => self.script(&script, scope),
            Command::Retry { node, most, unless } => {
                self.each(scope, &node, ".", |reader, node| {
                    let name = reader.out.graph.name(node).to_owned();
                    if !reader.is_job(
                        node,
                        &format!("RETRY node {name} can not have a retry specification"),
                    ) {
                        return;
                    }
                    let made = &mut reader.out.graph.nodes[node as usize];
                    made.retries = most;
                    made.unless = unless.unwrap_or(0);
                });
            }
            Command::AbortDagOn {
                node,
                value,
                result,
            } => self.each(scope, &node, ".", |reader, node| {
                if reader.kind(node) == Kind::Final {
                    let name = reader.out.graph.name(node);
                    let text =
                        format!("FINAL node {name} cannot have an ABORT-DAG-ON specification.");
                    reader.wrong(&[format!("ERROR: {text}")], &text, "");
                    return;
                }
                reader.out.graph.extra_mut(node).abort = Some((value, result));
            }),
            Command::Vars {
                node,
                append,
                pairs,
            } => return self.vars(&node, append, &pairs, scope),
            Command::Priority { node, value } => {
                self.each(scope, &node, "", |reader, node| {
                    reader.prioritize(node, value)
                });
            }
            Command::PreSkip { node, value } => {
                self.each(scope, &node, "", |reader, node| reader.skip(node, value));
            }
            Command::Tolerance {
                node,
                value,
                percent,
                rest,
            } => self.each(scope, &node, "", |reader, node| {
                reader.out.graph.extra_mut(node).tolerance = Some(Tolerance {
                    value,
                    percent,
                    rest,
                });
            }),
            Command::Done(node) => self.done(&node, scope),
            Command::Category { node, name } => {
                let category = self.category(&name, scope);
                self.each(scope, &node, "", |reader, node| {
                    reader.categorize(node, &name, category);
                });
            }
            Command::Maxjobs { category, limit } => self.throttle(&category, limit, scope),
            Command::SavePointFile { node, file } => self.save_point(&node, file.as_deref(), scope),
            Command::Reject => {
                let said = format!("DAG marked as rejected at {}:{}", self.label, self.line);
                self.wrong(
                    &[said],
                    "the DAG is marked as rejected",
                    "remove REJECT to run it",
                );
            }
            whole => self.setting(whole, scope),
        }
        Ok(())
    }

    /// What a command says about the DAG as a whole; only the DAG's own files do so.
    pub(super) fn setting(&mut self, command: Command<'_>, scope: usize) {
        let directory = self.scopes[scope].directory.clone();
        let settings = &mut self.out.graph.settings;
        let (former, which, file) = match command {
            Command::Config(file) => {
                settings.configs.push(absolute(&directory, &file));
                return;
            }
            Command::SetJobAttr(line) => {
                settings.attributes.push(line.to_owned());
                return;
            }
            Command::Env { set, variables } => {
                settings.environment.push((set, variables.into_owned()));
                return;
            }
            _ if scope != 0 => return,
            Command::Dot {
                file,
                update,
                overwrite,
                header,
            } => {
                settings.dot = Some(Dot {
                    file: file.into_owned(),
                    update,
                    overwrite,
                    header: header.map(Cow::into_owned),
                });
                return;
            }
            Command::NodeStatusFile {
                file,
                seconds,
                always,
            } => match &settings.status_file {
                Some(former) => (former.file.clone(), "NODE_STATUS_FILE", file),
                None => {
                    settings.status_file = Some(StatusFile {
                        file: file.into_owned(),
                        seconds,
                        always,
                    });
                    return;
                }
            },
            Command::JobstateLog(file) => match &settings.jobstate_log {
                Some(former) => (former.clone(), "JOBSTATE_LOG", file),
                None => {
                    settings.jobstate_log = Some(file.into_owned());
                    return;
                }
            },
            _ => return,
        };
        let text = format!(
            "Warning: Attempt to set {which} to {file} does not override existing value of {former}"
        );
        self.warn(3, &text);
    }

    // ------------------------------------------------------------------------------------------------- nodes

    fn text(&mut self, text: &str) -> u32 {
        self.out.graph.texts.intern(text)
    }

    pub(super) fn has_room(&mut self, more: usize) -> Step {
        let graph = &self.out.graph;
        if graph.names.bytes() + graph.texts.bytes() + more > limits::NAMES {
            return self.bound("2 GiB of names and values");
        }
        Ok(())
    }

    fn node(&mut self, word: Word, made: &NodeCommand<'_>, scope: usize) -> Step {
        let name = self.munged(&made.name).into_owned();
        let full = format!("{}{name}", self.scopes[scope].prefix);
        if full.len() > limits::NAME {
            let text = format!(
                "a node's name has {} characters, and {} are the most",
                full.len(),
                limits::NAME
            );
            self.wrong(&[format!("ERROR: {text}")], &text, "give it a shorter one");
            return Ok(());
        }
        if self.out.graph.find(&full).is_some() {
            let text = format!("Node {name} already exists in DAG.");
            self.wrong(
                &[format!("ERROR: {text}")],
                &text,
                "each node needs a name of its own",
            );
            return Ok(());
        }
        if self.scopes[scope].splices.contains_key(&name) {
            let text = format!("Node name {name} already associated with a splice in DAG");
            self.wrong(&[format!("ERROR: {text}")], &text, "");
            return Ok(());
        }
        let mut description = match &made.description {
            Description::Named(file) => file.clone().into_owned(),
            Description::Inline(text) => {
                let own = format!("{name}-InlineDesc{}", self.inline);
                self.inline += 1;
                self.describe(&own, text);
                own
            }
        };
        let mut dag_file = NONE;
        if word == Word::Subdag {
            dag_file = self.text(&description);
            description.push_str(SUB_DAG);
        } else if let Some(file) = description.strip_suffix(SUB_DAG) {
            if word == Word::Final {
                dag_file = self.out.graph.texts.intern(file);
            } else {
                let text = "Error: The use of the JOB keyword for nested DAGs is prohibited.";
                let hint = format!("write SUBDAG EXTERNAL {} {file}", made.name);
                self.wrong(&[text.to_owned()], text, &hint);
                return Ok(());
            }
        }
        let directory = if self.options.use_dag_dir {
            if made.directory.is_some() {
                let text = "Node DIR <directory> sub-command can not be used with -UseDagDir";
                self.wrong(&[format!("ERROR: {text}")], text, "");
                return Ok(());
            }
            self.scopes[scope].directory.clone()
        } else {
            let own = made.directory.as_deref().unwrap_or_default();
            below(&self.scopes[scope].node_directory, own)
        };
        let kind = match word {
            Word::Final => Kind::Final,
            Word::Provisioner => Kind::Provisioner,
            Word::Service => Kind::Service,
            _ => Kind::Job,
        };
        if made.done && kind != Kind::Job {
            // HTCondor says so twice at this strictness, and goes on.
            let text = format!(
                "WARNING: {} node {name} can not be marked as DONE",
                word.name()
            );
            self.problem(
                super::Severity::Warning,
                text.clone(),
                String::new(),
                vec![text],
            );
        }
        let (description, directory) = (self.text(&description), self.text(&directory));
        let done = made.done && kind == Kind::Job;
        let node = Node {
            description,
            dag_file,
            directory,
            category: NONE,
            kind,
            noop: made.noop,
            done,
            done_by_job: done,
            join: false,
            related: (false, false),
            priority: 0,
            retries: 0,
            unless: 0,
            file: NONE,
            line: 0,
            scope: scope as u32,
            extra: NONE,
            vars: NONE,
        };
        self.add(&full, node, scope)
    }

    pub(super) fn add(&mut self, full: &str, mut node: Node, scope: usize) -> Step {
        if self.out.graph.nodes.len() >= limits::NODES {
            return self.bound(&format!("{} nodes", limits::NODES));
        }
        self.has_room(full.len())?;
        node.file = self.out.graph.texts.intern(&self.label);
        node.line = self.line;
        let graph = &mut self.out.graph;
        let (place, what) = match node.kind {
            Kind::Final => (&mut graph.last, "final"),
            Kind::Provisioner => (&mut graph.provisioner, "provisioner"),
            _ => (&mut None, ""),
        };
        let former = *place;
        let kind = node.kind;
        let id = graph.names.intern(full);
        debug_assert_eq!(id as usize, graph.nodes.len());
        if let Some(former) = former {
            // The node is kept, so that what follows about it is understood.
            graph.nodes.push(node);
            let (former, own) = (
                graph.names.get(former).to_owned(),
                full.strip_prefix(&self.scopes[scope].prefix)
                    .unwrap_or(full),
            );
            let log = [
                format!(
                    "Error: DAG already has a {what} node {former}; attempting to add {what} node {own}"
                ),
                format!("ERROR: Failed to add node {own} to DAG."),
            ];
            let text = format!("the DAG has a {what} node already, {former}");
            self.wrong(&log, &text, "there can be one only");
            return Ok(());
        }
        if matches!(kind, Kind::Final | Kind::Provisioner) {
            *place = Some(id);
        }
        self.scopes[scope].has_final |= kind == Kind::Final;
        graph.nodes.push(node);
        if kind == Kind::Service {
            graph.services.push(id);
        } else {
            self.scopes[scope].nodes.push(id);
        }
        Ok(())
    }

    fn describe(&mut self, name: &str, text: &str) {
        let (name_id, text_id) = (self.text(name), self.text(text));
        let known = self.described.get(&name_id).copied();
        if known.is_some_and(|known| known != text_id) {
            let warning = format!(
                "WARNING: Conflicting inline descriptions using the same name '{name}', the first one stays."
            );
            self.problem(
                super::Severity::Warning,
                warning.clone(),
                String::new(),
                vec![warning],
            );
        } else if known.is_none() {
            self.described.insert(name_id, text_id);
            self.out.graph.descriptions.push((name_id, text_id));
        }
    }

    fn splice(&mut self, name: &str, file: &str, directory: Option<&str>, scope: usize) -> Step {
        let munged = self.munged(name).into_owned();
        let refused = if self.find(scope, name).is_some() {
            format!("Splice name {name} already associated with a node in DAG.")
        } else if self.scopes[scope].splices.contains_key(&munged) {
            format!("Splice named {name} already exists in DAG.")
        } else {
            String::new()
        };
        if !refused.is_empty() {
            self.wrong(&[format!("ERROR: {refused}")], &refused, "");
            return Ok(());
        }
        let here = &self.scopes[scope];
        let directory = directory.unwrap_or_default();
        let inner = Scope {
            prefix: format!("{}{munged}+", here.prefix),
            node_directory: below(&here.node_directory, directory),
            directory: absolute(&here.directory, directory),
            depth: here.depth + 1,
            ..Scope::default()
        };
        let at = self.scopes.len();
        self.scopes.push(inner);
        let place = format!("Processing error at {}:{}", self.label, self.line);
        let failed = format!("ERROR: Failed to parse splice {name}'s DAG file {file}");
        self.frames.push(vec![failed, place]);
        self.file(file, at);
        self.frames.pop();
        if self.stopped {
            return Err(Stop);
        }
        self.leave(at);
        if self.scopes[at].has_final {
            let text = format!("Splice {name} has a FINAL node. This is not permitted.");
            self.wrong(&[format!("ERROR: {text}")], &text, "");
            self.out.graph.last = None; // a FINAL node of the DAG's own is another matter
        }
        self.scopes[scope].splices.insert(munged, at);
        Ok(())
    }

    // ----------------------------------------------------------------------------------------- commands of a node

    pub(super) fn kind(&self, node: NodeId) -> Kind {
        self.out.graph.nodes[node as usize].kind
    }

    /// Whether a node is one of JOB or SUBDAG; an error if not.
    fn is_job(&mut self, node: NodeId, otherwise: &str) -> bool {
        let is_job = self.kind(node) == Kind::Job;
        if !is_job {
            self.wrong(&[format!("ERROR: {otherwise}")], otherwise, "");
        }
        is_job
    }

    /// Does something to the node of a name, or to all of JOB and SUBDAG for ALL_NODES. `dot` ends HTCondor's message.
    fn each(
        &mut self,
        scope: usize,
        name: &str,
        dot: &str,
        mut act: impl FnMut(&mut Self, NodeId),
    ) {
        if is(name, "ALL_NODES") {
            let own = std::mem::take(&mut self.scopes[scope].nodes);
            for node in &own {
                if self.kind(*node) == Kind::Job {
                    act(self, *node);
                }
            }
            let any = own.iter().any(|node| self.kind(*node) == Kind::Job);
            self.scopes[scope].nodes = own;
            if any {
                return;
            }
        } else if let Some(node) = self.find(scope, name) {
            act(self, node);
            return;
        }
        let said = format!("Unknown node {} referenced{dot}", self.munged(name));
        self.unknown_node(scope, name, &said);
    }

    fn script(&mut self, script: &ScriptCommand<'_>, scope: usize) {
        let line = self.text(script.line);
        let debug = script
            .debug
            .as_ref()
            .map(|(file, output)| (self.out.graph.texts.intern(file), *output));
        let made = Script {
            line,
            defer: script.defer,
            debug,
        };
        self.each(scope, &script.node, ".", |reader, node| {
            let kind = script.kind;
            let former = reader.out.graph.extra_mut(node).scripts[kind as usize].replace(made);
            if let Some(former) = former {
                let graph = &reader.out.graph;
                let text = format!(
                    "Warning: node {} already has {} script <{}> assigned; changing to <{}>",
                    graph.name(node),
                    kind.name(),
                    graph.text(former.line),
                    script.line
                );
                reader.problem(
                    super::Severity::Warning,
                    text.clone(),
                    String::new(),
                    vec![text],
                );
            }
        });
    }

    fn vars(
        &mut self,
        node: &str,
        append: Option<bool>,
        pairs: &[(Cow<'_, str>, String)],
        scope: usize,
    ) -> Step {
        self.has_room(
            pairs
                .iter()
                .map(|(key, value)| key.len() + value.len())
                .sum(),
        )?;
        let append = append.unwrap_or(self.options.append_vars);
        let made: Vec<(u32, u32)> = pairs
            .iter()
            .map(|(key, value)| (self.text(key), self.text(value)))
            .collect();
        self.each(scope, node, ".", |reader, node| {
            for (key, value) in &made {
                reader.set_var(node, *key, *value, append);
            }
        });
        if self.out.graph.vars.len() > limits::VARS {
            return self.bound(&format!("{} variables", limits::VARS));
        }
        Ok(())
    }

    fn set_var(&mut self, node: NodeId, key: u32, value: u32, append: bool) {
        let graph = &mut self.out.graph;
        let mut at = graph.nodes[node as usize].vars;
        while at != NONE {
            let var = &mut graph.vars[at as usize];
            if var.key == key {
                var.value = value;
                let (name, shown) = (graph.names.get(node), graph.texts.get(key));
                let text =
                    format!("Warning: VAR \"{shown}\" is already defined in node \"{name}\"");
                self.warn(3, &text);
                return;
            }
            at = var.before;
        }
        let made = &mut graph.nodes[node as usize].vars;
        let before = std::mem::replace(made, u32::try_from(graph.vars.len()).unwrap_or(NONE));
        graph.vars.push(Var {
            key,
            value,
            append,
            before,
        });
    }

    fn prioritize(&mut self, node: NodeId, value: i32) {
        let name = self.out.graph.name(node).to_owned();
        if !self.is_job(
            node,
            &format!("PRIORITY node {name} can not have a priority"),
        ) {
            return;
        }
        let former = std::mem::replace(&mut self.out.graph.nodes[node as usize].priority, value);
        if former != 0 && former != value {
            self.warn(
                2,
                &format!(
                    "WARNING: New priority {value} for node {name} overrides old value {former}"
                ),
            );
        }
    }

    fn skip(&mut self, node: NodeId, value: i32) {
        let name = self.out.graph.name(node).to_owned();
        if !(0..=255).contains(&value) {
            let text = format!(
                "Failed to add pre skip to {name}: PRE_SKIP exit code must be between 0 and 255"
            );
            self.wrong(&[format!("ERROR: {text}")], &text, "");
            return;
        }
        if value == 0 {
            let text = "Warning: exit code 0 for a PRE_SKIP value is weird.".to_owned();
            self.problem(
                super::Severity::Warning,
                text.clone(),
                String::new(),
                vec![text],
            );
        }
        if let Some(former) = self.out.graph.extra_mut(node).pre_skip.replace(value) {
            self.warn(
                3,
                &format!("Warning: new PRE_SKIP value  {value} for node {name} overrides old value {former}"),
            );
        }
    }

    fn done(&mut self, name: &str, scope: usize) {
        let Some(node) = self.find(scope, name) else {
            let said = format!("Unknown node {} referenced", self.munged(name));
            self.unknown_node(scope, name, &said);
            return;
        };
        if self.kind(node) == Kind::Job {
            self.out.graph.nodes[node as usize].done = true;
        } else {
            self.warn(
                1,
                "WARNING: DONE node(s) can not be referenced by the DONE command",
            );
        }
    }

    fn save_point(&mut self, name: &str, file: Option<&str>, scope: usize) {
        let Some(node) = self.find(scope, name) else {
            let said = format!("Unknown node {} referenced", self.munged(name));
            self.unknown_node(scope, name, &said);
            return;
        };
        if self.kind(node) != Kind::Job {
            let text = "Save file can not be applied to SAVE_POINT_FILE node(s)";
            self.wrong(&[format!("ERROR: {text}")], text, "");
            return;
        }
        let base = self.label.rsplit('/').next().unwrap_or_default();
        let default = format!("{name}-{base}.save");
        let file = self.text(file.unwrap_or(&default));
        self.out.graph.extra_mut(node).save_point = Some(file);
    }

    // -------------------------------------------------------------------------------------------- categories

    fn category(&mut self, name: &str, scope: usize) -> u32 {
        if name.starts_with('+') {
            self.text(name)
        } else {
            let full = format!("{}{name}", self.scopes[scope].prefix);
            self.text(&full)
        }
    }

    fn categorize(&mut self, node: NodeId, name: &str, category: u32) {
        let full = self.out.graph.name(node).to_owned();
        if !self.is_job(
            node,
            &format!("CATEGORY node {full} can not be added to a category"),
        ) {
            return;
        }
        let former = std::mem::replace(&mut self.out.graph.nodes[node as usize].category, category);
        if former != NONE && former != category {
            let old = self.out.graph.text(former).to_owned();
            self.warn(
                3,
                &format!("Warning: new category {name} for node {full} overrides old value {old}"),
            );
        }
    }

    fn throttle(&mut self, name: &str, limit: i32, scope: usize) {
        let category = self.category(name, scope);
        let depth = self.scopes[scope].depth;
        let Some(at) = self.throttle_at.get(&category).copied() else {
            self.throttle_at
                .insert(category, self.out.graph.throttles.len());
            self.throttled.insert(category, depth);
            self.out.graph.throttles.push((category, limit));
            return;
        };
        let known = self.throttled.insert(category, depth).unwrap_or(depth);
        let former = std::mem::replace(&mut self.out.graph.throttles[at].1, limit);
        if former == limit {
            return;
        }
        let full = self.out.graph.text(category).to_owned();
        if known == depth {
            self.warn(
                3,
                &format!("Warning: new maxjobs value {limit} for category {full} overrides old value {former}"),
            );
        } else {
            let level = match self.scopes[scope].prefix.as_str() {
                "" => "root",
                prefix => prefix,
            };
            let text = format!(
                "Warning: higher-level ({level}) maxjobs value of {limit} for category {full} overrides splice value of {former}"
            );
            self.warn(2, &text);
        }
    }
}
