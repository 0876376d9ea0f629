//! File transfer: which files, whether and when, and sizes that follow.

use classad::regex::{Options, Pattern};

use crate::expr;
use crate::submit::basic_attrs::squeezed;
use crate::submit::job::{self, Done, Job};
use crate::submit::resources::kib;
use crate::submit::units;
use crate::submit::virtual_machine;

/// Sets the transfer attributes and DiskUsage.
pub fn files(job: &mut Job<'_>) -> Done {
    let inputs = job.command("transfer_input_files", "TransferInputFiles")?;
    let outputs = job.command("transfer_output_files", "TransferOutputFiles")?;
    let inputs = inputs
        .map(|text| job::comma_list(job::unquoted(&text)))
        .filter(|list| !list.is_empty());
    let outputs = outputs.map(|text| job::comma_list(job::unquoted(&text)));
    if let Some(text) = job.command("transfer_common_input", "CommonInputFiles")? {
        let list = job::comma_list(job::unquoted(&text)).join(",");
        job.put_text("CommonInputFiles", &list);
    }
    let inputs = with_container_image(job, inputs)?;
    let mut inputs = with_java_files(job, inputs)?;
    let (should, when) = mode(job, inputs.is_some(), outputs.is_some())?;
    job.put_text("ShouldTransferFiles", should);
    if should != "NO" {
        job.put_text("WhenToTransferOutput", when);
    }
    if should != "YES"
        && !job.has("FileSystemDomain")
        && let Some(domain) = job.knobs.text("FILESYSTEM_DOMAIN")
    {
        job.put_text("FileSystemDomain", &domain);
    }
    sizes(job, inputs.as_deref().unwrap_or_default())?;
    if should != "NO"
        && let Some(input) = job.text("In")
        && job.truth("transfer_input", "TransferIn", true)?
    {
        input_is_there(job, "input", &input)?;
    }
    if should == "NO" {
        if job.truth("transfer_executable", "TransferExecutable", false)? {
            let message = "You explicitly requested that the executable be transferred, but should_transfer_files is NO";
            return Err(job.bad(
                "transfer_executable",
                message,
                "set should_transfer_files = YES, or drop transfer_executable",
            ));
        }
    } else {
        if let Some(list) = inputs.take() {
            let image = job.text("ContainerImageFullPath");
            for name in list.iter().filter(|name| image.as_ref() != Some(name)) {
                input_is_there(job, "transfer_input_files", name)?;
            }
            job.put_text("TransferInput", &list.join(","));
        }
        if let Some(text) = job.command("public_input_files", "PublicInputFiles")? {
            job.put_text("PublicInputFiles", &job::comma_list(&text).join(","));
        }
        if let Some(list) = outputs {
            job.put_text("TransferOutput", &list.join(","));
        }
    }
    if let Some(text) = job.command("transfer_output_remaps", "TransferOutputRemaps")? {
        job.put_text("TransferOutputRemaps", job::unquoted(&text));
    }
    Ok(())
}

/// Refuses an input that is to come from here and cannot.
fn input_is_there(job: &Job<'_>, command: &str, name: &str) -> Done {
    if !job.facts.check_files || name == "/dev/null" || name.contains("$$(") || name.contains("://")
    {
        return Ok(());
    }
    let path = job.full_path(name);
    match job.scope.world.input_fault(&path) {
        None => Ok(()),
        Some(fault) => Err(job.bad(
            command,
            format!("Input file {path} {fault}"),
            "correct the name, or set skip_filechecks = true if the file will be there in time",
        )),
    }
}

/// The class file and the jar files of a java job go along with it, and `java` is what it runs.
fn with_java_files(
    job: &mut Job<'_>,
    inputs: Option<Vec<String>>,
) -> Result<Option<Vec<String>>, crate::ConfigError> {
    if job.integer("JobUniverse") != Some(job::JAVA) {
        return Ok(inputs);
    }
    let given = said(job, "ShouldTransferFiles", "should_transfer_files")?;
    if should_transfer(job, given)? == "NO" {
        return Ok(inputs);
    }
    let mut list = inputs.unwrap_or_default();
    // The ad has `java` as the program already when this runs again for a further job.
    if let Some(program) = job.command("executable", "Cmd")? {
        let program = job::unquoted(&program);
        if program != "java" {
            list.push(squeezed(&job::absolute(program, &job.facts.cwd)));
        }
        job.put_text("Cmd", "java");
    }
    job.put("TransferExecutable", false);
    let jars = job.text("JarFiles").unwrap_or_default();
    list.extend(job::comma_list(job::unquoted(&jars)));
    Ok(Some(list))
}

/// A container image that is a file here goes along with the job.
fn with_container_image(
    job: &mut Job<'_>,
    inputs: Option<Vec<String>>,
) -> Result<Option<Vec<String>>, crate::ConfigError> {
    let Some(image) = job.text("ContainerImage") else {
        return Ok(inputs);
    };
    let shared = job.knobs.text("CONTAINER_SHARED_FS").unwrap_or_default();
    let is_shared = shared
        .split(',')
        .map(str::trim)
        .any(|start| !start.is_empty() && image.starts_with(start));
    if is_shared || !job.truth("transfer_container", "TransferContainer", true)? {
        job.put_text("ContainerImageSource", "local");
        return Ok(inputs);
    }
    for scheme in ["docker", "oras"] {
        if image.starts_with(&format!("{scheme}://")) {
            job.put_text("ContainerImageSource", scheme);
            return Ok(inputs);
        }
    }
    let should = job.command("should_transfer_files", "ShouldTransferFiles")?;
    if should.is_some_and(|text| one_of(&SHOULD, &text) == Some("NO")) {
        return Ok(inputs);
    }
    let mut list = inputs.unwrap_or_default();
    if is_common(job, &image)? {
        put_catalog(job, &image);
    } else if !list.contains(&image) {
        list.push(image.clone());
    }
    // However many slashes end the name of a directory, it is the same directory.
    let path = image.trim_end_matches('/');
    job.put_text("ContainerImage", path.rsplit('/').next().unwrap_or(path));
    job.put_text("ContainerImageFullPath", &image);
    let source = path.split_once(':').map_or("cedar", |(scheme, _)| scheme);
    job.put_text("ContainerImageSource", source);
    Ok(Some(list).filter(|list| !list.is_empty()))
}

/// Whether an image is a common input file: as `container_is_common` says, else CONTAINER_IMAGES_COMMON_BY_DEFAULT, or
/// CONTAINER_REGEX_COMMON_BY_DEFAULT, which is to match the whole name.
fn is_common(job: &mut Job<'_>, image: &str) -> Result<bool, crate::ConfigError> {
    const KNOB: &str = "CONTAINER_REGEX_COMMON_BY_DEFAULT";
    let mut by_default = job
        .knobs
        .text("CONTAINER_IMAGES_COMMON_BY_DEFAULT")
        .and_then(|text| expr::boolean(&text, "CondorBool"))
        .unwrap_or(false);
    if let Some(pattern) = job.knobs.text(KNOB) {
        let whole = format!("^(?:{pattern})$");
        if Pattern::new(whole.as_bytes(), Options::default()).is_none() {
            job.warn(format!(
                "{KNOB} = {pattern} is not a regular expression, and makes no image a common input file. Correct it in \
                 the configuration."
            ));
        }
        by_default |= expr::matches(&whole, image);
    }
    job.truth("container_is_common", "ContainerIsCommon", by_default)
}

/// Puts an image into a catalog of common input files that is its own, so that jobs of other clusters can share it.
fn put_catalog(job: &mut Job<'_>, image: &str) {
    let whole = if image.contains("://") {
        image.to_owned()
    } else {
        job.full_path(image)
    };
    let catalog = format!("container_{:08x}", short_hash(whole.as_bytes()));
    job.put_text(&format!("_x_catalog_{catalog}"), image);
    let mut catalogs = job.text("CommonInputCatalogs").unwrap_or_default();
    if !catalogs.contains(&catalog) {
        if !catalogs.is_empty() {
            catalogs.push_str(", ");
        }
        catalogs.push_str(&catalog);
        job.put_text("CommonInputCatalogs", &catalogs);
    }
}

/// FNV-1a: the same for a name wherever it is submitted.
fn short_hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Values of should_transfer_files and other spellings of them.
const SHOULD: [(&str, &str); 8] = [
    ("YES", "YES"),
    ("ALWAYS", "YES"),
    ("TRUE", "YES"),
    ("NO", "NO"),
    ("NEVER", "NO"),
    ("FALSE", "NO"),
    ("IF_NEEDED", "IF_NEEDED"),
    ("AUTO", "IF_NEEDED"),
];

/// Values of when_to_transfer_output and other spellings of them.
const WHEN: [(&str, &str); 7] = [
    ("ON_EXIT", "ON_EXIT"),
    ("ONEXIT", "ON_EXIT"),
    ("ON_EXIT_OR_EVICT", "ON_EXIT_OR_EVICT"),
    ("ALWAYS", "ON_EXIT_OR_EVICT"),
    ("ON_SUCCESS", "ON_SUCCESS"),
    ("ONSUCCESS", "ON_SUCCESS"),
    ("NEVER", "NEVER"),
];

fn one_of(names: &[(&str, &'static str)], text: &str) -> Option<&'static str> {
    names
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text.trim()))
        .map(|(_, value)| *value)
}

/// ShouldTransferFiles and WhenToTransferOutput, checked against each other and against lists of files.
fn mode(
    job: &Job<'_>,
    inputs: bool,
    outputs: bool,
) -> Result<(&'static str, &'static str), crate::ConfigError> {
    if virtual_machine::is_wanted(job) {
        // Whatever the description says: the machine's disks come and go with the job.
        let evict = job.is_true("JobVMCheckpoint");
        return Ok(("YES", if evict { "ON_EXIT_OR_EVICT" } else { "ON_EXIT" }));
    }
    let given = said(job, "ShouldTransferFiles", "should_transfer_files")?;
    let by_default = given.is_none();
    let should = should_transfer(job, given)?;
    if should == "NO" && (inputs || outputs) {
        let which = if inputs {
            "transfer_input_files"
        } else {
            "transfer_output_files"
        };
        let message = format!(
            "you specified files to transfer via {which}, but you disabled should_transfer_files"
        );
        let hint = "set should_transfer_files = YES, or drop the list";
        return Err(job.bad(which, message, hint));
    }
    let when = match said(job, "WhenToTransferOutput", "when_to_transfer_output")? {
        Some(text) => one_of(&WHEN, &text).ok_or_else(|| {
            let message = format!("invalid value ({text}) for when_to_transfer_output");
            job.bad(
                "when_to_transfer_output",
                message,
                "specify ON_EXIT, ON_EXIT_OR_EVICT or ON_SUCCESS",
            )
        })?,
        None if should == "NO" && !by_default => "NEVER",
        None => "ON_EXIT",
    };
    if (should == "NO") != (when == "NEVER") {
        let message = format!(
            "when_to_transfer_output specified as {when} yet should_transfer_files defined as {should}"
        );
        return Err(job.bad(
            "when_to_transfer_output",
            message,
            "remove this contradiction",
        ));
    }
    match (should, when) {
        ("IF_NEEDED", "ON_EXIT_OR_EVICT") if by_default => Ok(("YES", when)),
        ("IF_NEEDED", "ON_EXIT_OR_EVICT") => {
            let message = "when_to_transfer_output = ON_EXIT_OR_EVICT and should_transfer_files = IF_NEEDED are incompatible";
            let hint = "use ON_EXIT, or should_transfer_files = YES";
            Err(job.bad("when_to_transfer_output", message, hint))
        }
        _ => Ok((should, when)),
    }
}

/// What a command, or the ad by itself, says.
fn said(
    job: &Job<'_>,
    attribute: &str,
    command: &str,
) -> Result<Option<String>, crate::ConfigError> {
    Ok(job
        .command(attribute, command)?
        .or_else(|| job.text(attribute)))
}

fn should_transfer(
    job: &Job<'_>,
    given: Option<String>,
) -> Result<&'static str, crate::ConfigError> {
    let Some(text) = given else {
        let knob = job.knobs.text("SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES");
        return Ok(knob
            .and_then(|text| one_of(&SHOULD, &text))
            .unwrap_or("IF_NEEDED"));
    };
    one_of(&SHOULD, &text).ok_or_else(|| {
        let message = format!("invalid value ({text}) for should_transfer_files");
        job.bad(
            "should_transfer_files",
            message,
            "specify YES, NO, or IF_NEEDED",
        )
    })
}

fn sizes(job: &mut Job<'_>, inputs: &[String]) -> Done {
    if let Some(text) = job.command("disk_usage", "DiskUsage")? {
        match units::size(&text, 1024) {
            Some((size, _)) if size >= 1 => job.put("DiskUsage", size),
            _ => {
                return Err(job.bad(
                    "disk_usage",
                    format!("'{text}' is not valid for disk_usage"),
                    "it must be >= 1",
                ));
            }
        }
        return Ok(());
    }
    let mut total: i64 = inputs.iter().map(|name| kib(job, name)).sum();
    if let Some(input) = job.text("In")
        && job.truth("transfer_input", "TransferIn", true)?
    {
        total += kib(job, &input);
    }
    let executable = job.integer("ExecutableSize").unwrap_or(0);
    job.put("TransferInputSizeMB", (executable + total + 1023) / 1024);
    job.put("DiskUsage", executable + total);
    Ok(())
}
