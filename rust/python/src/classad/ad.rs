//! `ClassAd`.

use super::ad_source::ad_from;
use super::convert::{self, expr_to_python, from_python, name, to_python};
use super::expr::{Call, PyExpr};
use ::classad::analysis::reads_in;
use ::classad::{Ad, fold, matching};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::sync::Arc;

/// A ClassAd: a mutable mapping from attribute names, compared without case, to values and expressions.
///
/// Made from nothing, a ``dict`` or another mapping, or the text of a new-syntax ad. Attributes keep the order
/// in which they were first set. Reading an attribute gives a Python value for a literal and an ``ExprTree``
/// for anything that has to be evaluated; ``eval`` evaluates.
#[pyclass(mapping, name = "ClassAd", module = "slotwise.classad", weakref)]
pub struct PyAd {
    pub ad: Arc<Ad>,
}

impl PyAd {
    pub fn of(ad: Arc<Ad>) -> Self {
        Self { ad }
    }

    fn edit(&mut self) -> &mut Ad {
        Arc::make_mut(&mut self.ad)
    }
}

/// The value of a Requirements, and its clauses with theirs.
type Verdict<'py> = (Bound<'py, PyAny>, Vec<(PyExpr, Bound<'py, PyAny>)>);

#[pymethods]
impl PyAd {
    #[new]
    #[pyo3(signature = (source=None, /))]
    fn new(source: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let ad = source.map(ad_from).transpose()?.unwrap_or_default();
        Ok(Self::of(Arc::new(ad)))
    }

    fn __len__(&self) -> usize {
        self.ad.len()
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        if !key.is_instance_of::<PyString>() {
            return Ok(false);
        }
        convert::with_bytes(key, |key| self.ad.get_bytes(key).is_some())
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match convert::with_bytes(key, |key| self.ad.get_bytes(key))? {
            Some(expr) => expr_to_python(key.py(), expr),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __setitem__(&mut self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = name(key)?;
        if key.as_bytes().is_empty() {
            return Err(PyKeyError::new_err("an attribute needs a name"));
        }
        let value = from_python(value)?;
        self.edit().insert(key, value);
        Ok(())
    }

    fn __delitem__(&mut self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.edit().remove(&name(key)?) {
            Some(_) => Ok(()),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.keys(py)?.try_iter()?.into_any())
    }

    /// The attribute names, in order.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let keys = self
            .ad
            .iter()
            .map(|(k, _)| convert::text(py, k.as_bytes()))
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, keys)
    }

    /// The values, in order, as ``ad[name]`` gives them.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = self
            .ad
            .iter()
            .map(|(_, e)| expr_to_python(py, e))
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, all)
    }

    /// Pairs of name and value, in order.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = self
            .ad
            .iter()
            .map(|(k, e)| Ok((convert::text(py, k.as_bytes())?, expr_to_python(py, e)?)))
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, all)
    }

    /// The value of an attribute as ``ad[name]`` gives it, or ``default``.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match convert::with_bytes(key, |key| self.ad.get_bytes(key))? {
            Some(expr) => expr_to_python(key.py(), expr),
            None => Ok(default.unwrap_or_else(|| key.py().None().into_bound(key.py()))),
        }
    }

    /// Takes an attribute out and gives its value; ``default`` if there is none, else ``KeyError``.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &mut self,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, pyo3::types::PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.edit().remove(&name(key)?) {
            Some(expr) => expr_to_python(key.py(), &expr),
            None if !default.is_empty() => default.get_item(0),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Takes the last attribute out and gives name and value.
    fn popitem<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let last = self
            .ad
            .len()
            .checked_sub(1)
            .and_then(|i| self.ad.at(i))
            .cloned();
        let Some((key, expr)) = last else {
            return Err(PyKeyError::new_err("the ad is empty"));
        };
        self.edit().remove(&key);
        Ok((
            convert::text(py, key.as_bytes())?,
            expr_to_python(py, &expr)?,
        ))
    }

    /// The value of an attribute, which is set to ``default`` first if it is missing.
    #[pyo3(signature = (key, default=None, /))]
    fn setdefault<'py>(
        &mut self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !self.__contains__(key)? {
            let default = default.unwrap_or_else(|| key.py().None().into_bound(key.py()));
            self.__setitem__(key, &default)?;
        }
        self.__getitem__(key)
    }

    /// Sets every attribute of another ad, mapping or sequence of pairs here, then the keywords.
    #[pyo3(signature = (other=None, /, **attributes))]
    fn update(
        &mut self,
        other: Option<&Bound<'_, PyAny>>,
        attributes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        if let Some(other) = other {
            let other = ad_from(other)?;
            self.edit().update(&other);
        }
        if let Some(attributes) = attributes {
            let more = convert::ad_from_dict(attributes)?;
            self.edit().update(&more);
        }
        Ok(())
    }

    /// Takes every attribute out.
    fn clear(&mut self) {
        self.edit().clear();
    }

    /// Another ad with the same attributes. Cheap: they share memory until one changes.
    fn copy(&self) -> Self {
        Self::of(self.ad.clone())
    }

    fn __copy__(&self) -> Self {
        self.copy()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.copy()
    }

    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        if let Ok(ad) = other.cast::<PyAd>() {
            let same = Arc::ptr_eq(&self.ad, &ad.borrow().ad) || self.ad == ad.borrow().ad;
            return Ok(same.into_pyobject(py)?.to_owned().into_any());
        }
        if let Ok(dict) = other.cast::<PyDict>() {
            let same = convert::ad_from_dict(dict).is_ok_and(|ad| *self.ad == ad);
            return Ok(same.into_pyobject(py)?.to_owned().into_any());
        }
        Ok(py.NotImplemented().into_bound(py))
    }

    /// The definition of an attribute as an ``ExprTree``, literals too. Raises ``KeyError``.
    fn lookup(&self, key: &Bound<'_, PyAny>) -> PyResult<PyExpr> {
        match convert::with_bytes(key, |key| self.ad.get_bytes(key).cloned())? {
            Some(expr) => Ok(PyExpr::of(expr)),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// The value an attribute evaluates to, in this ad and ``target``; ``UNDEFINED`` if it is not set.
    #[pyo3(signature = (attr, target=None, *, now=None, strict=false))]
    fn eval<'py>(
        slf: PyRef<'py, Self>,
        attr: &Bound<'py, PyAny>,
        target: Option<PyRef<'py, PyAd>>,
        now: Option<i64>,
        strict: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let expr = convert::with_bytes(attr, |attr| slf.ad.get_bytes(attr).cloned())?;
        let py = attr.py();
        let Some(expr) = expr else {
            return Ok(convert::special(py, false)?.into_bound(py).into_any());
        };
        let value = Call {
            my: Some(slf),
            target,
            now,
            strict,
        }
        .value(&expr)?;
        to_python(py, &value)
    }

    /// Whether this ad satisfies the Requirements of ``ad``.
    #[pyo3(signature = (ad, *, now=None))]
    fn matches<'py>(slf: PyRef<'py, Self>, ad: PyRef<'py, PyAd>, now: Option<i64>) -> bool {
        let call = Call {
            my: Some(ad),
            target: Some(slf),
            now,
            strict: false,
        };
        matching::accepts(&call.context())
    }

    /// Whether each of the two ads satisfies the other's Requirements.
    #[pyo3(signature = (ad, *, now=None))]
    fn symmetric_match<'py>(slf: PyRef<'py, Self>, ad: PyRef<'py, PyAd>, now: Option<i64>) -> bool {
        let call = Call {
            my: Some(slf),
            target: Some(ad),
            now,
            strict: false,
        };
        matching::symmetric(&call.context())
    }

    /// The same as ``symmetric_match``, by its name in ``classad2``.
    #[pyo3(name = "symmetricMatch")]
    fn symmetric_match2<'py>(slf: PyRef<'py, Self>, ad: PyRef<'py, PyAd>) -> bool {
        Self::symmetric_match(slf, ad, None)
    }

    /// Why ``target`` satisfies this ad's Requirements or not: the value of the whole (UNDEFINED if there are
    /// none), and each clause with its value.
    #[pyo3(signature = (target, *, now=None))]
    fn verdict<'py>(
        slf: PyRef<'py, Self>,
        target: PyRef<'py, PyAd>,
        now: Option<i64>,
    ) -> PyResult<Verdict<'py>> {
        let py = slf.py();
        let call = Call {
            my: Some(slf),
            target: Some(target),
            now,
            strict: false,
        };
        let verdict = matching::verdict(&call.context());
        let clauses = verdict
            .clauses
            .into_iter()
            .map(|clause| Ok((PyExpr::of(clause.expr), to_python(py, &clause.value)?)))
            .collect::<PyResult<Vec<_>>>()?;
        Ok((to_python(py, &verdict.value)?, clauses))
    }

    /// The names ``expr`` reads that this ad does not define.
    #[pyo3(name = "externalRefs")]
    fn external_refs(&self, expr: PyRef<'_, PyExpr>) -> Vec<String> {
        let reads = reads_in(&expr.expr, &self.ad);
        reads
            .target
            .iter()
            .map(|name| name.to_text().into_owned())
            .collect()
    }

    /// The names ``expr`` reads that this ad defines.
    #[pyo3(name = "internalRefs")]
    fn internal_refs(&self, expr: PyRef<'_, PyExpr>) -> Vec<String> {
        let reads = reads_in(&expr.expr, &self.ad);
        let own = reads.my.iter().filter(|name| self.ad.contains(name));
        own.map(|name| name.to_text().into_owned()).collect()
    }

    /// What is left of ``expr`` in this ad while the target is unknown; a value if nothing is.
    fn flatten<'py>(
        &self,
        py: Python<'py>,
        expr: PyRef<'py, PyExpr>,
    ) -> PyResult<Bound<'py, PyAny>> {
        expr_to_python(py, &fold::residual(&expr.expr, &self.ad))
    }

    /// The ad as JSON; ``indent`` puts every member on a line of its own.
    #[pyo3(signature = (*, indent=true))]
    fn print_json<'py>(&self, py: Python<'py>, indent: bool) -> PyResult<Bound<'py, PyAny>> {
        let mut out = Vec::new();
        ::classad::formats::json::write_json(&mut out, &self.ad, indent);
        convert::text(py, &out)
    }

    /// The same as ``print_json``, by its name in ``classad2``.
    #[pyo3(name = "printJson")]
    fn print_json2<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.print_json(py, true)
    }

    /// The ad as XML; ``indent`` puts every attribute on a line of its own.
    #[pyo3(signature = (*, indent=true))]
    fn print_xml<'py>(&self, py: Python<'py>, indent: bool) -> PyResult<Bound<'py, PyAny>> {
        let mut out = Vec::new();
        ::classad::formats::xml::write_xml(&mut out, &self.ad, indent);
        convert::text(py, &out)
    }

    /// The ad in old syntax, one attribute a line.
    fn print_old<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut out = Vec::new();
        ::classad::formats::old::write_old(&mut out, &self.ad);
        convert::text(py, &out)
    }

    /// The same as ``print_old``, by its name in ``classad2``.
    #[pyo3(name = "printOld")]
    fn print_old2<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.print_old(py)
    }

    fn __str__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::text(py, &::classad::print::pretty_ad(&self.ad))
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::text(py, &::classad::print::unparse_ad(&self.ad))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>,))> {
        let text = slf.borrow().__repr__(slf.py())?;
        Ok((slf.get_type().into_any(), (text,)))
    }

    fn __hash__(&self) -> PyResult<u64> {
        Err(PyTypeError::new_err(
            "a ClassAd can change and so has no hash",
        ))
    }
}
