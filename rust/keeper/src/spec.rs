//! What a keeper is told: the file `spec` of its control directory.
//!
//! Fields `key=value`, each ended by a zero byte, so that arguments and environment need no quoting. Unknown keys are
//! refused: a misspelt limit must not be an absent one.

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

/// A value to write into a file of the job's cgroup.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The run fails if the kernel refuses it; otherwise the refusal is reported with the result.
    pub required: bool,
    /// The file.
    pub path: PathBuf,
    /// The text to write.
    pub value: String,
}

/// The cgroups of a job, of either version.
#[derive(Debug, Clone, Default)]
pub struct CgroupSpec {
    /// 0 none, 1, or 2.
    pub version: u32,
    /// Directories to make (outermost first) and to remove at the end.
    pub make: Vec<PathBuf>,
    /// Values to set before the job joins.
    pub settings: Vec<Setting>,
    /// Directories the job joins.
    pub join: Vec<PathBuf>,
    /// Directories that tell and end the family: with `cgroup.procs`.
    pub freezer: Option<PathBuf>,
    /// Directory with the memory files.
    pub memory: Option<PathBuf>,
    /// Directory with the CPU accounting files.
    pub cpu: Option<PathBuf>,
    /// Given to the job's user, so that it may make groups below.
    pub own: Vec<PathBuf>,
    /// Devices (major, minor) that the job must not open: version 2 has no file for them, but a program.
    pub deny: Vec<(u32, u32)>,
    /// Report the kernel's own peak instead of the largest sample.
    pub use_peak: bool,
    /// Do not count reclaimable page cache.
    pub ignore_cache: bool,
}

/// All a keeper needs to know.
#[derive(Debug, Clone, Default)]
pub struct Spec {
    /// The control directory.
    pub control: PathBuf,
    /// Name of the run's directory; begins each notice to the starter.
    pub name: String,
    /// FIFO the starter reads.
    pub notify: Option<PathBuf>,
    /// File whose modification time says when the starter was last there.
    pub lease: Option<PathBuf>,
    /// Seconds the job may go on without the starter; 0 = for ever.
    pub lease_s: f64,
    /// Program to run.
    pub exe: CString,
    /// Its arguments, name first.
    pub args: Vec<CString>,
    /// Its whole environment.
    pub env: Vec<CString>,
    /// Its working directory.
    pub cwd: CString,
    /// Standard input, output, error; equal output and error share one open file.
    pub stdio: [CString; 3],
    /// Output and error are added to.
    pub append: bool,
    /// The program is not the job: it is the client of a runtime that runs the job elsewhere. It keeps the keeper's rights,
    /// and has the job's for standard input, output and error only.
    pub client: bool,
    /// The program is one that the zygote has loaded: it goes on in the fork, without exec. A zygote without it runs the
    /// file.
    pub warm: bool,
    /// User and group to drop to; none when the starter itself is unprivileged.
    pub user: Option<(u32, u32)>,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Group that only this family has.
    pub tracking_gid: Option<u32>,
    /// Text of an environment entry that only this family has.
    pub marker: String,
    /// The user's account serves this slot only: all its processes are the job's.
    pub dedicated: bool,
    /// Added to the nice value.
    pub nice: i32,
    /// File mode mask.
    pub umask: u32,
    /// (resource, soft, hard).
    pub rlimits: Vec<(u32, u64, u64)>,
    /// Processes and threads that the job's account may have beyond those that it has at the start; 0 = any number.
    pub processes: u64,
    /// Cores that the job may use; none for all.
    pub cores: Vec<usize>,
    /// Badness for the machine's OOM killer.
    pub oom_score_adj: Option<i32>,
    /// A process namespace of its own.
    pub pid_namespace: bool,
    /// Bind mounts (source, target) in a mount namespace of its own.
    pub mounts: Vec<(PathBuf, PathBuf)>,
    /// Directories that must stay reachable at their path below those mounts.
    pub pins: Vec<PathBuf>,
    /// An own `/dev/shm` of so many MiB (0: the kernel's usual size).
    pub shm_mib: Option<u64>,
    /// System V and POSIX queues, segments and semaphores of its own.
    pub private_ipc: bool,
    /// What is mounted below the first is not for the job to see, except below the second.
    pub hide: Option<(PathBuf, PathBuf)>,
    /// Measure the proportional set size too: slow, as the kernel goes through all pages.
    pub proportional: bool,
    /// Seconds between measurements.
    pub poll_s: f64,
    /// Signal and seconds for a family left without its starter.
    pub kill_signal: i32,
    /// The job's process is told to suspend itself (SIGTSTP) and to go on (SIGCONT), instead of being stopped.
    pub suspends_itself: bool,
    /// The cgroups.
    pub cgroup: CgroupSpec,
}

impl Spec {
    /// Reads the spec of the control directory.
    ///
    /// # Errors
    /// When it cannot be read, or a field is not understood.
    pub fn load(control: &Path) -> io::Result<Spec> {
        let bytes = std::fs::read(control.join("spec"))?;
        let mut spec = Spec::parse(&bytes)?;
        spec.control = control.to_path_buf();
        Ok(spec)
    }

    /// The account whose processes are all the job's, if it has one of its own.
    pub fn dedicated_uid(&self) -> Option<u32> {
        self.user
            .filter(|_| self.dedicated)
            .map(|(uid, _)| uid)
            .filter(|uid| *uid != 0)
    }

    /// Reads the fields.
    ///
    /// # Errors
    /// When one is not understood.
    pub fn parse(bytes: &[u8]) -> io::Result<Spec> {
        let mut spec = Spec {
            poll_s: 5.0,
            umask: 0o022,
            kill_signal: libc::SIGTERM,
            ..Spec::default()
        };
        for field in bytes.split(|byte| *byte == 0).filter(|f| !f.is_empty()) {
            let at = field
                .iter()
                .position(|byte| *byte == b'=')
                .ok_or_else(|| refused(field))?;
            let (key, value) = (&field[..at], &field[at + 1..]);
            spec.set(key, value)?;
        }
        Ok(spec)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match key {
            b"name" => self.name = text(value)?,
            b"notify" => self.notify = Some(path(value)),
            b"lease" => self.lease = Some(path(value)),
            b"lease_s" => self.lease_s = parsed(value)?,
            b"exe" => self.exe = c_text(value)?,
            b"arg" => self.args.push(c_text(value)?),
            b"env" => self.env.push(c_text(value)?),
            b"cwd" => self.cwd = c_text(value)?,
            b"stdin" => self.stdio[0] = c_text(value)?,
            b"stdout" => self.stdio[1] = c_text(value)?,
            b"stderr" => self.stdio[2] = c_text(value)?,
            b"append" => self.append = value == b"1",
            b"client" => self.client = value == b"1",
            b"warm" => self.warm = value == b"1",
            b"user" => {
                let (uid, gid) = pair(value, ':')?;
                self.user = Some((parsed(uid.as_bytes())?, parsed(gid.as_bytes())?));
            }
            b"group" => self.groups.push(parsed(value)?),
            b"tracking_gid" => self.tracking_gid = Some(parsed(value)?),
            b"marker" => self.marker = text(value)?,
            b"dedicated" => self.dedicated = value == b"1",
            b"nice" => self.nice = parsed(value)?,
            b"umask" => self.umask = parsed(value)?,
            b"rlimit" => self.rlimits.push(rlimit(value)?),
            b"processes" => self.processes = parsed(value)?,
            b"core" => self.cores.push(core(value)?),
            b"oom_score_adj" => self.oom_score_adj = Some(parsed(value)?),
            b"pid_namespace" => self.pid_namespace = value == b"1",
            b"mount" => {
                let (from, to) = pair(value, '\t')?;
                self.mounts.push((from.into(), to.into()));
            }
            b"shm_mib" => self.shm_mib = Some(parsed(value)?),
            b"private_ipc" => self.private_ipc = value == b"1",
            b"hide" => {
                let (below, own) = pair(value, '\t')?;
                self.hide = Some((below.into(), own.into()));
            }
            b"pin" => self.pins.push(path(value)),
            b"proportional" => self.proportional = value == b"1",
            b"poll_s" => self.poll_s = parsed(value)?,
            b"suspends_itself" => self.suspends_itself = value == b"1",
            b"kill_signal" => self.kill_signal = parsed(value)?,
            _ => self.cgroup.set(key, value)?,
        }
        Ok(())
    }
}

impl CgroupSpec {
    fn set(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match key {
            b"cg.version" => self.version = parsed(value)?,
            b"cg.make" => self.make.push(path(value)),
            b"cg.require" | b"cg.set" => {
                let (file, wanted) = pair(value, '\t')?;
                self.settings.push(Setting {
                    required: key == b"cg.require",
                    path: file.into(),
                    value: wanted,
                });
            }
            b"cg.join" => self.join.push(path(value)),
            b"cg.freezer" => self.freezer = Some(path(value)),
            b"cg.memory" => self.memory = Some(path(value)),
            b"cg.cpu" => self.cpu = Some(path(value)),
            b"cg.own" => self.own.push(path(value)),
            b"cg.deny" => {
                let (major, minor) = pair(value, ':')?;
                self.deny
                    .push((parsed(major.as_bytes())?, parsed(minor.as_bytes())?));
            }
            b"cg.use_peak" => self.use_peak = value == b"1",
            b"cg.ignore_cache" => self.ignore_cache = value == b"1",
            _ => return Err(refused(key)),
        }
        Ok(())
    }
}

fn refused(what: &[u8]) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("spec: {:?} not understood", String::from_utf8_lossy(what)),
    )
}

fn text(value: &[u8]) -> io::Result<String> {
    String::from_utf8(value.to_vec()).map_err(|_| refused(value))
}

fn c_text(value: &[u8]) -> io::Result<CString> {
    CString::new(value).map_err(|_| refused(value))
}

fn path(value: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(value))
}

fn parsed<T: std::str::FromStr>(value: &[u8]) -> io::Result<T> {
    text(value)?.parse().map_err(|_| refused(value))
}

/// The number of a core that a set of cores has room for.
fn core(value: &[u8]) -> io::Result<usize> {
    let number: usize = parsed(value)?;
    if number < libc::CPU_SETSIZE as usize {
        Ok(number)
    } else {
        Err(refused(value))
    }
}

fn pair(value: &[u8], separator: char) -> io::Result<(String, String)> {
    let whole = text(value)?;
    let (left, right) = whole.split_once(separator).ok_or_else(|| refused(value))?;
    Ok((left.to_owned(), right.to_owned()))
}

fn rlimit(value: &[u8]) -> io::Result<(u32, u64, u64)> {
    let (resource, limits) = pair(value, ':')?;
    let (soft, hard) = pair(limits.as_bytes(), ':')?;
    Ok((
        parsed(resource.as_bytes())?,
        parsed(soft.as_bytes())?,
        parsed(hard.as_bytes())?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_are() {
        let spec = Spec::parse(
            b"name=dir_1\0exe=/bin/echo\0arg=echo\0arg=a b=c\0env=X=1\n2\0user=65534:65533\0rlimit=4:0:0\0mount=/a\t/b\0cg.require=/x/memory.max\t5\0",
        )
        .unwrap();
        assert_eq!(spec.name, "dir_1");
        assert_eq!(spec.args[1].to_str().unwrap(), "a b=c");
        assert_eq!(spec.env[0].to_str().unwrap(), "X=1\n2");
        assert_eq!(spec.user, Some((65534, 65533)));
        assert_eq!(spec.rlimits, vec![(4, 0, 0)]);
        assert_eq!(spec.mounts[0].1, PathBuf::from("/b"));
        assert!(!spec.warm);
        assert!(Spec::parse(b"warm=1\0").unwrap().warm);
        assert!(spec.cgroup.settings[0].required);
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        assert!(Spec::parse(b"cg.memroy=/x\0").is_err());
        assert!(Spec::parse(b"nice=much\0").is_err());
        assert!(Spec::parse(b"core=1024\0").is_err());
        assert!(Spec::parse(b"nothing\0").is_err());
    }
}
