//! What a `ClassAd` can be made from.

use super::ad::PyAd;
use super::convert::{self, from_python, name};
use ::classad::{Ad, Syntax};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// An ad from new-syntax text, another ad, a mapping or pairs.
pub(super) fn ad_from(source: &Bound<'_, PyAny>) -> PyResult<Ad> {
    if source.is_instance_of::<PyString>() {
        return convert::with_bytes(source, |text| {
            ::classad::parse_ad(text, Syntax::NORMAL)
                .map(|(ad, _)| ad)
                .map_err(|error| convert::syntax_error(source.py(), &error, text))
        })?;
    }
    if let Ok(ad) = source.cast::<PyAd>() {
        return Ok((*ad.borrow().ad).clone());
    }
    if let Ok(dict) = source.cast::<PyDict>() {
        return convert::ad_from_dict(dict);
    }
    let mut ad = Ad::new();
    let pairs = if source.hasattr("items")? {
        source.call_method0("items")?
    } else {
        source.clone()
    };
    for pair in pairs.try_iter()? {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
        ad.insert(name(&key)?, from_python(&value)?);
    }
    Ok(ad)
}
