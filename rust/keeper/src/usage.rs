//! Measures what a job uses.

use crate::cgroup;
use crate::family;
use crate::spec::Spec;

/// What a job has used so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// CPU seconds in user code.
    pub user_s: f64,
    /// CPU seconds in the kernel.
    pub system_s: f64,
    /// Memory in use at the last look, KiB.
    pub resident_kib: u64,
    /// Largest memory use seen, KiB.
    pub peak_kib: u64,
    /// Largest image seen, KiB.
    pub image_kib: u64,
    /// Largest proportional set size seen, KiB; 0 when it is not measured.
    pub proportional_kib: u64,
    /// Processes at the last look.
    pub processes: u64,
}

impl Usage {
    /// Looks at the family once and keeps the largest values.
    pub fn look(&mut self, spec: &Spec) {
        if spec.cgroup.version == 0 {
            self.look_at_processes();
        } else {
            self.look_at_cgroup(spec);
        }
        self.peak_kib = self.peak_kib.max(self.resident_kib);
        self.image_kib = self.image_kib.max(self.resident_kib);
        if spec.proportional {
            let sizes = family::descendants(std::process::id() as i32)
                .into_iter()
                .map(family::proportional_kib);
            self.proportional_kib = self.proportional_kib.max(sizes.sum());
        }
    }

    fn look_at_cgroup(&mut self, spec: &Spec) {
        let group = &spec.cgroup;
        match &group.memory {
            Some(dir) => {
                if let Some(bytes) = cgroup::memory_bytes(group.version, dir) {
                    self.resident_kib = bytes / 1024;
                }
                if group.use_peak
                    && let Some(bytes) = cgroup::peak_bytes(group.version, dir, group.ignore_cache)
                {
                    self.peak_kib = self.peak_kib.max(bytes / 1024);
                }
            }
            None => self.look_at_memory(&family::stats_of_descendants(std::process::id() as i32)),
        }
        match group
            .cpu
            .as_deref()
            .and_then(|dir| cgroup::cpu_s(group.version, dir))
        {
            Some((user, system)) => (self.user_s, self.system_s) = (user, system),
            None => self.look_at_cpu(&family::stats_of_descendants(std::process::id() as i32)),
        }
        if let Some(dir) = &group.freezer {
            self.processes = cgroup::members(dir).len() as u64;
        }
    }

    fn look_at_processes(&mut self) {
        let living = family::stats_of_descendants(std::process::id() as i32);
        self.look_at_memory(&living);
        self.processes = living
            .iter()
            .filter(|s| !matches!(s.state, 'Z' | 'X'))
            .count() as u64;
        self.look_at_cpu(&living);
    }

    fn look_at_memory(&mut self, living: &[family::Stat]) {
        // SAFETY: sysconf has no memory to get wrong.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        self.resident_kib = living.iter().map(|s| s.resident_pages * page / 1024).sum();
        let image: u64 = living.iter().map(|s| s.image_bytes / 1024).sum();
        self.image_kib = self.image_kib.max(image);
    }

    /// The living (with the children they waited for) and those that ended and were waited for here.
    fn look_at_cpu(&mut self, living: &[family::Stat]) {
        // SAFETY: sysconf has no memory to get wrong.
        let tick = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
        let gone = children_waited_for();
        let user =
            living.iter().map(|s| s.ticks.0 as f64 / tick).sum::<f64>() + seconds(gone.ru_utime);
        let system =
            living.iter().map(|s| s.ticks.1 as f64 / tick).sum::<f64>() + seconds(gone.ru_stime);
        // Ticks are coarse: a sum may come out a little below the last one.
        self.user_s = self.user_s.max(user);
        self.system_s = self.system_s.max(system);
    }

    /// The last look, when all processes have ended but the cgroup is still there.
    pub fn conclude(&mut self, spec: &Spec) {
        if spec.cgroup.version != 0 {
            let resident = self.resident_kib;
            self.look(spec);
            self.resident_kib = resident;
        } else {
            let gone = children_waited_for();
            self.user_s = self.user_s.max(seconds(gone.ru_utime));
            self.system_s = self.system_s.max(seconds(gone.ru_stime));
        }
        self.processes = 0;
        // The largest single process. A process counts the keeper's image as its own until exec: below that it says nothing.
        let largest = children_waited_for().ru_maxrss.max(0) as u64;
        if largest > own_peak_kib() {
            self.peak_kib = self.peak_kib.max(largest);
            self.image_kib = self.image_kib.max(largest);
        }
    }

    /// As `key=value` lines.
    pub fn lines(&self) -> String {
        format!(
            "user_s={:.6}\nsystem_s={:.6}\nresident_kib={}\npeak_kib={}\nimage_kib={}\nproportional_kib={}\nprocesses={}\n",
            self.user_s,
            self.system_s,
            self.resident_kib,
            self.peak_kib,
            self.image_kib,
            self.proportional_kib,
            self.processes
        )
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

fn children_waited_for() -> libc::rusage {
    usage_of(libc::RUSAGE_CHILDREN)
}

fn own_peak_kib() -> u64 {
    usage_of(libc::RUSAGE_SELF).ru_maxrss.max(0) as u64
}

fn usage_of(who: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain data; the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    }
}
