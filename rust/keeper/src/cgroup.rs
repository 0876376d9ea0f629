//! Cgroups of a job, version 1 and 2: make, limit, freeze, kill, measure, remove.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::devices;
use crate::spec::CgroupSpec;
use crate::sys;

/// A limit that the kernel refused.
#[derive(Debug)]
pub struct Refused {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
    /// Whether the run must not go on without it.
    pub required: bool,
}

/// Makes the groups, with those above that are missing, and sets their limits. A left-over group of the same name is ended and removed first, so that its
/// peaks do not count. Returns what the kernel refused.
pub fn establish(spec: &CgroupSpec) -> Vec<Refused> {
    let mut refused = Vec::new();
    for dir in &spec.make {
        if dir.is_dir() {
            clear(spec.version, dir, 5.0);
        }
        if let Err(error) = fs::create_dir_all(dir)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            refused.push(Refused {
                path: dir.clone(),
                error,
                required: true,
            });
            return refused;
        }
    }
    for setting in &spec.settings {
        if let Err(error) = sys::write_kernel_file(&setting.path, &setting.value) {
            refused.push(Refused {
                path: setting.path.clone(),
                error,
                required: setting.required,
            });
        }
    }
    if spec.version == 2
        && !spec.deny.is_empty()
        && let Some(dir) = &spec.freezer
        && let Err(error) = devices::deny(dir, &spec.deny)
    {
        refused.push(Refused {
            path: dir.join("devices"),
            error,
            required: false,
        });
    }
    refused
}

/// Gives the job's user the directories in which it may make groups of its own.
pub fn give(spec: &CgroupSpec, uid: u32, gid: u32) {
    for dir in &spec.own {
        for name in [
            "",
            "cgroup.procs",
            "cgroup.subtree_control",
            "cgroup.threads",
        ] {
            let path = if name.is_empty() {
                dir.clone()
            } else {
                dir.join(name)
            };
            // A file that this kernel does not have needs no owner.
            let _ = std::os::unix::fs::chown(path, Some(uid), Some(gid));
        }
    }
}

/// The processes of a group and of all groups below it.
pub fn members(dir: &Path) -> Vec<i32> {
    let mut found: Vec<i32> = sys::read_text(dir.join("cgroup.procs"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .filter(|pid| *pid > 0)
        .collect();
    for below in subgroups(dir) {
        found.extend(members(&below));
    }
    found
}

fn subgroups(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Stops (or lets go on) all processes of the group; waits until the kernel says so.
///
/// # Errors
/// When the group has no freezer, or it does not settle within two seconds.
pub fn freeze(version: u32, dir: &Path, frozen: bool) -> io::Result<()> {
    if version == 2 {
        sys::write_kernel_file(&dir.join("cgroup.freeze"), if frozen { "1" } else { "0" })?;
        return settle(|| {
            let events = sys::read_text(dir.join("cgroup.events"))?;
            Ok(value_of(&events, "frozen").unwrap_or(0) == u64::from(frozen))
        });
    }
    let wanted = if frozen { "FROZEN" } else { "THAWED" };
    let file = dir.join("freezer.state");
    settle(|| {
        sys::write_kernel_file(&file, wanted)?;
        Ok(sys::read_text(&file)?.trim() == wanted)
    })
}

fn settle(mut done: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let deadline = sys::monotonic_s() + 2.0;
    while !done()? {
        if sys::monotonic_s() > deadline {
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        sys::pause(0.001);
    }
    Ok(())
}

/// Sends SIGKILL to every process of the group in a way that no fork escapes.
pub fn kill(version: u32, dir: &Path) {
    if version == 2 && sys::write_kernel_file(&dir.join("cgroup.kill"), "1").is_ok() {
        // A frozen group dies too: kill overrides the v2 freezer.
        return;
    }
    // Frozen processes cannot fork while we signal them; the signal takes effect when they thaw.
    let frozen = freeze(version, dir, true).is_ok();
    for pid in members(dir) {
        sys::signal(pid, libc::SIGKILL);
    }
    if frozen || version == 1 {
        let _ = freeze(version, dir, false);
    }
}

/// Ends all processes of the group and removes it; true when it is gone.
pub fn clear(version: u32, dir: &Path, patience_s: f64) -> bool {
    let deadline = sys::monotonic_s() + patience_s;
    let mut wait_s = 0.0005;
    loop {
        if !members(dir).is_empty() {
            kill(version, dir);
        }
        if remove(dir) {
            return true;
        }
        if sys::monotonic_s() > deadline {
            return false;
        }
        sys::pause(wait_s);
        wait_s = (wait_s * 2.0).min(0.05);
    }
}

/// Removes the group and the groups below it; true when it is gone.
pub fn remove(dir: &Path) -> bool {
    match fs::remove_dir(dir) {
        Ok(()) => return true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
        Err(_) => {}
    }
    for below in subgroups(dir) {
        remove(&below);
    }
    match fs::remove_dir(dir) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// How many processes of the group the kernel has killed for want of memory.
pub fn oom_kills(version: u32, memory: &Path) -> u64 {
    let file = if version == 2 {
        "memory.events"
    } else {
        "memory.oom_control"
    };
    let text = sys::read_text(memory.join(file)).unwrap_or_default();
    value_of(&text, "oom_kill")
        .unwrap_or(0)
        .max(value_of(&text, "oom_group_kill").unwrap_or(0))
}

/// User and system CPU seconds of the group.
pub fn cpu_s(version: u32, dir: &Path) -> Option<(f64, f64)> {
    if version == 2 {
        let text = sys::read_text(dir.join("cpu.stat")).ok()?;
        let seconds = |key| value_of(&text, key).map(|v| v as f64 / 1e6);
        return Some((seconds("user_usec")?, seconds("system_usec")?));
    }
    let nanoseconds = |file: &str| -> Option<f64> {
        let text = sys::read_text(dir.join(file)).ok()?;
        Some(text.trim().parse::<u64>().ok()? as f64 / 1e9)
    };
    Some((
        nanoseconds("cpuacct.usage_user")?,
        nanoseconds("cpuacct.usage_sys")?,
    ))
}

/// Bytes of memory the group uses now, without reclaimable cache.
pub fn memory_bytes(version: u32, dir: &Path) -> Option<u64> {
    let text = sys::read_text(dir.join("memory.stat")).ok()?;
    let keys: [&str; 2] = if version == 2 {
        ["anon", "shmem"]
    } else {
        ["total_rss", "total_shmem"]
    };
    let first = value_of(&text, keys[0])?;
    Some(first + value_of(&text, keys[1]).unwrap_or(0))
}

/// The kernel's own peak in bytes; with `ignore_cache` less what could be reclaimed now.
pub fn peak_bytes(version: u32, dir: &Path, ignore_cache: bool) -> Option<u64> {
    let file = if version == 2 {
        "memory.peak"
    } else {
        "memory.max_usage_in_bytes"
    };
    let peak: u64 = sys::read_text(dir.join(file)).ok()?.trim().parse().ok()?;
    if !ignore_cache {
        return Some(peak);
    }
    let text = sys::read_text(dir.join("memory.stat")).ok()?;
    let keys: [&str; 2] = if version == 2 {
        ["file", "inactive_anon"]
    } else {
        ["total_cache", "total_inactive_anon"]
    };
    let cache: u64 = keys.iter().filter_map(|key| value_of(&text, key)).sum();
    Some(peak.saturating_sub(cache))
}

/// The number behind `key` in a file of `key number` lines.
fn value_of(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_whole_name() {
        let text = "oom 1\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(value_of(text, "oom_kill"), Some(2));
        assert_eq!(value_of(text, "oom_group"), None);
    }

    #[test]
    fn a_group_that_is_gone_counts_as_removed() {
        assert!(remove(Path::new("/nonexistent/group")));
        assert!(members(Path::new("/nonexistent/group")).is_empty());
    }
}
