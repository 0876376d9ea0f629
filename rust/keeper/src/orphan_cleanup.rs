//! Ends what a dead keeper left behind.

use std::io;
use std::path::Path;

use crate::cgroup;
use crate::family::{self, Signs};
use crate::outcome::Outcome;
use crate::spec::Spec;
use crate::sys;

/// What became of the run of a control directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swept {
    /// Its keeper lives: process id.
    Alive(i32),
    /// It had ended in order; the result is there.
    Ended,
    /// Its keeper had died. The family is gone now, a result saying `lost` is written.
    Cleaned,
    /// As `Cleaned`, but these processes or groups could not be ended.
    Leftovers(Vec<String>),
}

/// Looks at a control directory and, if its keeper is dead, ends the family by cgroup, tracking group and marker.
///
/// Holds the keeper's lock meanwhile and leaves a result, so that a keeper still on its way from the zygote gives up.
///
/// # Errors
/// When the directory cannot be read.
pub fn sweep(control: &Path, patience_s: f64) -> io::Result<Swept> {
    let lock = sys::open_private(&control.join("keeper.lock"))?;
    if !sys::try_lock(&lock)? {
        return Ok(Swept::Alive(sys::lock_holder(&lock)?.unwrap_or(0)));
    }
    let spec = match Spec::load(control) {
        Ok(spec) => spec,
        // No keeper has started a job by a specification that none can read.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::InvalidData
            ) =>
        {
            Spec::default()
        }
        Err(error) => return Err(error),
    };
    let finished = control.join("result").exists();
    let leftovers = end_family(&spec, patience_s);
    if finished && leftovers.is_empty() {
        return Ok(Swept::Ended);
    }
    if !finished {
        let lost = Outcome {
            leftovers: !leftovers.is_empty(),
            ..Outcome::default()
        };
        lost.save(control)?;
    }
    Ok(if leftovers.is_empty() {
        Swept::Cleaned
    } else {
        Swept::Leftovers(leftovers)
    })
}

fn end_family(spec: &Spec, patience_s: f64) -> Vec<String> {
    let signs = Signs {
        tracking_gid: spec.tracking_gid,
        marker: spec.marker.clone(),
        uid: spec.dedicated_uid(),
        sessions: Vec::new(),
        cgroups: spec.cgroup.make.clone(),
    };
    let deadline = sys::monotonic_s() + patience_s;
    let mut killed: Vec<i32> = Vec::new();
    loop {
        if let Some(dir) = &spec.cgroup.freezer
            && !cgroup::members(dir).is_empty()
        {
            cgroup::kill(spec.cgroup.version, dir);
        }
        for pid in family::bearing(&signs) {
            sys::signal(pid, libc::SIGKILL);
            killed.push(pid);
        }
        // A dying process loses its signs before it is gone.
        killed.sort_unstable();
        killed.dedup();
        killed.retain(|pid| !family::is_zombie(*pid));
        let living = &killed;
        let groups: Vec<_> = spec
            .cgroup
            .make
            .iter()
            .rev()
            .filter(|dir| !cgroup::remove(dir))
            .collect();
        if living.is_empty() && groups.is_empty() {
            return Vec::new();
        }
        if sys::monotonic_s() > deadline {
            let pids = living.iter().map(|pid| format!("process {pid}"));
            let dirs = groups.iter().map(|dir| format!("cgroup {}", dir.display()));
            return pids.chain(dirs).collect();
        }
        sys::pause(0.005);
    }
}

/// The process that holds the lock of a control directory's keeper, if one does.
///
/// # Errors
/// When the lock cannot be asked; a lock file that is not there has no holder.
pub fn holder(control: &Path) -> io::Result<Option<i32>> {
    match std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(control.join("keeper.lock"))
    {
        Ok(file) => sys::lock_holder(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
