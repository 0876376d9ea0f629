//! Binding of the crate `columns`: tables of ads and their wire form.
//!
//! Whole batches cross the boundary; nothing makes a Python object per attribute but `get` and
//! `unpack_ads`. Long work runs without the interpreter lock.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ::classad::Name;
use ::columns::{AdTable, Notes, Order, TextLoader};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList};

use crate::classad::PyAd;
use crate::classad::convert::to_python;

mod answers;
mod ask;
mod cluster;
mod convert;
pub(crate) mod explained;
mod packs;
mod picked;
mod reports;

use answers::{counts_of, evaluated, signatures_of, values_of};
use ask::{Asked, Chunks, Form};
use cluster::Cluster;
use convert::{ad_from_python, ad_to_python, names, refused, text};
use packs::PackBuilder;
use reports::{ApplyReport, LoadReport, PyTextLoader, key_rule};

/// Ads by key in typed columns.
#[pyclass(frozen, name = "AdTable", module = "slotwise._native", subclass)]
pub(crate) struct PyAdTable {
    inner: RwLock<AdTable>,
}

impl PyAdTable {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, AdTable> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, AdTable> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyAdTable {
    #[new]
    fn new() -> Self {
        PyAdTable {
            inner: RwLock::new(AdTable::new()),
        }
    }

    fn __len__(&self) -> usize {
        self.read().len()
    }

    fn __contains__(&self, key: &str) -> bool {
        self.read().row_of(key.as_bytes()).is_some()
    }

    #[getter]
    fn version(&self) -> u64 {
        self.read().version()
    }

    /// Rows, those that hold no ad among them.
    #[getter]
    fn row_end(&self) -> usize {
        self.read().row_end()
    }

    /// Bytes held by the table.
    #[getter]
    fn memory_bytes(&self) -> usize {
        self.read().heap_bytes()
    }

    fn keys(&self) -> Vec<String> {
        let table = self.read();
        table.rows().map(|row| text(table.key(row))).collect()
    }

    /// Attribute names in use, as first spelled.
    fn attributes(&self) -> Vec<String> {
        let table = self.read();
        table
            .column_ids()
            .map(|id| table.column_name(id).to_text().into_owned())
            .collect()
    }

    #[pyo3(signature = (key, ad, received_at=0.0))]
    fn upsert(
        &self,
        py: Python<'_>,
        key: &str,
        ad: &Bound<'_, PyAny>,
        received_at: f64,
    ) -> PyResult<()> {
        let ad = ad_from_python(ad)?;
        let done = self.write().upsert(key.as_bytes(), &ad, received_at);
        done.map(|_| ()).map_err(|error| refused(py, &error))
    }

    /// Sets the attributes of `delta`, takes out `removed`. False if there is no such ad.
    #[pyo3(signature = (key, delta, removed=Vec::new(), received_at=0.0))]
    fn update(
        &self,
        py: Python<'_>,
        key: &str,
        delta: &Bound<'_, PyAny>,
        removed: Vec<String>,
        received_at: f64,
    ) -> PyResult<bool> {
        let delta = ad_from_python(delta)?;
        let done = self
            .write()
            .update(key.as_bytes(), &delta, &names(removed), received_at);
        done.map(|row| row.is_some())
            .map_err(|error| refused(py, &error))
    }

    fn remove(&self, key: &str) -> bool {
        self.write().remove(key.as_bytes())
    }

    fn clear(&self) {
        self.write().clear();
    }

    fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let ad = self.read().get(key.as_bytes());
        ad.map(|ad| ad_to_python(py, ad)).transpose()
    }

    /// One attribute of one ad as a Python value; None if it is missing or undefined.
    fn value<'py>(&self, py: Python<'py>, key: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
        // No Python object is made while the lock is held: that could let another thread run, which
        // might wait for the lock with the interpreter in its hands.
        let found = evaluated(&self.read(), key, name);
        match found {
            Some(value) => to_python(py, &value),
            None => Err(PyKeyError::new_err(key.to_owned())),
        }
    }

    /// Applies a batch.
    #[pyo3(signature = (pack, received_at=0.0, stamp=None, counts=false))]
    fn apply(
        &self,
        py: Python<'_>,
        pack: &[u8],
        received_at: f64,
        stamp: Option<&str>,
        counts: bool,
    ) -> PyResult<ApplyReport> {
        let notes = stamp.map(|name| Notes {
            heard: Name::from(name),
            counts,
        });
        let done = py.detach(|| self.write().apply(pack, received_at, notes.as_ref()));
        done.map(ApplyReport::from)
            .map_err(|error| refused(py, &error))
    }

    /// Reads `Name = expression` lines. `key` is the attribute that names an ad, "job" for
    /// `ClusterId.ProcId`, or "number".
    #[pyo3(signature = (text, key="Name", lenient=false, received_at=0.0))]
    fn load_text(
        &self,
        py: Python<'_>,
        text: &[u8],
        key: &str,
        lenient: bool,
        received_at: f64,
    ) -> PyResult<LoadReport> {
        let mut loader = TextLoader::new(key_rule(key), lenient, received_at);
        let done = py.detach(|| {
            let mut table = self.write();
            loader.feed(&mut table, text)?;
            loader.finish(&mut table)
        });
        done.map(LoadReport::from)
            .map_err(|error| refused(py, &error))
    }

    /// A reader for text that comes in pieces.
    #[pyo3(signature = (key="Name", lenient=false, received_at=0.0))]
    fn text_loader(slf: Py<Self>, key: &str, lenient: bool, received_at: f64) -> PyTextLoader {
        PyTextLoader {
            table: slf,
            loader: Some(TextLoader::new(key_rule(key), lenient, received_at)),
        }
    }

    /// Keys removed because nothing was heard of them for their lifetime.
    #[pyo3(signature = (now, default_lifetime_s=900.0, lifetime="ClassAdLifetime"))]
    fn expire(
        &self,
        py: Python<'_>,
        now: f64,
        default_lifetime_s: f64,
        lifetime: &str,
    ) -> Vec<String> {
        let lifetime = Name::from(lifetime);
        let gone = py.detach(|| self.write().expire(now, &lifetime, default_lifetime_s));
        gone.iter().map(|key| text(key)).collect()
    }

    /// When the ad was last received, or None.
    fn received_at(&self, key: &str) -> Option<f64> {
        let table = self.read();
        table
            .row_of(key.as_bytes())
            .map(|row| table.row_info(row).heard_at)
    }

    fn changes_since<'py>(&self, py: Python<'py>, version: u64) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| self.read().changes_since(version));
        PyBytes::new(py, &bytes)
    }

    /// The ads of some keys with these, in their order, as a batch.
    fn pack_keys<'py>(&self, py: Python<'py>, keys: Vec<String>) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| {
            let table = self.read();
            let found = keys.iter().filter_map(|key| table.row_of(key.as_bytes()));
            let rows: Vec<_> = found.collect();
            table.pack_rows(&rows, &table.projected(None, false), true)
        });
        PyBytes::new(py, &bytes)
    }

    /// Lists of the values of the ads of some keys, one a name.
    fn values_of<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<String>,
        names: Vec<String>,
    ) -> PyResult<Bound<'py, PyList>> {
        let columns: Vec<Vec<_>> = py.detach(|| {
            let table = self.read();
            let value = |key: &String, name: &str| {
                evaluated(&table, key, name).unwrap_or(::classad::Value::Undefined)
            };
            names
                .iter()
                .map(|name| keys.iter().map(|key| value(key, name)).collect())
                .collect()
        });
        let out = PyList::empty(py);
        for column in &columns {
            let values = column.iter().map(|value| to_python(py, value));
            out.append(PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?)?;
        }
        Ok(out)
    }

    /// The rows of a question in one piece.
    fn select<'py>(
        &self,
        py: Python<'py>,
        asked: Asked,
        form: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let form = Form::parse(form)?;
        let query = asked.query(py)?;
        let bytes = py.detach(|| {
            let table = self.read();
            let rows = table.select(&query);
            let shown = table.projected(query.projection.as_deref(), query.alone);
            form.write(&table, &rows, &shown, usize::MAX).0
        });
        Ok(PyBytes::new(py, &bytes))
    }

    /// The rows of a question in pieces of `chunk_rows` ads.
    fn select_chunks(
        slf: Py<Self>,
        py: Python<'_>,
        asked: Asked,
        form: &str,
        chunk_rows: usize,
    ) -> PyResult<Chunks> {
        let form = Form::parse(form)?;
        let query = asked.query(py)?;
        let this = slf.get();
        let rows = py.detach(|| {
            let table = this.read();
            let rows = table.select(&query);
            rows.into_iter()
                .filter_map(|row| Some((row, table.key_id(row)?)))
                .collect::<Vec<_>>()
        });
        Ok(Chunks {
            total: rows.len(),
            table: slf,
            rows,
            projection: query.projection,
            alone: query.alone,
            form,
            chunk_rows: chunk_rows.max(1),
            next: std::sync::Mutex::new(0),
        })
    }

    fn select_keys(&self, py: Python<'_>, asked: Asked) -> PyResult<Vec<String>> {
        let query = asked.query(py)?;
        Ok(py.detach(|| {
            let table = self.read();
            table
                .select(&query)
                .into_iter()
                .map(|row| text(table.key(row)))
                .collect()
        }))
    }

    /// The first rows of a question in an order: the place of each, and its key.
    #[pyo3(signature = (by, descending, after, asked))]
    fn select_firsts<'py>(
        &self,
        py: Python<'py>,
        by: String,
        descending: bool,
        after: Option<Vec<u8>>,
        asked: Asked,
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, String)>> {
        let query = asked.query(py)?;
        let order = Order {
            by,
            descending,
            after,
        };
        let found = py
            .detach(|| {
                let table = self.read();
                let firsts = table.firsts(&order, &query)?;
                Ok(firsts
                    .into_iter()
                    .map(|(place, row)| (place, text(table.key(row))))
                    .collect::<Vec<_>>())
            })
            .map_err(|error| refused(py, &error))?;
        Ok(found
            .into_iter()
            .map(|(place, key)| (PyBytes::new(py, &place), key))
            .collect())
    }

    /// The keys of the rows for which the constraint is anything but true.
    fn select_other_keys(&self, py: Python<'_>, asked: Asked) -> PyResult<Vec<String>> {
        let query = asked.query(py)?;
        Ok(py.detach(|| {
            let table = self.read();
            let mut rows = table.live().clone();
            rows.and_not(&table.matching(&query));
            rows.iter().map(|row| text(table.key(row as _))).collect()
        }))
    }

    fn count(&self, py: Python<'_>, asked: Asked) -> PyResult<usize> {
        let query = asked.query(py)?;
        Ok(py.detach(|| self.read().matching(&query).count()))
    }

    /// For each key the number of its signature in `names`, the signatures' texts, and what they mention.
    fn signatures(
        &self,
        py: Python<'_>,
        keys: Vec<String>,
        attributes: Vec<String>,
    ) -> (Vec<Option<u32>>, Vec<String>, Vec<String>) {
        let attributes = names(attributes);
        let found = py.detach(|| {
            let bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
            self.read().signatures(&bytes, &attributes)
        });
        signatures_of(found)
    }

    fn count_by<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        asked: Asked,
    ) -> PyResult<Bound<'py, PyList>> {
        let query = asked.query(py)?;
        let counts = py
            .detach(|| self.read().count_by(&names, &query))
            .map_err(|error| refused(py, &error))?;
        counts_of(py, &counts)
    }

    fn values<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        asked: Asked,
    ) -> PyResult<Bound<'py, PyList>> {
        let query = asked.query(py)?;
        let (rows, columns) = py
            .detach(|| {
                let table = self.read();
                let columns = table.evaluate_columns(&names, &query)?;
                Ok((table.select(&query), columns))
            })
            .map_err(|error| refused(py, &error))?;
        values_of(py, &rows, &columns)
    }

    /// The clauses of a job's Requirements over all ads.
    fn clause_counts(
        &self,
        py: Python<'_>,
        job: &Bound<'_, PyAd>,
        now: i64,
    ) -> Vec<explained::ClauseCount> {
        let job = job.borrow().ad.clone();
        py.detach(|| explained::counted(&self.read(), &job, now))
    }

    /// The rows of a question as an Arrow stream capsule.
    fn arrow<'py>(
        &self,
        py: Python<'py>,
        asked: Asked,
        evaluate: bool,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let query = asked.query(py)?;
        let (columns, rows) = py.detach(|| self.read().export(&query, evaluate));
        crate::arrow::capsule(py, columns, rows)
    }

    /// Removes the ads of a question; gives their keys.
    fn remove_where(&self, py: Python<'_>, asked: Asked) -> PyResult<Vec<String>> {
        let query = asked.query(py)?;
        Ok(py.detach(|| {
            let mut table = self.write();
            let rows = table.select(&query);
            let keys = rows.iter().map(|row| text(table.key(*row))).collect();
            rows.into_iter().for_each(|row| table.remove_row(row));
            keys
        }))
    }

    /// Ads of a cluster: a template, and what differs by key as deltas (a batch or ads) and as columns
    /// of plain values.
    #[pyo3(signature = (template, keys, deltas=None, columns=None, received_at=0.0))]
    fn insert_from_template(
        &self,
        py: Python<'_>,
        template: &Bound<'_, PyAny>,
        keys: Vec<String>,
        deltas: Option<&Bound<'_, PyAny>>,
        columns: Option<&Bound<'_, PyDict>>,
        received_at: f64,
    ) -> PyResult<()> {
        let cluster = Cluster::of(template, &keys, deltas, columns)?;
        let done = py.detach(|| cluster.insert(&mut self.write(), &keys, received_at));
        done.map_err(|error| refused(py, &error))
    }
}

/// Registers this module's types and functions.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyAdTable>()?;
    module.add_class::<ApplyReport>()?;
    module.add_class::<Chunks>()?;
    module.add_class::<LoadReport>()?;
    module.add_class::<PyTextLoader>()?;
    module.add_class::<PackBuilder>()?;
    explained::register(module)?;
    module.add_function(wrap_pyfunction!(packs::pack_ads, module)?)?;
    module.add_function(wrap_pyfunction!(packs::limit_evaluations, module)?)?;
    module.add_function(wrap_pyfunction!(packs::begin_allowance, module)?)?;
    module.add_function(wrap_pyfunction!(packs::end_allowance, module)?)?;
    module.add_function(wrap_pyfunction!(packs::split_pack, module)?)?;
    module.add_function(wrap_pyfunction!(packs::survey_pack, module)?)?;
    module.add_function(wrap_pyfunction!(packs::pack_keys, module)?)?;
    module.add_function(wrap_pyfunction!(packs::unpack_ads, module)?)?;
    module.add_function(wrap_pyfunction!(packs::unpack_ops, module)?)?;
    module.add_function(wrap_pyfunction!(packs::diff_ads, module)?)?;
    module.add_function(wrap_pyfunction!(picked::picked, module)?)?;
    Ok(())
}
