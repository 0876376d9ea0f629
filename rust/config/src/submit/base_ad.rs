//! What every cluster ad starts with.

use classad::{Ad, Expr, Value};

use crate::submit::{Facts, Knobs};

/// The attributes of a cluster that no command has touched yet.
#[must_use]
pub fn base_ad(facts: &Facts, knobs: &dyn Knobs) -> Ad {
    const COUNTS: [&str; 15] = [
        "ExitStatus",
        "NumCkpts",
        "NumJobStarts",
        "NumJobCompletions",
        "NumRestarts",
        "NumSystemHolds",
        "CommittedTime",
        "CommittedSlotTime",
        "CumulativeSlotTime",
        "TotalSuspensions",
        "LastSuspensionTime",
        "CumulativeSuspensionTime",
        "CommittedSuspensionTime",
        "NumShadowStarts",
        "JobSubmitMethod",
    ];
    const TIMES: [&str; 5] = [
        "RemoteWallClockTime",
        "RemoteUserCpu",
        "RemoteSysCpu",
        "CumulativeRemoteUserCpu",
        "CumulativeRemoteSysCpu",
    ];
    let mut ad = Ad::with_capacity(96);
    let mut put = |name: &str, value: Value| {
        ad.insert(name.into(), Expr::Lit(value));
    };
    put("MyType", "Job".into());
    put("TargetType", "Machine".into());
    put("QDate", facts.now.into());
    put("EnteredCurrentStatus", facts.now.into());
    put("RootDir", "/".into());
    for name in COUNTS {
        put(name, 0.into());
    }
    for name in TIMES {
        put(name, 0.0.into());
    }
    put("ExitBySignal", false.into());
    for list in ["SUBMIT_ATTRS", "SUBMIT_EXPRS", "SYSTEM_SUBMIT_ATTRS"] {
        let names = knobs.text(list).unwrap_or_default();
        for name in crate::functions::list_items(&names) {
            let name = name.trim_start_matches('+');
            let text = knobs.text(name).unwrap_or_default();
            if let Ok(parsed) = classad::parse_expr(text.as_bytes(), classad::Syntax::OLD) {
                ad.insert(name.into(), parsed);
            }
        }
    }
    ad
}
