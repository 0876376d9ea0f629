//! The order in which configuration is read: found-out values, the root file, local directories and files, the
//! user's file, the environment, run-time settings; then templates that apply by themselves.

use crate::error::{Code, ConfigError, Place};
use crate::expr;
use crate::functions::list_items;
use crate::reader::Reader;
use crate::set::{DETECTED, ENVIRONMENT, Origin, RUNTIME};

/// What to read, and the facts that go in.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Root file, or `None` for defaults and environment only.
    pub root: Option<String>,
    /// Facts known before any file is read: ARCH, OPSYS, DETECTED_CPUS, ...
    pub early: Vec<(String, String)>,
    /// Facts that no file can change: HOSTNAME, FULL_HOSTNAME, PID, ...
    pub firm: Vec<(String, String)>,
    /// Values for knobs that end up without one: UID_DOMAIN, FILESYSTEM_DOMAIN.
    pub fallback: Vec<(String, String)>,
    /// Defaults that take the place of the table's: LOG, SPOOL, EXECUTE below the pool's home.
    pub defaults: Vec<(String, String)>,
    /// Settings of the environment, in its order: name without `_CONDOR_` or `_SLOTWISE_`, value.
    pub environment: Vec<(String, String)>,
    /// Directory that a relative USER_CONFIG_FILE is in, or `None` when there is none to read.
    pub user_directory: Option<String>,
    /// Files of persistent settings, read after the environment.
    pub persistent: Vec<String>,
    /// Settings made at run time.
    pub runtime: Vec<(String, String)>,
}

/// Reads everything a request names into a reader.
///
/// # Errors
/// Everything the language refuses.
pub fn load(reader: &mut Reader<'_>, request: &Request) -> Result<(), ConfigError> {
    for (name, raw) in &request.defaults {
        reader.set.set_default(name, raw);
    }
    insert_all(reader, &request.early, DETECTED);
    let names = (reader.subsystem.clone(), reader.local_name.clone());
    if let Some(root) = &request.root {
        let directory = root
            .rsplit_once('/')
            .map_or(".", |(directory, _)| directory);
        insert_all(
            reader,
            &[("CONFIG_ROOT".into(), directory.into())],
            DETECTED,
        );
        read_file(reader, root, 0, true)?;
    }
    insert_all(reader, &request.firm, DETECTED);
    if request.root.is_some() {
        let first = reader.value("LOCAL_CONFIG_DIR")?;
        read_directories(reader, first.as_deref())?;
        read_local_files(reader)?;
        let second = reader.value("LOCAL_CONFIG_DIR")?;
        if second != first {
            read_directories(reader, second.as_deref())?;
        }
        read_user_file(reader, request)?;
    }
    for (name, raw) in &request.environment {
        reader.assign_from_outside(
            name,
            raw,
            Origin {
                source: ENVIRONMENT,
                line: 0,
                template: None,
            },
        )?;
    }
    insert_all(reader, &request.firm, DETECTED);
    for file in &request.persistent {
        read_file(reader, file, 1, false)?;
    }
    for (name, raw) in &request.runtime {
        reader.assign_from_outside(
            name,
            raw,
            Origin {
                source: RUNTIME,
                line: 0,
                template: None,
            },
        )?;
    }
    insert_all(reader, &request.firm, DETECTED);
    count_processors(reader)?;
    for (name, raw) in &request.fallback {
        if reader.value(name)?.is_none() {
            insert_all(reader, &[(name.clone(), raw.clone())], DETECTED);
        }
    }
    debug_assert_eq!(names, (reader.subsystem.clone(), reader.local_name.clone()));
    reader.apply_automatic()
}

fn insert_all(reader: &mut Reader<'_>, values: &[(String, String)], source: u32) {
    for (name, raw) in values {
        reader.set.insert(
            name,
            raw,
            Origin {
                source,
                line: 0,
                template: None,
            },
        );
    }
}

/// With COUNT_HYPERTHREAD_CPUS false, hyper-threads are not processors.
fn count_processors(reader: &mut Reader<'_>) -> Result<(), ConfigError> {
    if reader
        .view()
        .boolean("COUNT_HYPERTHREAD_CPUS")
        .unwrap_or(None)
        != Some(false)
    {
        return Ok(());
    }
    if let Some(physical) = reader.value("DETECTED_PHYSICAL_CPUS")? {
        insert_all(reader, &[("DETECTED_CPUS".into(), physical)], DETECTED);
    }
    Ok(())
}

fn read_file(
    reader: &mut Reader<'_>,
    name: &str,
    depth: u32,
    required: bool,
) -> Result<(), ConfigError> {
    let piped = name.contains('|');
    if !piped && !reader.world.readable(name) {
        if required {
            let error = ConfigError::new(
                Code::Unreadable,
                format!("Can't read configuration file {name}"),
            );
            return Err(error.hint("check the path and its permissions"));
        }
        return Ok(());
    }
    if depth > 0 && !piped && reader.is_directory(name) {
        reader.warn_of_directory(
            name,
            Place {
                file: name.to_owned(),
                line: 0,
            },
        );
        return Ok(());
    }
    let (label, text) = reader.open(name, false)?;
    reader.read_text(&label, &text, depth)?;
    Ok(())
}

/// REQUIRE_LOCAL_CONFIG_FILE, with a first letter t or f as good as the word.
fn local_required(reader: &Reader<'_>) -> Result<bool, ConfigError> {
    const NAME: &str = "REQUIRE_LOCAL_CONFIG_FILE";
    let Some(text) = reader.value(NAME)? else {
        return Ok(true);
    };
    Ok(match text.as_bytes()[0] | 0x20 {
        b't' => true,
        b'f' => false,
        _ => expr::boolean(&text, NAME).unwrap_or(true),
    })
}

fn read_directories(reader: &mut Reader<'_>, list: Option<&str>) -> Result<(), ConfigError> {
    let Some(list) = list else { return Ok(()) };
    let required = local_required(reader)?;
    for directory in list_items(list) {
        let exclude = reader.value("LOCAL_CONFIG_DIR_EXCLUDE_REGEXP")?;
        let mut files: Vec<String> = reader
            .world
            .list(directory)
            .unwrap_or_default()
            .into_iter()
            .filter(|path| !excluded(path.rsplit('/').next().unwrap_or(path), exclude.as_deref()))
            .collect();
        files.sort_unstable();
        for file in files {
            read_file(reader, &file, 1, required)?;
        }
    }
    Ok(())
}

/// Whether a file name matches the exclusion pattern, by the expression language's own `regexp`.
fn excluded(name: &str, pattern: Option<&str>) -> bool {
    let Some(pattern) = pattern else { return false };
    expr::matches(pattern, name)
}

fn split_sources(list: &str) -> Vec<String> {
    if list.contains('|') {
        vec![list.to_owned()]
    } else {
        list_items(list).into_iter().map(str::to_owned).collect()
    }
}

/// LOCAL_CONFIG_FILE: a file read may change the list of files to read.
fn read_local_files(reader: &mut Reader<'_>) -> Result<(), ConfigError> {
    const NAME: &str = "LOCAL_CONFIG_FILE";
    let required = local_required(reader)?;
    let Some(mut list) = reader.value(NAME)? else {
        return Ok(());
    };
    let mut pending = split_sources(&list);
    let mut done: Vec<String> = Vec::new();
    while !pending.is_empty() {
        let file = pending.remove(0);
        read_file(reader, &file, 1, required)?;
        done.push(file);
        if done.len() > 10_000 {
            return Err(ConfigError::new(
                Code::Runaway,
                "LOCAL_CONFIG_FILE changes without end",
            ));
        }
        if let Some(changed) = reader.value(NAME)?.filter(|changed| *changed != list) {
            pending = split_sources(&changed);
            pending.retain(|file| !done.contains(file));
            list = changed;
        }
    }
    Ok(())
}

fn read_user_file(reader: &mut Reader<'_>, request: &Request) -> Result<(), ConfigError> {
    let Some(directory) = &request.user_directory else {
        return Ok(());
    };
    let Some(name) = reader.value("USER_CONFIG_FILE")? else {
        return Ok(());
    };
    let path = if name.starts_with('/') {
        name
    } else {
        format!("{directory}/{name}")
    };
    read_file(reader, &path, 1, false)
}

/// Settings of an environment: those that start with `_CONDOR_` or `_SLOTWISE_` (in any case), without that prefix.
#[must_use]
pub fn environment_settings(environment: &[(String, String)]) -> Vec<(String, String)> {
    let stripped = |name: &str| -> Option<String> {
        ["_condor_", "_slotwise_"].iter().find_map(|prefix| {
            let head = name.get(..prefix.len())?;
            let rest = name[prefix.len()..].trim_end();
            (head.eq_ignore_ascii_case(prefix) && !rest.is_empty()).then(|| rest.to_owned())
        })
    };
    environment
        .iter()
        .filter_map(|(name, value)| Some((stripped(name)?, value.trim_ascii_start().to_owned())))
        .collect()
}
