//! Binding of the crate `columns`: tables of ads and their wire form.
//!
//! Whole batches cross the boundary; nothing makes a Python object per attribute but `get` and
//! `unpack_ads`. Long work runs without the interpreter lock.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ::classad::{Ad, Expr, Name, Value};
use ::columns::{
    AdTable, ColumnId, EvalSettings, KeyRule, PackHeader, PackWriter, PackedOp, Query, Row,
    TableError, TextLoader,
};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyString, PyTuple};

use crate::classad::convert::{from_python, syntax_error, to_python};
use crate::classad::{PyAd, PyExpr};

/// The Python exception for a refused batch, text or question.
fn refused(py: Python<'_>, error: &TableError) -> PyErr {
    let class = match error {
        TableError::BadQuery(_) | TableError::BadExpression { .. } | TableError::BadLine { .. } => {
            "AdSyntaxError"
        }
        _ => "AdBatchError",
    };
    let made = py
        .import("slotwise.errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| class.call1((error.to_string(),)));
    match made {
        Ok(instance) => PyErr::from_value(instance),
        Err(_) => PyValueError::new_err(error.to_string()),
    }
}

/// The ad that a `ClassAd` or mapping is.
fn ad_from_python(given: &Bound<'_, PyAny>) -> PyResult<Arc<Ad>> {
    if let Ok(ad) = given.cast::<PyAd>() {
        return Ok(ad.borrow().ad.clone());
    }
    match from_python(given)? {
        Expr::Ad(ad) => Ok(ad),
        _ => Err(PyTypeError::new_err(format!(
            "expected a ClassAd, not {}",
            given.get_type().name()?
        ))),
    }
}

fn ad_to_python(py: Python<'_>, ad: Ad) -> PyResult<Bound<'_, PyAny>> {
    Ok(Bound::new(py, PyAd::of(Arc::new(ad)))?.into_any())
}

/// The constraint that an `ExprTree` or a text is; None for an empty text.
fn constraint_from_python(given: &Bound<'_, PyAny>) -> PyResult<Option<Expr>> {
    if let Ok(expr) = given.cast::<PyExpr>() {
        return Ok(Some(expr.get().expr.clone()));
    }
    let Ok(text) = given.cast::<PyString>() else {
        return Ok(Some(from_python(given)?));
    };
    let text = text.to_str()?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    ::classad::parse_expr(text.as_bytes(), ::classad::Syntax::NORMAL)
        .map(Some)
        .map_err(|error| syntax_error(given.py(), &error, text.as_bytes()))
}

fn names(texts: Vec<String>) -> Vec<Name> {
    texts.iter().map(|text| Name::from(text.as_str())).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a batch did to a table.
#[pyclass(frozen, get_all, module = "slotwise._native")]
pub(crate) struct ApplyReport {
    /// Ads that are new.
    inserted: usize,
    /// Ads replaced or changed.
    updated: usize,
    /// Ads removed.
    removed: usize,
    /// Keys of deltas without an ad here: the sender must send the whole ad.
    unknown: Vec<String>,
    /// (key, reason) of ads that were refused.
    refused: Vec<(String, String)>,
    /// Version of the sender's table after this batch.
    to_version: u64,
    /// Whether the batch replaced everything.
    reset: bool,
}

#[pymethods]
impl ApplyReport {
    fn __repr__(&self) -> String {
        format!(
            "ApplyReport(inserted={}, updated={}, removed={}, unknown={}, refused={})",
            self.inserted,
            self.updated,
            self.removed,
            self.unknown.len(),
            self.refused.len()
        )
    }
}

impl From<::columns::ApplyReport> for ApplyReport {
    fn from(report: ::columns::ApplyReport) -> Self {
        ApplyReport {
            inserted: report.inserted,
            updated: report.updated,
            removed: report.removed,
            unknown: report.unknown.iter().map(|key| text(key)).collect(),
            refused: report
                .refused
                .into_iter()
                .map(|(key, why)| (text(&key), why))
                .collect(),
            to_version: report.header.to_version,
            reset: report.header.reset,
        }
    }
}

/// What a text held.
#[pyclass(frozen, get_all, module = "slotwise._native")]
pub(crate) struct LoadReport {
    /// Ads read.
    ads: usize,
    /// Lines read.
    lines: usize,
    /// Ads without their key attribute, left out.
    keyless: usize,
    /// Bad lines passed over.
    bad_lines: usize,
}

impl From<::columns::LoadReport> for LoadReport {
    fn from(report: ::columns::LoadReport) -> Self {
        LoadReport {
            ads: report.ads,
            lines: report.lines,
            keyless: report.keyless,
            bad_lines: report.bad_lines,
        }
    }
}

fn key_rule(key: &str) -> KeyRule {
    match key {
        "job" => KeyRule::Job,
        "number" => KeyRule::Number,
        name => KeyRule::Attribute(Name::from(name)),
    }
}

/// Reads text that comes in pieces into a table.
#[pyclass(name = "TextLoader", module = "slotwise._native")]
pub(crate) struct PyTextLoader {
    table: Py<PyAdTable>,
    loader: Option<TextLoader>,
}

#[pymethods]
impl PyTextLoader {
    fn feed(&mut self, py: Python<'_>, text: &[u8]) -> PyResult<()> {
        let Some(loader) = self.loader.as_mut() else {
            return Err(PyValueError::new_err("the text has ended"));
        };
        let table = self.table.get();
        let done = py.detach(|| loader.feed(&mut table.write(), text));
        done.map_err(|error| refused(py, &error))
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<LoadReport> {
        let Some(loader) = self.loader.take() else {
            return Err(PyValueError::new_err("the text has ended"));
        };
        let table = self.table.get();
        let done = py.detach(|| loader.finish(&mut table.write()));
        done.map(LoadReport::from)
            .map_err(|error| refused(py, &error))
    }
}

/// Ads by key in typed columns.
#[pyclass(frozen, name = "AdTable", module = "slotwise._native", subclass)]
pub(crate) struct PyAdTable {
    inner: RwLock<AdTable>,
}

impl PyAdTable {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, AdTable> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of an attribute; none without the ad.
    fn evaluated(&self, key: &str, name: &str) -> Option<Value> {
        let table = self.read();
        let row = table.row_of(key.as_bytes())?;
        let Some(id) = table.column_named(name) else {
            return Some(Value::Undefined);
        };
        let cell = table.cell(row, id);
        if cell.expr_id().is_none() {
            return Some(table.cell_value(cell));
        }
        let ad = table.ad(row);
        let context = ::classad::Context {
            my: Some(&ad),
            ..::classad::Context::default()
        };
        let expr = table.cell_expr(cell)?;
        drop(table);
        Some(::classad::evaluate(&expr, &context))
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, AdTable> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a question is asked from Python.
#[derive(FromPyObject)]
struct Asked {
    #[pyo3(item)]
    constraint: Option<Py<PyAny>>,
    #[pyo3(item)]
    projection: Option<Vec<String>>,
    #[pyo3(item)]
    limit: Option<usize>,
    #[pyo3(item)]
    target: Option<Py<PyAny>>,
    #[pyo3(item)]
    now: i64,
}

impl Asked {
    fn query(&self, py: Python<'_>) -> PyResult<Query> {
        Ok(Query {
            constraint: match &self.constraint {
                None => None,
                Some(given) => constraint_from_python(given.bind(py))?,
            },
            target: match &self.target {
                None => None,
                Some(given) => Some((*ad_from_python(given.bind(py))?).clone()),
            },
            projection: self.projection.clone().map(names),
            limit: self.limit,
            settings: EvalSettings {
                now: self.now,
                ..EvalSettings::default()
            },
        })
    }
}

/// In what form rows are wanted.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Pack,
    Keyed,
    Long,
    Json,
}

impl Form {
    fn parse(form: &str) -> PyResult<Self> {
        Ok(match form {
            "pack" => Form::Pack,
            "keyed" => Form::Keyed,
            "long" => Form::Long,
            "json" => Form::Json,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "form {form:?} is none of pack, keyed, long, json"
                )));
            }
        })
    }

    fn write(self, table: &AdTable, rows: &[Row], columns: &[ColumnId]) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Form::Pack => return table.pack_rows(rows, columns, false),
            Form::Keyed => return table.pack_rows(rows, columns, true),
            Form::Long => table.long_text(rows, columns, &mut out),
            Form::Json => table.json_text(rows, columns, &mut out),
        }
        out
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
        (0..table.column_count() as ColumnId)
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
        match self.evaluated(key, name) {
            Some(value) => to_python(py, &value),
            None => Err(PyKeyError::new_err(key.to_owned())),
        }
    }

    /// Applies a batch.
    #[pyo3(signature = (pack, received_at=0.0, stamp=None))]
    fn apply(
        &self,
        py: Python<'_>,
        pack: &[u8],
        received_at: f64,
        stamp: Option<&str>,
    ) -> PyResult<ApplyReport> {
        let stamp = stamp.map(Name::from);
        let done = py.detach(|| self.write().apply(pack, received_at, stamp.as_ref()));
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
            let columns = table.projected(query.projection.as_deref());
            form.write(&table, &rows, &columns)
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
            form,
            chunk_rows: chunk_rows.max(1),
            next: std::sync::atomic::AtomicUsize::new(0),
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
        let texts = found.texts.iter().map(|bytes| text(bytes)).collect();
        let mentioned = found
            .mentioned
            .iter()
            .map(|name| name.to_text().into_owned())
            .collect();
        (found.of, texts, mentioned)
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
        let out = PyList::empty(py);
        for (values, count) in counts {
            let mut items = values
                .iter()
                .map(|value| to_python(py, value))
                .collect::<PyResult<Vec<_>>>()?;
            items.push(count.into_pyobject(py)?.into_any());
            out.append(PyTuple::new(py, items)?)?;
        }
        Ok(out)
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
        let out = PyList::empty(py);
        for values in &columns {
            let mut made: Vec<Option<Bound<'py, PyAny>>> = Vec::new();
            let column = PyList::empty(py);
            for row in &rows {
                let group = values.groups().group_of()[*row as usize] as usize;
                if made.len() <= group {
                    made.resize(group + 1, None);
                }
                if made[group].is_none() {
                    made[group] = Some(to_python(py, values.get(*row))?);
                }
                column.append(made[group].as_ref())?;
            }
            out.append(column)?;
        }
        Ok(out)
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
        let template = ad_from_python(template)?;
        let (batch, ads) = match deltas {
            None => (None, Vec::new()),
            Some(given) => match given.cast::<PyBytes>() {
                Ok(bytes) => (Some(bytes.as_bytes()), Vec::new()),
                Err(_) => {
                    let ads: PyResult<Vec<Ad>> = given
                        .try_iter()?
                        .map(|ad| Ok((*ad_from_python(&ad?)?).clone()))
                        .collect();
                    (None, ads?)
                }
            },
        };
        let mut extra: Vec<(Name, Vec<Expr>)> = Vec::new();
        for (name, values) in columns.into_iter().flat_map(|columns| columns.iter()) {
            let values = values
                .try_iter()?
                .map(|value| from_python(&value?))
                .collect::<PyResult<Vec<_>>>()?;
            extra.push((Name::from(name.extract::<String>()?.as_str()), values));
        }
        if !ads.is_empty() && ads.len() != keys.len()
            || extra.iter().any(|column| column.1.len() != keys.len())
        {
            return Err(PyValueError::new_err(
                "deltas and columns must be as many as keys",
            ));
        }
        let done = py.detach(|| {
            let bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
            let mut table = self.write();
            let rows = match batch {
                Some(batch) => table.insert_from_pack(&template, &bytes, batch, received_at)?,
                None => table.insert_from_template(&template, &bytes, &ads, received_at)?,
            };
            for (name, values) in &extra {
                table.set_column(name, &rows, values)?;
            }
            Ok(())
        });
        done.map_err(|error| refused(py, &error))
    }
}

/// Pieces of an answer, made as they are asked for.
#[pyclass(frozen, module = "slotwise._native")]
pub(crate) struct Chunks {
    table: Py<PyAdTable>,
    rows: Vec<(Row, u32)>,
    projection: Option<Vec<Name>>,
    form: Form,
    chunk_rows: usize,
    next: std::sync::atomic::AtomicUsize,
    /// How many ads the question matched.
    #[pyo3(get)]
    total: usize,
}

#[pymethods]
impl Chunks {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        use std::sync::atomic::Ordering;
        let start = self.next.fetch_add(self.chunk_rows, Ordering::Relaxed);
        let end = self.rows.len().min(start.saturating_add(self.chunk_rows));
        if start >= end {
            return None;
        }
        let table = self.table.get();
        let bytes = py.detach(|| {
            let table = table.read();
            // An ad that went away meanwhile is left out; a changed one is shown as it is now.
            let still = |entry: &&(Row, u32)| table.key_id(entry.0) == Some(entry.1);
            let rows: Vec<Row> = self.rows[start..end]
                .iter()
                .filter(still)
                .map(|entry| entry.0)
                .collect();
            let columns = table.projected(self.projection.as_deref());
            self.form.write(&table, &rows, &columns)
        });
        Some(PyBytes::new(py, &bytes))
    }
}

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
fn pack_ads<'py>(
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

/// The ads of a batch (deltas as what they set), removals left out.
#[pyfunction]
fn unpack_ads<'py>(py: Python<'py>, pack: &[u8]) -> PyResult<Bound<'py, PyList>> {
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
fn unpack_ops<'py>(py: Python<'py>, pack: &[u8]) -> PyResult<Bound<'py, PyList>> {
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
fn diff_ads<'py>(
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

/// Registers this module's types and functions.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyAdTable>()?;
    module.add_class::<ApplyReport>()?;
    module.add_class::<Chunks>()?;
    module.add_class::<LoadReport>()?;
    module.add_class::<PyTextLoader>()?;
    module.add_class::<PackBuilder>()?;
    module.add_function(wrap_pyfunction!(pack_ads, module)?)?;
    module.add_function(wrap_pyfunction!(unpack_ads, module)?)?;
    module.add_function(wrap_pyfunction!(unpack_ops, module)?)?;
    module.add_function(wrap_pyfunction!(diff_ads, module)?)?;
    Ok(())
}
