//! The rows of an outcome as Python sees them: one frozen class each, compared by value.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Amounts by resource, a dictionary in Python.
#[derive(Clone, PartialEq)]
pub(crate) struct Amounts(pub Vec<(String, f64)>);

impl<'py> IntoPyObject<'py> for &Amounts {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let out = PyDict::new(py);
        for (name, amount) in &self.0 {
            out.set_item(name, amount)?;
        }
        Ok(out)
    }
}

impl<'py> IntoPyObject<'py> for Amounts {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        (&self).into_pyobject(py)
    }
}

impl<'py> FromPyObject<'_, 'py> for Amounts {
    type Error = PyErr;
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let given = given
            .cast::<PyDict>()
            .map_err(|_| PyTypeError::new_err("amounts are a dictionary of numbers"))?;
        let mut amounts = Vec::with_capacity(given.len());
        for (name, amount) in given.iter() {
            amounts.push((name.extract()?, amount.extract()?));
        }
        Ok(Self(amounts))
    }
}

/// A frozen class with these fields as attributes and keyword arguments, and `as_dict` for JSON.
macro_rules! row {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[pyclass(frozen, get_all, eq, from_py_object, module = "slotwise._native")]
        #[derive(Clone, PartialEq)]
        pub(crate) struct $name {
            $($(#[$what])* pub $field: $kind,)*
        }

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (*, $($field),*))]
            #[allow(clippy::too_many_arguments, reason = "the fields of a row, by keyword")]
            fn new($($field: $kind),*) -> Self {
                Self { $($field),* }
            }

            /// The fields by name; fields that are rows stay rows.
            fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                let out = PyDict::new(py);
                $(out.set_item(stringify!($field).trim_start_matches("r#"), self.$field.clone())?;)*
                Ok(out)
            }

            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                Ok(format!("{}({})", stringify!($name), slf.get().as_dict(slf.py())?.repr()?))
            }
        }
    };
}

row! {
    /// One job and the slot it got.
    Match {
        /// The job, where it is named.
        job: Option<String>,
        /// Key of the slot ad.
        slot: String,
        /// Key of the request ad.
        request: String,
        /// Number of its autocluster at the access point.
        autocluster: i64,
        /// Who gets the slot.
        submitter: String,
        /// Its access point.
        schedd: String,
        /// Rank that the job gives the slot.
        rank: f64,
        /// Weight charged.
        cost: f64,
        /// Amounts taken from a partitionable slot; empty for a slot given whole.
        carve: Amounts,
        /// Whose claim ends.
        preempts: Option<String>,
        /// Why: `rank` or `priority`.
        preemption: Option<String>,
        /// Names of dynamic slots to be evicted.
        evicts: Vec<String>,
        /// The slot sleeps.
        offline: bool,
        /// A claim is made.
        claimable: bool,
        /// Concurrency limits held, as MatchedConcurrencyLimits has them.
        limits: Option<String>,
        /// Group it was negotiated under.
        group: String,
    }
}

row! {
    /// Slots that a request could not take, by cause.
    SlotCounts {
        /// Protected by PREEMPTION_REQUIREMENTS.
        protected: u64,
        /// Prefer the job they run.
        prefer_running: u64,
        /// Heavier than what was left of the limit.
        too_heavy: u64,
        /// Would pass a concurrency limit.
        limited: u64,
    }
}

row! {
    /// Jobs of an autocluster that were considered and got nothing (more).
    Rejection {
        /// First job of the autocluster.
        autocluster: String,
        /// Its number at the access point.
        autocluster_id: i64,
        /// Whose jobs.
        submitter: String,
        /// Their access point.
        schedd: String,
        /// Key of the request ad.
        request: String,
        /// Why.
        reason: String,
        /// Jobs concerned.
        count: u32,
        /// Slots by cause.
        slots: SlotCounts,
    }
}

row! {
    /// Jobs that were not considered to their end.
    Waiting {
        /// First job of the autocluster.
        autocluster: String,
        /// Whose jobs.
        submitter: String,
        /// Key of the request ad.
        request: String,
        /// Why, in the words of rejections.
        reason: String,
        /// Jobs concerned.
        count: u32,
    }
}

row! {
    /// A resource request.
    Request {
        /// Key of the request ad.
        request: String,
        /// First job of the autocluster.
        autocluster: String,
        /// Its number at the access point.
        autocluster_id: i64,
        /// Whose jobs.
        submitter: String,
        /// Their access point.
        schedd: String,
        /// How many.
        count: u32,
        /// The jobs, where they are named.
        jobs: Vec<String>,
    }
}

row! {
    /// A submitter after the cycle.
    Submitter {
        /// Its name.
        name: String,
        /// Group it belongs to.
        group: String,
        /// Real user priority.
        priority: f64,
        /// Priority factor.
        factor: f64,
        /// Their product.
        effective_priority: f64,
        /// Share of the pie in the first spin; none when it was not negotiated with.
        share: Option<f64>,
        /// Share times weight of the pie.
        limit: Option<f64>,
        /// Matches.
        matched: u32,
        /// Weighted usage after the cycle.
        usage: f64,
        /// Why jobs were not considered, and how many.
        held_back: Option<(String, u32)>,
    }
}

row! {
    /// An accounting group after the cycle.
    Group {
        /// Its name.
        name: String,
        /// What it keeps for its own submitters.
        quota: f64,
        /// As configured.
        config_quota: f64,
        /// The configured quota is an absolute number.
        r#static: bool,
        /// Handed to it and everything below.
        subtree_quota: f64,
        /// Demand when the cycle began.
        requested: f64,
        /// Granted in the last allocation round.
        allocated: f64,
        /// Weighted usage after the cycle.
        usage: f64,
        /// Matches.
        matched: u32,
        /// `regroup`, `byquota` or `no`.
        surplus: String,
        /// Value of GROUP_SORT_EXPR.
        sort_key: f64,
    }
}

row! {
    /// A machine kept for a large request.
    KeptMachine {
        /// First job of the request.
        job: String,
        /// Key of the slot ad.
        slot: String,
        /// Whose job.
        submitter: String,
        /// When it is expected to start, epoch seconds.
        starts_at: f64,
        /// When the machine is given up, epoch seconds.
        gives_up_at: f64,
        /// Keys of the claimed slots that have to end before.
        claims: Vec<String>,
    }
}

row! {
    /// What a submitter is to give back between jobs.
    Excess {
        /// Its name.
        submitter: String,
        /// The access point that holds the claims.
        schedd: String,
        /// Keys of slots that others can use.
        slots: Vec<String>,
        /// Their weights.
        weights: Vec<f64>,
        /// How much is to be given back, by weight.
        weight: f64,
    }
}

row! {
    /// Counts for the negotiator ad.
    CycleStatistics {
        /// Slot ads.
        total_slots: u64,
        /// Left after trimming.
        trimmed_slots: u64,
        /// Considered.
        candidate_slots: u64,
        /// Kinds of slots the cycle told apart.
        slot_classes: u64,
        /// Allocation rounds.
        rounds: u32,
        /// Pies.
        pies: u32,
        /// Spins of all pies.
        spins: u32,
        /// Requests looked at, again in each spin.
        jobs_considered: u64,
        /// Idle jobs of the submitters negotiated with.
        idle_jobs: u64,
        /// Matches made.
        matches: usize,
        /// Rejections, again in each spin.
        rejections: u64,
        /// Submitters negotiated with.
        active_submitters: u64,
        /// Access points negotiated with.
        active_schedds: u64,
        /// Weight of the pool.
        pool_weight: f64,
        /// Submitters that met a time limit.
        submitters_out_of_time: Vec<String>,
        /// Access points that met a time limit.
        schedds_out_of_time: Vec<String>,
        /// Submitters that met their limit.
        submitters_share_limit: Vec<String>,
    }
}

row! {
    /// Matches as columns: numbers as native-endian bytes.
    MatchColumns {
        /// int32 each, -1 where the job is not named.
        cluster: Vec<u8>,
        /// int32 each, -1 where the job is not named.
        proc: Vec<u8>,
        /// float64 each.
        rank: Vec<u8>,
        /// float64 each.
        cost: Vec<u8>,
        /// Index of the request, uint32 each.
        request: Vec<u8>,
        /// Keys of slots.
        slot: Vec<String>,
        /// Whose claims end.
        preempts: Vec<Option<String>>,
        /// Submitter of each request.
        request_submitter: Vec<String>,
        /// First job of each request.
        request_autocluster: Vec<String>,
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Match>()?;
    module.add_class::<SlotCounts>()?;
    module.add_class::<Rejection>()?;
    module.add_class::<Waiting>()?;
    module.add_class::<Request>()?;
    module.add_class::<Submitter>()?;
    module.add_class::<Group>()?;
    module.add_class::<KeptMachine>()?;
    module.add_class::<Excess>()?;
    module.add_class::<CycleStatistics>()?;
    module.add_class::<MatchColumns>()?;
    Ok(())
}
