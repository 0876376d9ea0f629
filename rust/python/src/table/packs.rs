//! Building batches and taking them apart.

use ::columns::{PackHeader, PackWriter, PackedOp};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::convert::{ad_from_python, ad_to_python, names, refused, text};

/// Builds a batch operation by operation.
#[pyclass(module = "slotwise._native")]
pub(crate) struct PackBuilder {
    writer: PackWriter,
}

fn fresh(from_version: u64, to_version: u64, reset: bool) -> PackWriter {
    PackWriter::new(PackHeader {
        from_version,
        to_version,
        reset,
    })
}

#[pymethods]
impl PackBuilder {
    #[new]
    #[pyo3(signature = (reset=false))]
    fn new(reset: bool) -> Self {
        PackBuilder {
            writer: fresh(0, 0, reset),
        }
    }

    /// Number of operations so far.
    fn __len__(&self) -> usize {
        self.writer.operations()
    }

    /// Bytes so far.
    #[getter]
    fn size(&self) -> usize {
        self.writer.len()
    }

    fn upsert(&mut self, key: &str, ad: &Bound<'_, PyAny>) -> PyResult<()> {
        let ad = ad_from_python(ad)?;
        self.writer.upsert(key.as_bytes(), &ad);
        Ok(())
    }

    #[pyo3(signature = (key, delta, removed=Vec::new()))]
    fn update(
        &mut self,
        key: &str,
        delta: &Bound<'_, PyAny>,
        removed: Vec<String>,
    ) -> PyResult<()> {
        let delta = ad_from_python(delta)?;
        self.writer.update(key.as_bytes(), &delta, &names(removed));
        Ok(())
    }

    /// Adds what differs; False if nothing does.
    fn update_from(
        &mut self,
        key: &str,
        old: &Bound<'_, PyAny>,
        new: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (old, new) = (ad_from_python(old)?, ad_from_python(new)?);
        let delta = ::columns::diff(&old, &new);
        if delta.is_empty() {
            return Ok(false);
        }
        self.writer
            .update(key.as_bytes(), &delta.changed, &delta.removed);
        Ok(true)
    }

    fn remove(&mut self, key: &str) {
        self.writer.remove(key.as_bytes());
    }

    /// The batch; the builder starts anew.
    fn finish<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let writer = std::mem::replace(&mut self.writer, fresh(0, 0, false));
        PyBytes::new(py, &writer.finish())
    }
}

/// Ads as a batch; with keys they replace the ads of those keys where the batch is applied.
#[pyfunction]
#[pyo3(signature = (ads, keys=None))]
pub(super) fn pack_ads<'py>(
    py: Python<'py>,
    ads: &Bound<'py, PyAny>,
    keys: Option<Vec<String>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut writer = fresh(0, 0, false);
    let mut count = 0;
    for (at, ad) in ads.try_iter()?.enumerate() {
        let ad = ad_from_python(&ad?)?;
        count += 1;
        match keys.as_ref() {
            None => writer.ad(&ad),
            Some(keys) => match keys.get(at) {
                Some(key) => writer.upsert(key.as_bytes(), &ad),
                None => return Err(PyValueError::new_err("fewer keys than ads")),
            },
        }
    }
    if keys.is_some_and(|keys| keys.len() != count) {
        return Err(PyValueError::new_err("more keys than ads"));
    }
    Ok(PyBytes::new(py, &writer.finish()))
}

/// No evaluation of this process does more than so many steps from now on.
#[pyfunction]
pub(super) fn limit_evaluations(steps: i64) {
    classad::allowance::limit_each(steps);
}

/// Evaluations of this thread share so many steps from now on; what `end_allowance` needs.
#[pyfunction]
pub(super) fn begin_allowance(steps: i64) -> (i64, i64, u64) {
    let former = classad::allowance::begin(steps);
    (former.left, former.used, former.broken)
}

/// Ends what began: steps done, evaluations cut short, and whether all steps are used up.
#[pyfunction]
pub(super) fn end_allowance(former: (i64, i64, u64)) -> (i64, u64, bool) {
    let (left, used, broken) = former;
    let ended = classad::allowance::end(classad::allowance::Account { left, used, broken });
    (ended.used, ended.broken, ended.left <= 0)
}

/// How many ads a batch holds, and the names of their attributes, without building any.
#[pyfunction]
pub(super) fn survey_pack(py: Python<'_>, pack: &[u8]) -> PyResult<(usize, Vec<String>)> {
    let found = py
        .detach(|| ::columns::survey(pack, &[]))
        .map_err(|error| refused(py, &error))?;
    Ok((found.ads(), texts_of_names(&found.names)))
}

/// The keys of a batch (of whole ads, of deltas, of removals), the names of its attributes, and what its ads say of the
/// `wanted` ones, without building any ad.
#[pyfunction]
pub(super) fn pack_keys(py: Python<'_>, pack: &[u8], wanted: Vec<String>) -> PyResult<PackKeys> {
    let wanted = names(wanted);
    let found = py
        .detach(|| ::columns::survey(pack, &wanted))
        .map_err(|error| refused(py, &error))?;
    let texts = |keys: &[&[u8]]| keys.iter().map(|key| lossy(key)).collect();
    let said = found
        .said
        .iter()
        .map(|ads| {
            ads.iter()
                .map(|(key, said)| (lossy(key), said.map(lossy)))
                .collect()
        })
        .collect();
    Ok((
        texts(&found.whole),
        texts(&found.changed),
        texts(&found.removed),
        texts_of_names(&found.names),
        said,
        (found.whole_bytes, found.changed_bytes),
    ))
}

/// Keys of whole ads, of deltas and of removals, attribute names, the wanted attributes of ads by key, and the bytes of
/// whole ads and of deltas.
type PackKeys = (
    Vec<String>,
    Vec<String>,
    Vec<String>,
    Vec<String>,
    Vec<Vec<(String, Option<String>)>>,
    (Vec<usize>, Vec<usize>),
);

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

fn texts_of_names(names: &[classad::Name]) -> Vec<String> {
    names
        .iter()
        .map(|name| name.to_text().into_owned())
        .collect()
}

/// A batch as several of about `most` bytes each.
#[pyfunction]
pub(super) fn split_pack<'py>(
    py: Python<'py>,
    pack: &[u8],
    most: usize,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let pieces = py
        .detach(|| ::columns::split(pack, most))
        .map_err(|error| refused(py, &error))?;
    Ok(pieces.iter().map(|piece| PyBytes::new(py, piece)).collect())
}

/// The ads of a batch (deltas as what they set), removals left out.
#[pyfunction]
pub(super) fn unpack_ads<'py>(py: Python<'py>, pack: &[u8]) -> PyResult<Bound<'py, PyList>> {
    let (_, ops) = py
        .detach(|| ::columns::unpack(pack))
        .map_err(|error| refused(py, &error))?;
    let out = PyList::empty(py);
    for op in ops {
        match op {
            PackedOp::Full(_, ad) | PackedOp::Delta(_, ad, _) => {
                out.append(ad_to_python(py, ad)?)?
            }
            PackedOp::Remove(_) => {}
        }
    }
    Ok(out)
}

/// The operations of a batch: (kind, key or None, ad or None, removed names), kind one of "ad",
/// "delta", "remove".
#[pyfunction]
pub(super) fn unpack_ops<'py>(py: Python<'py>, pack: &[u8]) -> PyResult<Bound<'py, PyList>> {
    let (_, ops) = py
        .detach(|| ::columns::unpack(pack))
        .map_err(|error| refused(py, &error))?;
    let out = PyList::empty(py);
    for op in ops {
        let none = Vec::<String>::new();
        match op {
            PackedOp::Full(key, ad) => {
                out.append(("ad", key.map(|key| text(&key)), ad_to_python(py, ad)?, none))?;
            }
            PackedOp::Delta(key, ad, gone) => {
                let gone: Vec<String> = gone
                    .iter()
                    .map(|name| name.to_text().into_owned())
                    .collect();
                out.append(("delta", text(&key), ad_to_python(py, ad)?, gone))?;
            }
            PackedOp::Remove(key) => out.append(("remove", text(&key), py.None(), none))?,
        }
    }
    Ok(out)
}

/// What must be sent to somebody who has `old`: (attributes that changed, names that are gone).
#[pyfunction]
pub(super) fn diff_ads<'py>(
    py: Python<'py>,
    old: &Bound<'py, PyAny>,
    new: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Vec<String>)> {
    let (old, new) = (ad_from_python(old)?, ad_from_python(new)?);
    let delta = ::columns::diff(&old, &new);
    let removed = delta
        .removed
        .iter()
        .map(|name| name.to_text().into_owned())
        .collect();
    Ok((ad_to_python(py, delta.changed)?, removed))
}
