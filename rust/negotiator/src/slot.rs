//! What a cycle knows of one class of slots.

use crate::config::CycleConfig;
use crate::own_values::{own_flag, own_number, own_text};
use crate::reservation::ReservedFor;
use classad::{Ad, Context, Expr, Name, Value, evaluate};

/// Why a slot cannot be a candidate in this cycle, though it counts for the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trimmed {
    /// Its job still has retirement time.
    Retiring,
    /// It is claimed and preemption is not considered.
    Claimed,
    /// It is about to shut down.
    ShuttingDown,
    /// A claimed partitionable slot that does not want to be matched.
    UnwillingPartitionable,
}

/// Address families, as bits.
pub const IPV4: u8 = 1;
/// See [`IPV4`].
pub const IPV6: u8 = 2;

/// How a slot is divided by a match.
#[derive(Debug, Clone, PartialEq)]
pub enum Division {
    /// A match takes the whole slot.
    Whole,
    /// The slot says what a match consumes (`Consumption<R>`), and how many claims it has.
    ConsumptionPolicy {
        /// Matches that can be made in a cycle.
        claims: u32,
    },
    /// The cycle carves what the request takes.
    Carved,
}

/// Facts of a class; everything any expression of the cycle can see is equal in its slots.
#[derive(Debug, Clone)]
pub struct SlotClass {
    /// The attributes the cycle looks at, of the first slot of the class.
    pub ad: Ad,
    /// Weight charged for the whole slot.
    pub weight: f64,
    /// What the slot adds to the size of the pool.
    pub pool_weight: f64,
    /// Slots it counts for in an unweighted pool.
    pub pool_slots: f64,
    /// Not an ad of this negotiator at all (NEGOTIATOR_SLOT_CONSTRAINT, no Name).
    pub excluded: bool,
    /// Not a candidate.
    pub trimmed: Option<Trimmed>,
    /// Whom a match would preempt: first of PreemptingAccountingGroup,
    /// PreemptingUser, AccountingGroup, RemoteUser.
    pub user: Option<String>,
    /// Whom the slot is charged to while it is claimed.
    pub charged_to: Option<String>,
    /// Whether the slot's user runs on it (State Claimed or Preempting, not suspended and discounted).
    pub charged: bool,
    /// Limit strings of running and waiting claims.
    pub limits: Vec<String>,
    /// Rank of the claim a match has to beat.
    pub current_rank: Option<f64>,
    /// Rank of the slot when it does not depend on the job.
    pub static_rank: Option<f64>,
    /// How a match divides it.
    pub division: Division,
    /// A partitionable slot.
    pub partitionable: bool,
    /// A dynamic slot whose parent publishes what its children do.
    pub rolled_up: bool,
    /// Schedd that holds the claim of a partitionable slot.
    pub held_by_schedd: Option<String>,
    /// Sleeps: a match wakes it, and no claim is made.
    pub offline: bool,
    /// Supports claiming.
    pub want_claiming: bool,
    /// Stays in the list after a match.
    pub reevaluate: bool,
    /// Address families it can be reached by.
    pub families: u8,
    /// Resources and how much of each is free, for slots that can be divided.
    pub resources: Vec<(Name, f64)>,
    /// Kept for one request; others must end in time.
    pub reserved: Option<ReservedFor>,
}

/// Address families of a contact string such as `<127.0.0.1:9618?addrs=[--1]-9618>`.
#[must_use]
pub fn address_families(address: &str) -> u8 {
    let of_start = |text: &str| match text.as_bytes().first() {
        Some(b'[') => IPV6,
        Some(b) if b.is_ascii_digit() => IPV4,
        _ => 0,
    };
    let mut found = of_start(address.strip_prefix('<').unwrap_or(address));
    if let Some((_, list)) = address.split_once("addrs=") {
        let list = list.split(['>', '&', ';']).next().unwrap_or("");
        found |= list.split('+').map(of_start).fold(0, |a, b| a | b);
    }
    found
}

/// Attributes that tell whose slot it is: the first of them that there is.
pub const USERS: [&str; 4] = [
    "PreemptingAccountingGroup",
    "PreemptingUser",
    "AccountingGroup",
    "RemoteUser",
];

impl SlotClass {
    /// Reads the facts from the attributes of a representative.
    ///
    /// `ad` has the attributes of the dependencies; `address` is the slot's contact string.
    #[must_use]
    pub fn read(mut ad: Ad, address: Option<&str>, config: &CycleConfig, now: i64) -> Self {
        if let Some(own) = ad.get_str("NegotiatorRequirements").cloned() {
            ad.set("Requirements", own);
        }
        let share = &config.share;
        if share.force_slot_weight || own_number(&ad, "SlotWeight", now).is_none() {
            ad.set("SlotWeight", share.slot_weight.clone());
        }
        for (name, expr) in &config.selection.given_to_slots {
            ad.set(name, expr.clone());
        }
        // A claim that waits to preempt is the one to beat.
        if let Some(rank) = own_number(&ad, "PreemptingRank", now) {
            ad.set("CurrentRank", Expr::Lit(Value::Real(rank)));
        }
        let text = |name: &str| own_text(&ad, name, now);
        let user = USERS.iter().find_map(|name| text(name));
        let state = text("State").unwrap_or_default();
        let busy = state == "Claimed" || state == "Preempting";
        let suspended = text("Activity").as_deref() == Some("Suspended");
        let limits = ["ConcurrencyLimits", "PreemptingConcurrencyLimits"];
        let partitionable = own_flag(&ad, "PartitionableSlot", now).unwrap_or(false);
        let division = division(&ad, partitionable, config, now);
        let mut class = Self {
            weight: weight(&ad, share.weighted, now),
            pool_weight: 0.0,
            pool_slots: 0.0,
            excluded: false,
            trimmed: None,
            user,
            charged_to: text("AccountingGroup").or_else(|| text("RemoteUser")),
            charged: busy && !(suspended && share.discount_suspended),
            limits: limits.iter().filter_map(|name| text(name)).collect(),
            current_rank: own_number(&ad, "CurrentRank", now),
            static_rank: own_number(&ad, "Rank", now),
            partitionable,
            rolled_up: own_flag(&ad, "DynamicSlot", now).unwrap_or(false)
                && own_flag(&ad, "PslotRollupInformation", now).unwrap_or(false),
            held_by_schedd: text("RemoteScheddName").filter(|_| partitionable),
            offline: own_flag(&ad, "Offline", now).unwrap_or(false),
            want_claiming: own_flag(&ad, "WantClaiming", now).unwrap_or(true),
            reevaluate: own_flag(&ad, "WantAdRevaluate", now).unwrap_or(false),
            families: address.map_or(IPV4 | IPV6, address_families),
            resources: if partitionable {
                resources(&ad, now)
            } else {
                Vec::new()
            },
            division,
            reserved: None,
            ad: Ad::new(),
        };
        class.trimmed = trimmed(&ad, &state, &class, config, now);
        class.excluded = !passes(&ad, config.selection.slot_constraint.as_ref(), now);
        if !class.excluded && passes(&ad, config.selection.pool_constraint.as_ref(), now) {
            let ghosts = own_number(&ad, "GhostMultiplier", now).unwrap_or(1.0);
            class.pool_weight = class.weight * ghosts;
            let cpus = own_number(&ad, "Cpus", now).unwrap_or(1.0);
            class.pool_slots = if partitionable { cpus } else { 1.0 };
        }
        class.ad = ad;
        class
    }

    /// Whether a match could take it, free or busy.
    #[must_use]
    pub fn is_candidate(&self) -> bool {
        !self.excluded && self.trimmed.is_none()
    }

    /// Free amount of a resource.
    #[must_use]
    pub fn resource(&self, name: &Name) -> Option<f64> {
        self.resources
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, amount)| *amount)
    }
}

fn passes(ad: &Ad, constraint: Option<&Expr>, now: i64) -> bool {
    constraint.is_none_or(|expr| {
        let context = Context {
            my: Some(ad),
            now,
            ..Context::default()
        };
        evaluate(expr, &context).is_true()
    })
}

/// Weight charged for a slot: SlotWeight, or 1 when it is not a number, negative, or weights are off.
#[must_use]
pub fn weight(ad: &Ad, weighted: bool, now: i64) -> f64 {
    let own = weighted
        .then(|| own_number(ad, "SlotWeight", now))
        .flatten();
    own.filter(|w| *w >= 0.0).unwrap_or(1.0)
}

fn resources(ad: &Ad, now: i64) -> Vec<(Name, f64)> {
    let listed = own_text(ad, "MachineResources", now);
    let listed = listed.as_deref().unwrap_or("Cpus Memory Disk");
    listed
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("swap"))
        .filter_map(|name| Some((Name::from(name), own_number(ad, name, now)?)))
        .collect()
}

fn division(ad: &Ad, partitionable: bool, config: &CycleConfig, now: i64) -> Division {
    if !partitionable {
        return Division::Whole;
    }
    let listed = own_text(ad, "MachineResources", now);
    let has_policy = listed.is_some_and(|listed| {
        listed
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("swap"))
            .all(|name| ad.get_str(&format!("Consumption{name}")).is_some())
    });
    if has_policy {
        let cpus = own_number(ad, "Cpus", now).unwrap_or(1.0);
        let claims = own_number(ad, "NumClaims", now)
            .unwrap_or(cpus.ceil())
            .max(0.0);
        return Division::ConsumptionPolicy {
            claims: claims as u32,
        };
    }
    if config.partition.many_matches {
        Division::Carved
    } else {
        Division::Whole
    }
}

fn trimmed(
    ad: &Ad,
    state: &str,
    class: &SlotClass,
    config: &CycleConfig,
    now: i64,
) -> Option<Trimmed> {
    let policy = &config.preemption;
    if policy.consider {
        let retiring = own_number(ad, "RetirementTimeRemaining", now).is_some_and(|t| t > 0.0);
        if retiring && !policy.consider_early {
            return Some(Trimmed::Retiring);
        }
    } else if !class.partitionable && (state == "Claimed" || state == "Preempting") {
        return Some(Trimmed::Claimed);
    }
    if class.partitionable && state == "Claimed" {
        let wants = own_flag(ad, "WantMatching", now).unwrap_or(true);
        let elsewhere = own_text(ad, "WorkingCM", now).is_some_and(|cm| !cm.is_empty());
        if !wants || elsewhere && !config.selection.match_working_cm {
            return Some(Trimmed::UnwillingPartitionable);
        }
    }
    let threshold = config.selection.shutdown_threshold_s;
    if threshold > 0 && shuts_down(ad, threshold, now) {
        return Some(Trimmed::ShuttingDown);
    }
    None
}

fn shuts_down(ad: &Ad, threshold_s: i64, now: i64) -> bool {
    let exprs = ["DaemonShutdown", "DaemonShutdownFast"].map(|name| ad.get_str(name).cloned());
    if exprs.iter().all(Option::is_none) {
        return false;
    }
    let there = own_number(ad, "MyCurrentTime", now).map_or(now, |t| t as i64);
    let mut later = ad.clone();
    later.set("CurrentTime", Expr::Lit(Value::Int(there + threshold_s)));
    let context = Context {
        my: Some(&later),
        now: there + threshold_s,
        ..Context::default()
    };
    exprs
        .iter()
        .flatten()
        .any(|expr| evaluate(expr, &context).is_true())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_come_from_the_address_and_its_list() {
        assert_eq!(address_families("<127.0.0.1:9618?alias=x>"), IPV4);
        assert_eq!(
            address_families("<[::1]:9618?addrs=[--1]-9618+10.0.0.1-9618&alias=x>"),
            IPV4 | IPV6
        );
        assert_eq!(address_families("unix:/run/x"), 0);
    }
}
