//! The Requirements of a job: what its author wrote, and clauses for what the job needs unless the author deals
//! with that attribute already.

use classad::analysis::Reads;
use classad::{Expr, Value};

use crate::expr;
use crate::submit::job::{self, Done, Job};
use crate::submit::policy::is_deferred;
use crate::submit::virtual_machine;

/// Conditions, joined by `&&`.
pub struct Clauses {
    text: String,
}

impl Clauses {
    /// Adds a condition.
    pub fn and(&mut self, clause: &str) {
        if !self.text.is_empty() {
            self.text.push_str(" && ");
        }
        self.text.push_str(clause);
    }
}

/// Sets Requirements.
pub fn requirements(job: &mut Job<'_>) -> Done {
    let given = job.command("requirements", "")?;
    if job.command("MY.Requirements", "")?.is_some() {
        if given.is_some() {
            job.warn(
                "Use of MY.Requirements or +Requirements overrides requirements. You should remove one of these \
                 statements from your submit file."
                    .into(),
            );
        }
        return Ok(());
    }
    let mut clauses = Clauses {
        text: given
            .as_ref()
            .map(|text| format!("({text})"))
            .unwrap_or_default(),
    };
    let universe = job.integer("JobUniverse").unwrap_or(job::VANILLA);
    let of_universe = match universe {
        job::VANILLA => job.knobs.text("APPEND_REQ_VANILLA"),
        job::VM => job.knobs.text("APPEND_REQ_VM"),
        _ => None,
    };
    if let Some(appended) = of_universe.or_else(|| job.knobs.text("APPEND_REQUIREMENTS")) {
        clauses.and(&format!("({appended})"));
    }
    let mentioned = if clauses.text.is_empty() {
        Mentioned::default()
    } else {
        let parsed = job.parse("Requirements", &clauses.text, "requirements")?;
        Mentioned(Reads::of(&parsed))
    };
    if mentioned.of_any("Requirements") {
        let message = format!("Requirements = {} is circular", clauses.text);
        return Err(job.bad(
            "requirements",
            message,
            "did you intend to use $(requirements)?",
        ));
    }
    if universe == job::JAVA {
        clauses.and("TARGET.HasJava");
    } else if job::runs_on_slots(universe) {
        platform(job, &mentioned, &mut clauses);
    }
    resources(job, &mentioned, &mut clauses, universe);
    if job::runs_on_slots(universe) {
        file_transfer(job, &mentioned, &mut clauses);
    }
    if is_deferred(job) {
        deferral(job, &mut clauses, universe)?;
    }
    if job.is_true("WantFTOnCheckpoint") && !mentioned.of_target("HasSelfCheckpointTransfers") {
        clauses.and("TARGET.HasSelfCheckpointTransfers");
    }
    super::gpus::cuda_version(job)?;
    if job.has("CUDAVersion") && !mentioned.of_target("CUDAMaxSupportedVersion") {
        clauses.and("CUDAVersion <= TARGET.CUDAMaxSupportedVersion");
    }
    if clauses.text.is_empty() {
        clauses.and("true");
    }
    put(job, clauses.text)
}

/// What the user's own Requirements reads. No condition is added on an attribute that it reads of the slot.
#[derive(Default)]
pub struct Mentioned(Reads);

impl Mentioned {
    /// Whether it reads the attribute of the slot.
    #[must_use]
    pub fn of_target(&self, name: &str) -> bool {
        self.0.of_target().any(|known| known.is(name))
    }

    /// Whether it reads the attribute of the job.
    #[must_use]
    pub fn of_job(&self, name: &str) -> bool {
        self.of_any(name) && !self.of_target(name)
    }

    fn of_any(&self, name: &str) -> bool {
        self.0.names().any(|known| known.is(name))
    }
}

/// Most jobs of a submission have the same text: it is parsed once.
fn put(job: &mut Job<'_>, text: String) -> Done {
    let cached = job
        .cached_requirements
        .borrow()
        .as_ref()
        .filter(|(known, _)| *known == text)
        .map(|(_, e)| e.clone());
    let parsed = match cached {
        Some(parsed) => parsed,
        None => {
            let parsed = job.parse("Requirements", &text, "requirements")?;
            *job.cached_requirements.borrow_mut() = Some((text, parsed.clone()));
            parsed
        }
    };
    job.own.insert("Requirements".into(), parsed);
    Ok(())
}

fn platform(job: &Job<'_>, mentioned: &Mentioned, clauses: &mut Clauses) {
    const OPSYS: [&str; 6] = [
        "OpSys",
        "OpSysAndVer",
        "OpSysLongName",
        "OpSysShortName",
        "OpSysName",
        "OpSysLegacy",
    ];
    let fact = |name: &str| {
        let found = job
            .scope
            .given
            .macros
            .iter()
            .find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str()).to_owned()
    };
    if !mentioned.of_target("Arch") {
        clauses.and(&format!("(TARGET.Arch == \"{}\")", fact("arch")));
    }
    if virtual_machine::is_wanted(job) {
        virtual_machine::platform(job, mentioned, clauses);
    } else if job.is_true("WantDocker") && !job.is_true("WantContainer") {
        clauses.and("TARGET.HasDocker");
        let network = job.text("DockerNetworkType").unwrap_or_default();
        if !matches!(network.as_str(), "" | "host" | "none" | "nat") {
            clauses.and("StringListMember(My.DockerNetworkType, TARGET.DockerNetworks)");
        }
    } else if job.is_true("WantContainer") {
        clauses.and("TARGET.HasContainer");
        clauses.and(if job.is_true("WantDockerImage") {
            "TARGET.HasDockerURL"
        } else if job.is_true("WantSIF") {
            "TARGET.HasSIF"
        } else {
            "TARGET.HasSandboxImage"
        });
    } else if !OPSYS.iter().any(|name| mentioned.of_target(name)) {
        clauses.and(&format!("(TARGET.OpSys == \"{}\")", fact("opsys")));
    }
}

/// Whether a request is anything but a number up to `most`.
fn exceeds(request: Option<&Expr>, most: f64) -> bool {
    match request {
        None => false,
        Some(Expr::Lit(value)) => value.as_number().is_none_or(|number| number > most),
        Some(_) => true,
    }
}

fn resources(job: &Job<'_>, mentioned: &Mentioned, clauses: &mut Clauses, universe: i64) {
    if !job::runs_on_slots(universe) {
        return;
    }
    let machine = virtual_machine::is_wanted(job);
    if !job.has("RequestDisk") {
        if !mentioned.of_target("Disk") {
            // A virtual machine's disks may fill all of the machine's, not only the slot's part.
            clauses.and(if machine {
                "(TARGET.TotalDisk >= DiskUsage)"
            } else {
                "(TARGET.Disk >= DiskUsage)"
            });
        }
    } else if mentioned.of_target("Disk") && machine {
        // Its author deals with it.
    } else if mentioned.of_target("Disk") || exceeds(job.get("RequestDisk"), 0.0) {
        clauses.and("(TARGET.Disk >= RequestDisk)");
    }
    if machine {
        virtual_machine::resources(job, mentioned, clauses);
    } else if exceeds(job.get("RequestMemory"), 1.0) {
        clauses.and("(TARGET.Memory >= RequestMemory)");
    }
    if !mentioned.of_target("Cpus") && exceeds(job.get("RequestCpus"), 1.0) {
        clauses.and("(TARGET.Cpus >= RequestCpus)");
    }
    custom_resources(job, mentioned, clauses);
    if job.is_true("EncryptExecuteDirectory") && !mentioned.of_target("EncryptExecuteDirectory") {
        clauses.and("TARGET.HasEncryptExecuteDirectory");
    }
}

fn custom_resources(job: &Job<'_>, mentioned: &Mentioned, clauses: &mut Clauses) {
    let generate = job
        .knobs
        .text("SUBMIT_GENERATE_CUSTOM_RESOURCE_REQUIREMENTS");
    let generate = generate
        .and_then(|text| expr::boolean(&text, "K"))
        .unwrap_or(true);
    let mut names: Vec<String> = job
        .base
        .iter()
        .chain(job.own.iter())
        .map(|(name, _)| name.to_text().into_owned())
        .filter(|name| name.len() >= 9 && name.as_bytes()[..7].eq_ignore_ascii_case(b"request"))
        .filter(|name| !name[7..].starts_with('_'))
        .collect();
    names.sort_by_key(|name| name.to_ascii_lowercase());
    names.dedup_by_key(|name| name.to_ascii_lowercase());
    for request in &names {
        let tag = &request[7..];
        let standard = ["cpus", "disk", "memory"]
            .iter()
            .any(|name| tag.eq_ignore_ascii_case(name));
        if standard || mentioned.of_target(tag) || (!generate && !tag.eq_ignore_ascii_case("gpus"))
        {
            continue;
        }
        match job.get(request) {
            Some(Expr::Lit(Value::Str(text))) if text.as_bytes().is_empty() => {}
            Some(Expr::Lit(Value::Str(_))) => {
                clauses.and(&format!("regexp({request}, TARGET.{tag})"))
            }
            Some(Expr::Lit(Value::Bool(_))) => {}
            request_expr if exceeds(request_expr, 0.0) => {
                let require = format!("Require{tag}");
                if job.has(&require) {
                    clauses.and(&format!(
                        "(countMatches(MY.{require},TARGET.Available{tag}) >= {request})"
                    ));
                } else {
                    clauses.and(&format!("(TARGET.{tag} >= {request})"));
                }
            }
            _ => {}
        }
    }
}

fn file_transfer(job: &mut Job<'_>, mentioned: &Mentioned, clauses: &mut Clauses) {
    let should = job.text("ShouldTransferFiles").unwrap_or_default();
    let domain = "(TARGET.FileSystemDomain == MY.FileSystemDomain)";
    let checks_domain = mentioned.of_target("FileSystemDomain");
    if should == "NO" {
        if !checks_domain {
            clauses.and(domain);
        }
        return;
    }
    if mentioned.of_target("HasFileTransfer") || mentioned.of_target("HasJobTransferPlugins") {
        return;
    }
    let plugins = job.text("TransferPlugins").unwrap_or_default();
    let mut transfer = if plugins.is_empty() {
        "TARGET.HasFileTransfer"
    } else {
        "TARGET.HasJobTransferPlugins"
    }
    .to_owned();
    let encrypted = [
        "EncryptInputFiles",
        "EncryptOutputFiles",
        "DontEncryptInputFiles",
        "DontEncryptOutputFiles",
    ];
    if encrypted.iter().any(|name| job.has(name)) && !mentioned.of_target("HasPerFileEncryption") {
        transfer.push_str(" && TARGET.HasPerFileEncryption");
    }
    if job.is_true("RequireCommonFilesTransfer") {
        transfer.push_str(" && TARGET.HasCommonFilesTransfer >= 2");
    }
    let methods = url_methods(job, &plugins);
    if !mentioned.of_target("HasFileTransferPluginMethods") {
        for method in &methods {
            transfer.push_str(&format!(
                " && stringListIMember(\"{method}\",TARGET.HasFileTransferPluginMethods)"
            ));
        }
    }
    if !methods.is_empty() {
        job.put_text("WantTransferPluginMethods", &methods.join(","));
    }
    if should == "IF_NEEDED" && !checks_domain {
        clauses.and(&format!("({domain} || ({transfer}))"));
    } else {
        clauses.and(&format!("({transfer})"));
    }
}

/// Methods of the URLs in transfer lists that the job brings no plugin for.
fn url_methods(job: &Job<'_>, plugins: &str) -> Vec<String> {
    let own: Vec<String> = plugins
        .split(';')
        .filter_map(|plugin| plugin.split_once('='))
        .flat_map(|(methods, _)| {
            methods
                .split(',')
                .map(|m| m.trim().to_ascii_lowercase())
                .collect::<Vec<_>>()
        })
        .collect();
    let mut urls: Vec<String> = job
        .text("TransferInput")
        .map(|list| job::comma_list(&list))
        .unwrap_or_default();
    urls.extend(job.text("OutputDestination"));
    for remap in job
        .text("TransferOutputRemaps")
        .unwrap_or_default()
        .split(';')
    {
        urls.extend(
            remap
                .split_once('=')
                .map(|(_, target)| target.trim().to_owned()),
        );
    }
    let mut methods: Vec<String> = urls
        .iter()
        .filter_map(|url| url_method(url))
        .filter(|m| !own.contains(m))
        .collect();
    methods.sort_unstable();
    methods.dedup();
    methods
}

fn url_method(text: &str) -> Option<String> {
    let (method, _) = text.split_once("://")?;
    let good = method.starts_with(|c: char| c.is_ascii_alphabetic())
        && method
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
    let method = method.rsplit('+').next().unwrap_or(method);
    good.then(|| method.to_ascii_lowercase())
}

fn deferral(job: &mut Job<'_>, clauses: &mut Clauses, universe: i64) -> Done {
    if universe != job::LOCAL {
        clauses.and("TARGET.HasJobDeferral");
    }
    if !job.has("ScheddInterval") {
        let interval = job
            .knobs
            .text("SCHEDD_INTERVAL")
            .unwrap_or_else(|| "300".into());
        job.put_expr("ScheddInterval", &interval, "deferral_time")?;
    }
    clauses.and(
        "(((time() + ScheddInterval) >= (DeferralTime - DeferralPrepTime)) && \
         (time() < (DeferralTime + DeferralWindow)))",
    );
    Ok(())
}
