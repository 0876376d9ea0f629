//! The universe of a job, and what containers want.

use crate::submit::job::{self, Done, Job};

const UNIVERSES: [(&str, i64); 8] = [
    ("vanilla", 5),
    ("scheduler", 7),
    ("grid", 9),
    ("java", 10),
    ("parallel", 11),
    ("local", 12),
    ("vm", 13),
    ("standard", 1),
];

/// Sets JobUniverse, and what containers want.
pub fn universe(job: &mut Job<'_>) -> Done {
    let named = match job.command("universe", "JobUniverse")? {
        Some(text) => text,
        None => job
            .knobs
            .text("DEFAULT_UNIVERSE")
            .unwrap_or_else(|| "vanilla".into()),
    };
    let lower = named.to_ascii_lowercase();
    let topping = matches!(lower.as_str(), "docker" | "container");
    let number = if topping {
        job::VANILLA
    } else {
        number_of(job, &named)?
    };
    let container = job.command("container_image", "ContainerImage")?;
    let docker = job.command("docker_image", "DockerImage")?;
    if container.is_some() && docker.is_some() {
        return Err(job.bad(
            "docker_image",
            "cannot declare both docker_image and container_image",
            "drop one of them",
        ));
    }
    if lower == "docker" && container.is_some() {
        return Err(job.bad(
            "container_image",
            "docker universe does not allow use of container_image.",
            "write docker_image, or universe = container",
        ));
    }
    if topping && container.is_none() && docker.is_none() {
        let hint = "set container_image, or docker_image";
        return Err(job.bad(
            "universe",
            format!("{lower} jobs require a container_image or docker_image"),
            hint,
        ));
    }
    job.put("JobUniverse", number);
    if number == job::PARALLEL {
        nodes(job)?;
    }
    if let Some(image) = docker {
        check_name(job, "docker_image", job::unquoted(&image))?;
        want_docker_image(job, &image, lower == "docker");
    } else if let Some(image) = container {
        let image = job::unquoted(&image);
        if REFUSED.iter().any(|start| image.starts_with(start)) {
            return Err(job.bad(
                "container_image",
                format!("'{image}' is not a valid container image"),
                "write docker://NAME, oras://NAME, a .sif file or a directory",
            ));
        }
        if image.starts_with("docker:") {
            check_name(job, "container_image", image)?;
        }
        want_container_image(job, image);
    }
    check_pull_policy(job)?;
    check_target_directory(job)
}

/// How images begin that HTCondor takes for no job.
const REFUSED: [&str; 3] = ["instance://", "library://", "shub://"];

/// Warns of a pull policy that has no effect: execution points know one.
fn check_pull_policy(job: &mut Job<'_>) -> Done {
    if let Some(policy) = job.command("docker_pull_policy", "DockerPullPolicy")?
        && !job::unquoted(&policy).eq_ignore_ascii_case("always")
    {
        job.warn(format!(
            "docker_pull_policy = {policy} has no effect; the only policy is always"
        ));
    }
    Ok(())
}

/// Refuses an image's name that no runtime takes for one; execution points would hold the job.
fn check_name(job: &Job<'_>, command: &str, image: &str) -> Done {
    let name = image.strip_prefix("docker:").unwrap_or(image);
    let name = name.strip_prefix("//").unwrap_or(name);
    let fits = name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|each| each.is_ascii_alphanumeric() || "._/:@-".contains(each));
    if fits || name.contains("$$") {
        return Ok(());
    }
    Err(job.bad(
        command,
        format!("'{image}' is not the name of an image"),
        "write [REGISTRY/]NAME[:TAG], for example debian:12",
    ))
}

/// Refuses a container_target_dir where no runtime can show a directory.
fn check_target_directory(job: &mut Job<'_>) -> Done {
    let command = "container_target_dir";
    let Some(text) = job.command(command, "ContainerTargetDir")? else {
        return Ok(());
    };
    let place = job::unquoted(&text);
    if (place.starts_with('/') && !place.contains([',', ':'])) || place.contains("$$") {
        return Ok(());
    }
    Err(job.bad(
        command,
        format!("container_target_dir = {place} is not an absolute path, or has a comma or colon"),
        "write a path of the container, for example /work",
    ))
}

/// What stands for the number of a node in the ad of a parallel job, until the node starts.
pub const NODE: &str = "#pArAlLeLnOdE#";

/// Sets how many nodes a parallel job has.
fn nodes(job: &mut Job<'_>) -> Done {
    let count = match job.number("machine_count", "MachineCount")? {
        Some(count) => Some(count),
        None => job.number("node_count", "NodeCount")?,
    };
    let Some(count) = count else {
        let hint = "add `machine_count = NUMBER`";
        return Err(job.bad("machine_count", "No machine_count specified!", hint));
    };
    if count < 1 {
        let message = format!("machine_count = {count} is not a number of nodes");
        return Err(job.bad(
            "machine_count",
            message,
            "a parallel job has at least 1 node",
        ));
    }
    job.put("MinHosts", count);
    job.put("MaxHosts", count);
    job.put("WantIOProxy", true);
    job.put("JobRequiresSandbox", true);
    Ok(())
}

/// Whether this names the parallel universe.
#[must_use]
pub fn is_parallel(named: &str) -> bool {
    named.eq_ignore_ascii_case("parallel") || named == "11"
}

/// The number of a universe that jobs can have here.
fn number_of(job: &Job<'_>, named: &str) -> Result<i64, crate::ConfigError> {
    let lower = named.to_ascii_lowercase();
    let known = UNIVERSES
        .iter()
        .find(|(name, number)| *name == lower || number.to_string() == lower);
    let (message, hint) = match known {
        Some((_, number @ (5 | 7 | 10 | 11 | 12 | 13))) => return Ok(*number),
        Some(("grid", _)) => (
            "jobs of the grid universe are submitted to other systems, and an access point submits to its own pool alone"
                .into(),
            "use vanilla; machines of another system join this pool by `slotwise glidein`",
        ),
        Some((name, _)) => (
            format!("the {name} universe is no more: HTCondor has given it up, too"),
            "use vanilla",
        ),
        None => (
            format!("I don't know about the '{named}' universe"),
            "use vanilla",
        ),
    };
    Err(job.bad("universe", message, hint))
}

fn want_docker_image(job: &mut Job<'_>, image: &str, as_docker_job: bool) {
    job.put_text("DockerImage", job::unquoted(image));
    if as_docker_job {
        job.put("WantDocker", true);
    } else {
        job.put("WantContainer", true);
        job.put("WantDockerImage", true);
    }
}

fn want_container_image(job: &mut Job<'_>, image: &str) {
    job.put("WantContainer", true);
    let kind = if image.starts_with("docker:") {
        "WantDockerImage"
    } else if image.ends_with(".sif") {
        "WantSIF"
    } else {
        "WantSandboxImage"
    };
    job.put(kind, true);
    job.put_text("ContainerImage", image);
}

/// Sets ContainerServiceNames, and `<service>_ContainerPort` for each of them.
pub fn services(job: &mut Job<'_>) -> Done {
    if !job.is_true("WantDocker") && !job.is_true("WantContainer") {
        return Ok(());
    }
    let Some(names) = job.command("container_service_names", "ContainerServiceNames")? else {
        return Ok(());
    };
    job.put_text("ContainerServiceNames", &names);
    for name in names
        .split([',', ' ', '\t'])
        .filter(|name| !name.is_empty())
    {
        let command = format!("{name}_container_port");
        let port = job
            .command(&command, "")?
            .and_then(|text| text.trim().parse::<i64>().ok())
            .filter(|port| (0..=65535).contains(port));
        let Some(port) = port else {
            return Err(job.bad(
                "container_service_names",
                format!(
                    "Requested container service '{name}' was not assigned a port, or the assigned port was not valid"
                ),
                &format!("set {command} to the port that the service listens on in the container"),
            ));
        };
        job.put(&format!("{name}_ContainerPort"), port);
    }
    Ok(())
}
