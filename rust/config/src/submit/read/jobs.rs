//! Queue statements: items, and a job for each.

use classad::{Ad, Expr, Value};

use super::{Done, Reading};
use crate::error::{Code, ConfigError};
use crate::expand::Expander;
use crate::lines::Lines;
use crate::scope::Scope;
use crate::submit::Cluster;
use crate::submit::base_ad::base_ad;
use crate::submit::builder::{self, Step};
use crate::submit::items::{self, Matching};
use crate::submit::job::Job;
use crate::submit::queue::{self, Mode, Place, Queue};
use crate::submit::table;
use crate::submit::universe;

/// Most jobs that one description may make.
const MAX_JOBS: usize = 10_000_000;

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

impl Reading<'_> {
    pub(super) fn queue(&mut self, arguments: &str, lines: &mut Lines<'_>) -> Done {
        let queue = self.gather(arguments, lines)?;
        self.jobs(&queue)
    }

    /// The queue statement with all its items.
    pub(super) fn gather(
        &mut self,
        arguments: &str,
        lines: &mut Lines<'_>,
    ) -> Result<Queue, ConfigError> {
        let expanded = self.expand(arguments)?;
        let mut queue = queue::parse(&expanded)?;
        if queue.place == Place::Below {
            items::below(&mut queue, lines)?;
        }
        items::external(&mut queue, self.facts, self.world)?;
        if queue.blank_lines > 0 {
            let count = queue.blank_lines;
            let lines = if count == 1 { "line" } else { "lines" };
            self.warnings.borrow_mut().push(format!(
                "{count} blank {lines} in the list of items left out (HTCondor queues a job for each, with the values of \
                 the line before it)"
            ));
        }
        table::apply(&mut queue)?;
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
        Ok(queue)
    }

    fn jobs(&mut self, queue: &Queue) -> Done {
        let names: Vec<String> = queue
            .variables
            .iter()
            .map(|name| name.to_ascii_lowercase())
            .collect();
        for name in &queue.variables {
            if !self
                .loop_names
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
            {
                self.loop_names.push(name.clone());
            }
        }
        let named = self.scope().raw("universe").map(|raw| self.expand(&raw));
        let is_parallel =
            named.is_some_and(|text| text.is_ok_and(|name| universe::is_parallel(&name)));
        self.live.node = if is_parallel { universe::NODE } else { "" };
        let steps = builder::steps(&self.set, self.knobs);
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
                let values = queue.split(item);
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
            builder::again(job, &plan.again)
        });
        let delta = made.map(|own| {
            if own.is_empty() {
                own
            } else {
                builder::difference(&own, &cluster.ad)
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
                again = builder::first(job, &steps)?;
                Ok(())
            });
            let same_program = made.as_ref().is_ok_and(|own| {
                own.get_str("Cmd") == cluster.ad.get_str("Cmd") || own.get_str("Cmd").is_none()
            });
            let cluster_slot = self.made.clusters.last_mut();
            match made {
                Ok(own) if same_program => {
                    let delta = builder::difference(&own, &cluster.ad);
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
            again = builder::first(job, &steps)?;
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
            job_set: self.job_set.take(),
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
            job_set: &self.job_set,
            warnings: &self.warnings,
            cached_requirements: &self.cache,
        };
        run(&mut job)?;
        Ok(job.own)
    }
}
