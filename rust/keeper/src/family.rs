//! Finds the processes of a job where no cgroup tells: by descent, session, tracking group and environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::sys;

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stat {
    /// State letter.
    pub state: char,
    /// Parent.
    pub parent: i32,
    /// Session.
    pub session: i32,
    /// User and system CPU time in clock ticks, with those of children waited for.
    pub ticks: (u64, u64),
    /// Threads.
    pub threads: u64,
    /// Address space, bytes.
    pub image_bytes: u64,
    /// Resident pages.
    pub resident_pages: u64,
}

/// Reads `/proc/PID/stat`; none when the process is gone.
pub fn stat(pid: i32) -> Option<Stat> {
    let text = sys::read_text(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|f| f.parse::<u64>().ok());
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        ticks: (number(11)? + number(13)?, number(12)? + number(14)?),
        threads: number(17)?,
        image_bytes: number(20)?,
        resident_pages: number(21)?,
    })
}

/// What the descendants of `root` that have not been waited for show of themselves.
pub fn stats_of_descendants(root: i32) -> Vec<Stat> {
    descendants(root).into_iter().filter_map(stat).collect()
}

/// All living descendants of `root`, without it.
pub fn descendants(root: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        match children(pid) {
            Some(young) => {
                found.extend(&young);
                open.extend(young);
            }
            None if pid == root => return descendants_by_scan(root),
            None => {}
        }
    }
    found
}

/// Children by the kernel's own list; none when the kernel has no such list or the process is gone.
fn children(pid: i32) -> Option<Vec<i32>> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut found = Vec::new();
    for task in tasks.flatten() {
        let text = sys::read_text(task.path().join("children")).ok()?;
        found.extend(
            text.split_whitespace()
                .filter_map(|p| p.parse::<i32>().ok()),
        );
    }
    Some(found)
}

fn descendants_by_scan(root: i32) -> Vec<i32> {
    let parents: BTreeMap<i32, i32> = sys::all_pids()
        .into_iter()
        .filter_map(|pid| Some((pid, stat(pid)?.parent)))
        .collect();
    parents
        .keys()
        .copied()
        .filter(|pid| {
            let mut at = *pid;
            for _ in 0..parents.len() {
                match parents.get(&at) {
                    Some(parent) if *parent == root => return true,
                    Some(parent) => at = *parent,
                    None => return false,
                }
            }
            false
        })
        .collect()
}

/// Signs by which a family is known when its keeper is dead.
#[derive(Debug, Clone, Default)]
pub struct Signs {
    /// Supplementary group that only this family has.
    pub tracking_gid: Option<u32>,
    /// Environment entry that only this family has (`NAME=value`).
    pub marker: String,
    /// Account that only this family runs as.
    pub uid: Option<u32>,
    /// Sessions known to be the job's.
    pub sessions: Vec<i32>,
    /// Cgroup directories whose members are the family.
    pub cgroups: Vec<PathBuf>,
}

/// All processes that bear one of the signs. Never the caller.
pub fn bearing(signs: &Signs) -> Vec<i32> {
    let me = std::process::id() as i32;
    let mut found: Vec<i32> = signs
        .cgroups
        .iter()
        .flat_map(|dir| crate::cgroup::members(dir))
        .collect();
    let by_scan = signs.tracking_gid.is_some()
        || signs.uid.is_some()
        || !signs.marker.is_empty()
        || !signs.sessions.is_empty();
    if by_scan {
        found.extend(sys::all_pids().into_iter().filter(|pid| {
            has_group(*pid, signs.tracking_gid)
                || has_uid(*pid, signs.uid)
                || has_environment(*pid, &signs.marker)
                || in_session(*pid, &signs.sessions)
        }));
    }
    found.sort_unstable();
    found.dedup();
    found.retain(|pid| *pid != me && !is_zombie(*pid));
    found
}

/// True for a process that has ended but was not waited for.
pub fn is_zombie(pid: i32) -> bool {
    stat(pid).is_none_or(|s| matches!(s.state, 'Z' | 'X'))
}

fn has_group(pid: i32, group: Option<u32>) -> bool {
    let Some(group) = group else { return false };
    let Ok(status) = sys::read_text(format!("/proc/{pid}/status")) else {
        return false;
    };
    status
        .lines()
        .find_map(|line| line.strip_prefix("Groups:"))
        .is_some_and(|groups| {
            groups
                .split_whitespace()
                .any(|g| g.parse::<u32>() == Ok(group))
        })
}

fn has_uid(pid: i32, uid: Option<u32>) -> bool {
    use std::os::unix::fs::MetadataExt;
    uid.is_some_and(|uid| {
        std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| meta.uid() == uid)
    })
}

/// Threads of all processes of an account: what RLIMIT_NPROC counts.
pub fn threads_of(uid: u32) -> u64 {
    sys::all_pids()
        .into_iter()
        .filter(|pid| has_uid(*pid, Some(uid)))
        .filter_map(stat)
        .map(|found| found.threads)
        .sum()
}

/// Memory of a process in KiB, with its share of what it has together with others; 0 when that cannot be read.
pub fn proportional_kib(pid: i32) -> u64 {
    sys::read_text(format!("/proc/{pid}/smaps_rollup"))
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            line.trim().strip_suffix("kB")?.trim().parse().ok()
        })
        .unwrap_or(0)
}

fn has_environment(pid: i32, marker: &str) -> bool {
    if marker.is_empty() {
        return false;
    }
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|bytes| bytes.split(|b| *b == 0).any(|e| e == marker.as_bytes()))
}

fn in_session(pid: i32, sessions: &[i32]) -> bool {
    !sessions.is_empty() && stat(pid).is_some_and(|s| sessions.contains(&s.session))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_found_by_descent_and_by_its_environment() {
        let mut child = Command::new("/bin/sleep")
            .arg("30")
            .env("_KEEPER_TEST", "abc123")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let me = std::process::id() as i32;
        assert!(descendants(me).contains(&pid));
        assert!(descendants_by_scan(me).contains(&pid));
        let signs = Signs {
            marker: "_KEEPER_TEST=abc123".into(),
            ..Signs::default()
        };
        let deadline = sys::monotonic_s() + 10.0; // the environment changes with exec
        while !bearing(&signs).contains(&pid) && sys::monotonic_s() < deadline {
            sys::pause(0.01);
        }
        assert!(bearing(&signs).contains(&pid));
        assert!(proportional_kib(pid) > 0 && proportional_kib(0) == 0);
        // SAFETY: no memory involved.
        assert!(threads_of(unsafe { libc::getuid() }) >= 2);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!bearing(&signs).contains(&pid));
    }
}
