//! Streams of ads.

use super::{PyAd, convert};
use ::classad::formats::old::Rules;
use ::classad::formats::stream::{AdReader, Format, detect};
use pyo3::exceptions::PyValueError;
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

fn format_of(name: &str, text: &[u8]) -> PyResult<Format> {
    Ok(match name {
        "auto" => detect(text),
        "old" => Format::Old,
        "new" => Format::New,
        "json" => Format::Json,
        "xml" => Format::Xml,
        other => {
            let message = format!("{other:?} is not a format: use auto, old, new, json or xml");
            return Err(PyValueError::new_err(message));
        }
    })
}

/// Reads all ads of a text. ``format`` is ``auto``, ``old``, ``new``, ``json`` or ``xml``. Raises
/// ``AdSyntaxError`` for text that is not an ad; with ``lenient`` a bad line of the old format ends its ad quietly.
#[pyfunction]
#[pyo3(signature = (text, *, format="auto", lenient=false))]
pub fn parse_text(text: &Bound<'_, PyAny>, format: &str, lenient: bool) -> PyResult<AdIterator> {
    let py = text.py();
    convert::with_bytes(text, |bytes| {
        let format = format_of(format, bytes)?;
        let rules = Rules {
            rules_separate: true,
            lenient,
            strict: false,
        };
        let read = py.detach(|| {
            let mut reader = AdReader::new(bytes, format, rules);
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

/// How much of a chunk of old-format text ends with a separator, so that the rest can wait for more.
#[pyfunction]
pub fn complete_prefix(chunk: &[u8]) -> usize {
    memchr::memmem::rfind(chunk, b"\n\n").map_or(0, |at| at + 2)
}
