//! Builds jobs by steps, and knows which steps must run again for each job.

use std::cell::RefCell;

use classad::Ad;

use crate::set::MacroSet;
use crate::submit::commands::{self, Command};
use crate::submit::extended::{self, Extended};
use crate::submit::job::{Done, Job};
use crate::submit::{
    Knobs, accounting, basic_attrs, credentials, gpus, job_set, policy, program, requirements,
    resources, transfer, universe, virtual_machine,
};

/// One step of making a job ad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Universe and containers.
    Universe,
    /// The virtual machine.
    VirtualMachine,
    /// Iwd.
    Directory,
    /// Cmd.
    Executable,
    /// Arguments.
    Arguments,
    /// Environment.
    Environment,
    /// JobStatus.
    Status,
    /// In, Out, Err.
    Stream(usize),
    /// JobNotification.
    Notification,
    /// Rank.
    Rank,
    /// Periodic expressions.
    Periodic,
    /// LeaveJobInQueue.
    LeaveInQueue,
    /// OnExitRemove and its relatives.
    Retries,
    /// KillSig and its relatives.
    KillSignals,
    /// x509userproxy, ScitokensFile, OAuthServicesNeeded.
    Credentials,
    /// RequestCpus.
    Cpus,
    /// RequestMemory.
    Memory,
    /// RequestDisk.
    Disk,
    /// RequestGPUs.
    Gpus,
    /// Another request_<tag>.
    Custom(String),
    /// ConcurrencyLimits.
    ConcurrencyLimits,
    /// AccountingGroup.
    AccountingGroup,
    /// Simple commands, from one place of the table to another.
    Simple(usize, usize),
    /// Ports of a container's services.
    Services,
    /// DeferralTime and its relatives.
    Deferral,
    /// ImageSize.
    ImageSize,
    /// File transfer.
    Transfer,
    /// What every job has.
    Automatic,
    /// A command of EXTENDED_SUBMIT_COMMANDS.
    Extended(Extended),
    /// `MY.X = ...` and `+X = ...`.
    Forced(String),
    /// `jobset.name = ...` and `jobset.X = ...`.
    JobSet(Vec<String>),
    /// RequireGPUs.
    RequireGpus,
    /// Requirements.
    Requirements,
}

impl Step {
    fn run(&self, job: &mut Job<'_>) -> Done {
        match self {
            Self::Universe => universe::universe(job),
            Self::VirtualMachine => virtual_machine::virtual_machine(job),
            Self::Directory => basic_attrs::directory(job),
            Self::Executable => program::executable(job),
            Self::Arguments => program::arguments(job),
            Self::Environment => basic_attrs::environment(job),
            Self::Status => basic_attrs::status(job),
            Self::Stream(which) => basic_attrs::stream(job, *which),
            Self::Notification => basic_attrs::notification(job),
            Self::Rank => basic_attrs::rank(job),
            Self::Periodic => policy::periodic(job),
            Self::LeaveInQueue => policy::leave_in_queue(job),
            Self::Retries => policy::retries(job),
            Self::KillSignals => basic_attrs::kill_signals(job),
            Self::Credentials => credentials::credentials(job),
            Self::Cpus => resources::cpus(job),
            Self::Memory => resources::memory(job),
            Self::Disk => resources::disk(job),
            Self::Gpus => gpus::gpus(job),
            Self::Custom(command) => resources::custom(job, command),
            Self::ConcurrencyLimits => accounting::concurrency_limits(job),
            Self::AccountingGroup => accounting::accounting_group(job),
            Self::Simple(from, to) => {
                let mut given = false;
                commands::all()[*from..*to]
                    .iter()
                    .try_for_each(|command| policy::simple(job, command, &mut given))
            }
            Self::Services => universe::services(job),
            Self::Deferral => policy::deferral(job),
            Self::ImageSize => resources::image_size(job),
            Self::Transfer => transfer::files(job),
            Self::Automatic => policy::automatic(job),
            Self::Extended(command) => extended::extended(job, command),
            Self::Forced(name) => forced(job, name),
            Self::JobSet(commands) => job_set::job_set(job, commands),
            Self::RequireGpus => gpus::require_gpus(job),
            Self::Requirements => requirements::requirements(job),
        }
    }

    /// Simple commands that this step covers.
    fn simple(&self) -> &'static [Command] {
        match self {
            Self::Simple(from, to) => &commands::all()[*from..*to],
            _ => &[],
        }
    }

    /// Whether this step must run again when `other` gives something else.
    fn follows(&self, other: &Step) -> bool {
        const READ_BY_REQUIREMENTS: [&str; 10] = [
            "TransferPlugins",
            "OutputDestination",
            "EncryptExecuteDirectory",
            "EncryptInputFiles",
            "EncryptOutputFiles",
            "DontEncryptInputFiles",
            "DontEncryptOutputFiles",
            "DockerNetworkType",
            "CronMinute",
            "CronHour",
        ];
        match self {
            Self::Simple(..) => {
                *other == Self::Directory && self.simple().iter().any(|command| command.file)
            }
            Self::Extended(_) => *other == Self::Directory,
            Self::Services => *other == Self::Universe,
            Self::ImageSize => matches!(other, Self::Executable | Self::VirtualMachine),
            Self::Transfer => {
                matches!(
                    other,
                    Self::Directory
                        | Self::Executable
                        | Self::Stream(0)
                        | Self::ImageSize
                        | Self::Universe
                        | Self::VirtualMachine
                ) || other
                    .simple()
                    .iter()
                    .any(|c| ["JarFiles", "ContainerIsCommon"].contains(&c.attribute))
            }
            Self::JobSet(_) => {
                matches!(other, Self::Forced(_))
                    || other.simple().iter().any(|c| c.attribute == "JobSetName")
            }
            Self::RequireGpus => matches!(other, Self::Gpus | Self::Forced(_)),
            Self::Requirements => match other {
                Self::Universe
                | Self::VirtualMachine
                | Self::Cpus
                | Self::Memory
                | Self::Disk
                | Self::Gpus
                | Self::Custom(_)
                | Self::Deferral
                | Self::Extended(_)
                | Self::Transfer
                | Self::Forced(_)
                | Self::RequireGpus => true,
                Self::Simple(..) => other
                    .simple()
                    .iter()
                    .any(|c| READ_BY_REQUIREMENTS.contains(&c.attribute)),
                _ => false,
            },
            _ => false,
        }
    }
}

/// Sets an attribute that the description names itself.
fn forced(job: &mut Job<'_>, name: &str) -> Done {
    let attribute = &name["MY.".len()..];
    let text = job.command(name, "")?.unwrap_or_else(|| "undefined".into());
    job.put_expr(attribute, &text, name)
}

/// All steps for a description, in order.
#[must_use]
pub fn steps(set: &MacroSet, knobs: &dyn Knobs) -> Vec<Step> {
    let mut steps = vec![
        Step::Universe,
        Step::VirtualMachine,
        Step::Directory,
        Step::Executable,
        Step::Arguments,
        Step::Environment,
        Step::Status,
        Step::Stream(0),
        Step::Stream(1),
        Step::Stream(2),
        Step::Notification,
        Step::Rank,
        Step::Periodic,
        Step::LeaveInQueue,
        Step::Retries,
        Step::KillSignals,
        Step::Credentials,
        Step::Cpus,
        Step::Gpus,
        Step::Disk,
        Step::Memory,
    ];
    let entries = || set.entries().iter().map(|entry| entry.name.to_string());
    let starts = |name: &str, prefix: &str| {
        name.len() > prefix.len()
            && name.as_bytes()[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes())
    };
    steps.extend(
        entries()
            .filter(|name| starts(name, "request_"))
            .map(Step::Custom),
    );
    steps.extend([Step::ConcurrencyLimits, Step::AccountingGroup]);
    let all = commands::all();
    let mut from = 0;
    while from < all.len() {
        let mut to = from + 1;
        while to < all.len() && all[to].alias {
            to += 1;
        }
        if all[from].simple {
            steps.push(Step::Simple(from, to));
        }
        from = to;
    }
    steps.extend([
        Step::Services,
        Step::Deferral,
        Step::ImageSize,
        Step::Transfer,
        Step::Automatic,
    ]);
    steps.extend(extended::commands(knobs).into_iter().map(Step::Extended));
    steps.extend(
        entries()
            .filter(|name| starts(name, "MY."))
            .map(Step::Forced),
    );
    let about_set = entries().filter(|name| job_set::is_about_set(name));
    steps.push(Step::JobSet(about_set.collect()));
    steps.extend([Step::RequireGpus, Step::Requirements]);
    steps
}

/// Runs all steps and returns those that must run again for each job.
///
/// # Errors
/// Everything a step refuses.
pub fn first(job: &mut Job<'_>, steps: &[Step]) -> Result<Vec<Step>, crate::ConfigError> {
    let mut again: Vec<Step> = Vec::new();
    for step in steps {
        job.scope.touched.job.set(false);
        step.run(job)?;
        if job.scope.touched.job.get() || again.iter().any(|other| step.follows(other)) {
            again.push(step.clone());
        }
    }
    Ok(again)
}

/// Runs the steps that differ from job to job.
///
/// # Errors
/// Everything a step refuses.
pub fn again(job: &mut Job<'_>, steps: &[Step]) -> Done {
    steps.iter().try_for_each(|step| step.run(job))
}

/// What an ad has that its base does not have in the same way.
#[must_use]
pub fn difference(own: &Ad, base: &Ad) -> Ad {
    own.iter()
        .filter(|(name, expr)| base.get(name) != Some(expr))
        .map(|(name, expr)| (name.clone(), expr.clone()))
        .collect()
}

/// A shared place for the Requirements made last.
pub type Cache = RefCell<Option<(String, classad::Expr)>>;
