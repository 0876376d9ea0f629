//! Streams of ads.

use super::{PyAd, convert};
use ::classad::formats::old::{OldReader, Rules};
use pyo3::prelude::*;
use std::sync::Arc;

/// Iterates over parsed ads.
#[pyclass(name = "AdIterator", module = "slotwise.classad")]
pub struct AdIterator {
    ads: std::vec::IntoIter<Arc<::classad::Ad>>,
}

#[pymethods]
impl AdIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }
    fn __next__(&mut self) -> Option<PyAd> {
        self.ads.next().map(PyAd::of)
    }
    fn __len__(&self) -> usize {
        self.ads.len()
    }
}

/// Reads all ads of an old-syntax text.
#[pyfunction]
#[pyo3(signature = (text, *, lenient=false))]
pub fn parse_old(text: &Bound<'_, PyAny>, lenient: bool) -> PyResult<AdIterator> {
    let py = text.py();
    convert::with_bytes(text, |bytes| {
        let read = py.detach(|| {
            let rules = Rules {
                rules_separate: true,
                lenient,
                strict: false,
            };
            let mut reader = OldReader::new(bytes, rules);
            let mut ads = Vec::new();
            while let Some(ad) = reader.next_ad() {
                match ad {
                    Ok(ad) => ads.push(Arc::new(ad)),
                    Err(error) if !lenient => return Err(error),
                    Err(_) => {}
                }
            }
            Ok(ads)
        });
        match read {
            Ok(ads) => Ok(AdIterator {
                ads: ads.into_iter(),
            }),
            Err(error) => Err(convert::syntax_error(py, &error, bytes)),
        }
    })?
}
