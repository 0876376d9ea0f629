//! By what results are remembered.

use classad::{Ad, Value};

use crate::ads::canonical_text;
use crate::clause::Clause;
use crate::dependencies::Dependencies;
use crate::matcher::{Matcher, Owner};

/// By what a result is remembered: the expression and all it reads of the job.
pub(super) fn result_key(
    matcher: &Matcher,
    clause: &Clause,
    owner: Owner,
    job: Option<&Ad>,
    dependencies: &Dependencies,
) -> Box<[u8]> {
    let mut key = Vec::with_capacity(96);
    // No job at all is not one without attributes: TARGET is not an ad then.
    key.push(owner as u8 | u8::from(job.is_some()) << 1);
    key.extend_from_slice(&clause.id.to_le_bytes());
    for name in &dependencies.job_names {
        key.push(0);
        let Some(expr) = job.and_then(|job| job.get(name)) else {
            continue;
        };
        key.extend_from_slice(name.as_bytes());
        key.push(b'=');
        match expr {
            // Texts show reals with 16 digits: not all that there are.
            classad::Expr::Lit(Value::Real(value)) => {
                key.push(1);
                key.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            classad::Expr::Lit(Value::Int(value)) => {
                key.push(2);
                key.extend_from_slice(&value.to_le_bytes());
            }
            other => key.extend_from_slice(&canonical_text(other)),
        }
    }
    if dependencies.volatile {
        let settings = matcher.settings();
        key.push(0);
        key.extend_from_slice(&settings.now.to_le_bytes());
        key.extend_from_slice(&settings.seed.to_le_bytes());
    }
    key.into()
}
