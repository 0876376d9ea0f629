//! The machine as configuration files and submit descriptions read it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ::config::bytes::{hold, release};
use ::config::{Seeded, Source};

/// The machine as configuration and submit descriptions see it.
pub(crate) struct Host {
    cwd: String,
    environment: HashMap<String, String>,
    numbers: Seeded,
    drew: AtomicBool,
    /// Files and programs count only where root has them, not everybody may write to them, and nobody but root decides
    /// what their names lead to.
    roots_only: bool,
}

impl Host {
    pub(crate) fn new(cwd: String, environment: HashMap<String, String>, seed: u64) -> Self {
        Self {
            cwd,
            environment,
            numbers: Seeded::new(seed),
            drew: AtomicBool::new(false),
            roots_only: false,
        }
    }

    /// Whether a random number was asked for.
    pub(crate) fn was_random(&self) -> bool {
        self.drew.load(Ordering::Relaxed)
    }

    /// For reading the configuration: what root reads may run commands, so nobody else may have written it.
    pub(crate) fn trusting_root_alone(mut self) -> Self {
        // The effective user: a daemon that has given root up runs nothing as root.
        self.roots_only = effective_uid() == Some(0);
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        as_path(&self.cwd).join(as_path(name))
    }

    /// See that nobody else decides what a name leads to.
    fn check_way(&self, path: &Path) -> Result<(), String> {
        match self.roots_only.then(|| fault_of_way(path)).flatten() {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// See that nobody else has written a program, which is looked for as when it is started.
    fn check_program(&self, program: &str) -> Result<(), String> {
        if !self.roots_only {
            return Ok(());
        }
        let found = if program.contains('/') {
            Some(self.path(program))
        } else {
            let places = self.environment.get("PATH").map_or("", String::as_str);
            let named = places
                .split(':')
                .map(|place| self.path(place).join(as_path(program)));
            named.into_iter().find(|path| path.is_file())
        };
        let Some(path) = found else {
            return Ok(()); // to start it says so
        };
        self.check_way(&path)?;
        let fault = std::fs::metadata(&path)
            .ok()
            .as_ref()
            .and_then(fault_of_owner);
        fault.map_or(Ok(()), Err)
    }
}

impl Source for Host {
    fn read(&self, path: &str) -> Result<String, String> {
        let mut bytes = Vec::new();
        self.check_way(&self.path(path))?;
        let mut file = std::fs::File::open(self.path(path)).map_err(|error| reason(&error))?;
        if self.roots_only {
            // Of the file that is open, whatever has its name by now.
            let about = file.metadata().map_err(|error| reason(&error))?;
            if let Some(fault) = fault_of_owner(&about) {
                return Err(fault);
            }
        }
        std::io::Read::read_to_end(&mut file, &mut bytes).map_err(|error| reason(&error))?;
        Ok(hold(&bytes).into_owned())
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, String> {
        let entries = std::fs::read_dir(self.path(directory)).map_err(|error| reason(&error))?;
        let names = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let path = format!(
                "{}/{}",
                directory.trim_end_matches('/'),
                hold(entry.file_name().as_bytes())
            );
            (!self.path(&path).is_dir()).then_some(path)
        });
        Ok(names.collect())
    }

    fn run(&self, command: &str) -> Result<(String, i32), String> {
        let words = ::config::args::split_either(command)?;
        let (program, arguments) = words.split_first().ok_or("the command is empty")?;
        self.check_program(program)?;
        let output = std::process::Command::new(as_path(program))
            .args(arguments.iter().map(|word| as_path(word)))
            .current_dir(as_path(&self.cwd))
            .env_clear()
            .envs(
                self.environment
                    .iter()
                    .map(|(name, value)| (as_path(name), as_path(value))),
            )
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(|error| reason(&error))?;
        Ok((
            hold(&output.stdout).into_owned(),
            output.status.code().unwrap_or(-1),
        ))
    }

    fn write(&self, path: &str, text: &str) -> Result<(), String> {
        // In one step: another reader of the same configuration sees all of it or nothing.
        let path = self.path(path);
        self.check_way(&path)?;
        let partial = path.with_extension(format!("new.{}", std::process::id()));
        written(&partial, &release(text))
            .and_then(|()| std::fs::rename(&partial, &path))
            .map_err(|error| {
                let _ = std::fs::remove_file(&partial);
                reason(&error)
            })
    }

    fn readable(&self, path: &str) -> bool {
        let path = self.path(path);
        match self.check_way(&path) {
            Ok(()) => std::fs::File::open(path).is_ok(),
            // To read it says why not. It is not opened: a named pipe would wait for its writer.
            Err(_) => path.exists(),
        }
    }

    fn program_fault(&self, path: &str) -> Option<String> {
        let path = self.path(path);
        // Asked for first: to open a named pipe would wait for its writer.
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Some("does not exist".to_owned());
            }
            Err(error) => return Some(format!("cannot be looked at: {}", reason(&error))),
            Ok(facts) if facts.is_dir() => return Some("is a directory".to_owned()),
            Ok(facts) if !facts.is_file() => return Some("is not a regular file".to_owned()),
            Ok(facts) if facts.len() == 0 => return Some("has zero length".to_owned()),
            Ok(_) => {}
        }
        match first_line(&path) {
            Err(error) => Some(format!("cannot be read: {}", reason(&error))),
            Ok(line) if line.starts_with(b"#!") && line.ends_with(b"\r\n") => {
                Some("is a script with DOS line ends (CRLF)".to_owned())
            }
            Ok(_) => None,
        }
    }

    fn input_fault(&self, path: &str) -> Option<String> {
        let path = self.path(path);
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Some("does not exist".to_owned())
            }
            Err(error) => Some(format!("cannot be looked at: {}", reason(&error))),
            // Of pipes and devices nothing is asked: to open one may wait for its other end.
            Ok(facts) if facts.is_file() => std::fs::File::open(&path)
                .err()
                .map(|error| format!("cannot be read: {}", reason(&error))),
            Ok(_) => None,
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned()
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.environment
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    fn entries(&self, directory: &str) -> Vec<(String, bool)> {
        let Ok(entries) = std::fs::read_dir(self.path(directory)) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = hold(entry.file_name().as_bytes()).into_owned();
                Some((name, entry.path().is_dir()))
            })
            .collect()
    }

    fn size(&self, path: &str) -> Option<u64> {
        size_below(&self.path(path), 0)
    }

    fn random(&self, below: u64) -> u64 {
        self.drew.store(true, Ordering::Relaxed);
        self.numbers.below(below)
    }

    fn now(&self) -> i64 {
        crate::classad::convert::now()
    }
}

/// The effective user, as the owner of this process's directory in `/proc` would not tell while it cannot be traced.
fn effective_uid() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("Uid:"))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

/// A new file with `bytes`; a link that lies there already is not followed.
fn written(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;

    let _ = std::fs::remove_file(path); // of a reader that was killed, whose id this one has
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o644);
    options.open(path)?.write_all(bytes)
}

/// Why root does not read a file as configuration, or run it for one.
fn fault_of_owner(about: &std::fs::Metadata) -> Option<String> {
    if about.uid() != 0 {
        return Some(format!(
            "it belongs to uid {}, and root trusts no configuration but its own (chown root)",
            about.uid()
        ));
    }
    (about.is_file() && about.mode() & EVERYBODY != 0).then(|| {
        "everybody may write to it, and root would run what it says (chmod o-w)".to_owned()
    })
}

const EVERYBODY: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// As many links as the kernel follows.
const LINKS_MOST: u32 = 40;
/// Who has what belongs to nobody of this user namespace.
const OVERFLOW: u32 = 65534;

/// Why root does not follow a name to its file: others may exchange a directory or a link on the way. Root's own files
/// are no protection then, as some have what users wrote: logs, and the environment of their setuid programs in `/proc`.
fn fault_of_way(path: &Path) -> Option<String> {
    let (mut place, mut ahead, mut links) = (PathBuf::from("/"), parts_of(path), 0);
    while let Some(part) = ahead.pop() {
        // What cannot be looked at cannot be opened either, which says why.
        let directory = std::fs::symlink_metadata(&place).ok()?;
        let everybody = directory.mode() & EVERYBODY != 0;
        if !is_roots(&directory) || everybody && directory.mode() & STICKY == 0 {
            return Some(fault_of_place(&place));
        }
        if part == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&part);
        let found = std::fs::symlink_metadata(&next).ok()?;
        if !found.is_symlink() {
            place = next;
            continue;
        }
        if everybody && !is_roots(&found) {
            return Some(fault_of_place(&next));
        }
        links += 1;
        let target = (links <= LINKS_MOST).then(|| std::fs::read_link(&next).ok())??;
        if target.is_absolute() {
            place = PathBuf::from("/");
        }
        ahead.extend(parts_of(&target));
    }
    None
}

fn fault_of_place(place: &Path) -> String {
    format!(
        "others than root may change {}, and so what root would read or run (chown root, chmod o-w)",
        place.display()
    )
}

/// The parts of a name, the last first.
fn parts_of(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut parts: Vec<_> = parts.collect();
    parts.reverse();
    parts
}

/// Whether root has it, or the root of the host where this one is root of a user namespace alone.
fn is_roots(about: &std::fs::Metadata) -> bool {
    about.uid() == 0 || about.uid() == OVERFLOW && !knows_all_users()
}

/// Whether all users of the host are users of this user namespace.
fn knows_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// A name as the system has it.
fn as_path(name: &str) -> PathBuf {
    OsString::from_vec(release(name).into_owned()).into()
}

/// What the system says, without its number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Bytes of a file, or of the files in a directory and those below it, links left out as in HTCondor: one may lead
/// to all the machine.
fn size_below(path: &Path, depth: u32) -> Option<u64> {
    let about = std::fs::metadata(path).ok()?;
    if !about.is_dir() || depth > 32 {
        return Some(about.len());
    }
    let entries = std::fs::read_dir(path).ok()?.flatten();
    let own = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    Some(
        own.filter_map(|entry| size_below(&entry.path(), depth + 1))
            .sum(),
    )
}

/// The first line of a file, its end included, as far as the kernel looks for an interpreter's name.
fn first_line(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::{BufRead, Read};

    let mut line = Vec::new();
    std::io::BufReader::new(std::fs::File::open(path)?.take(128)).read_until(b'\n', &mut line)?;
    Ok(line)
}
