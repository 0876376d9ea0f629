//! `ExprTree`.

use super::PyAd;
use super::convert::{self, to_python};
use super::place::Place;
use ::classad::analysis::{Reads, reads_in};
use ::classad::identity::canonical_hash;
use ::classad::print::{Style, unparse_styled};
use ::classad::{Context, Evaluator, Expr, Name, Syntax, Value, fold};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// An expression of the ClassAd language, immutable.
///
/// Parsed from text, or taken over from another ``ExprTree``; any other Python value becomes the literal it
/// corresponds to. Raises ``AdSyntaxError`` with line, column and a hint.
#[pyclass(frozen, name = "ExprTree", module = "slotwise.classad")]
pub struct PyExpr {
    pub expr: Expr,
    /// Where it stands in the text it was read from, if that was asked for.
    place: Option<Place>,
}

impl PyExpr {
    pub fn of(expr: Expr) -> Self {
        Self { expr, place: None }
    }

    pub fn placed(expr: Expr, place: Place) -> Self {
        Self {
            expr,
            place: Some(place),
        }
    }
}

/// What an evaluation is given from Python.
pub struct Call<'py> {
    pub my: Option<PyRef<'py, PyAd>>,
    pub target: Option<PyRef<'py, PyAd>>,
    pub now: Option<i64>,
    pub strict: bool,
}

impl Call<'_> {
    pub fn context(&self) -> Context<'_> {
        let now = self.now.unwrap_or_else(convert::now);
        Context {
            my: self.my.as_ref().map(|ad| &*ad.ad),
            target: self.target.as_ref().map(|ad| &*ad.ad),
            now,
            utc_offset_s: convert::utc_offset_s(now),
            seed: convert::next_seed(now),
            strict: self.strict,
            ..Context::default()
        }
    }

    /// The value of an expression; lists and ads with every item evaluated.
    pub fn value(&self, expr: &Expr) -> PyResult<Value> {
        let context = self.context();
        let value = match Evaluator::new(context).eval(expr) {
            Ok(Value::List(_) | Value::Ad(_)) => Evaluator::new(context).eval_deep(expr),
            other => other,
        };
        value.map_err(|_| broken_off())
    }

    /// The value of an expression; what lists and ads contain stays as it is written.
    pub fn shallow_value(&self, expr: &Expr) -> PyResult<Value> {
        let value = Evaluator::new(self.context()).eval(expr);
        value.map_err(|_| broken_off())
    }
}

fn broken_off() -> PyErr {
    PyValueError::new_err(
        "the expression cannot be evaluated: too deep, too long, or a function refused",
    )
}

/// In the old syntax, as the tools print expressions and values.
const OLD: Style = Style {
    old: true,
    indent: false,
    xml: false,
};

#[pymethods]
impl PyExpr {
    #[new]
    #[pyo3(signature = (expr=None, *, strict=false, spans=false, old=false))]
    fn new(
        expr: Option<&Bound<'_, PyAny>>,
        strict: bool,
        spans: bool,
        old: bool,
    ) -> PyResult<Self> {
        let Some(value) = expr else {
            return Ok(Self::of(Expr::Lit(Value::Undefined)));
        };
        if !value.is_instance_of::<pyo3::types::PyString>() {
            return Ok(Self::of(convert::from_python(value)?));
        }
        let syntax = Syntax {
            strict,
            closed_comments: !old,
            old_strings: old,
            ..Syntax::NORMAL
        };
        convert::with_bytes(value, |text| {
            let parsed = if spans {
                ::classad::parse_expr_spanned(text, syntax)
                    .map(|(expr, spans)| Self::placed(expr, Place::whole(text, spans)))
            } else {
                ::classad::parse_expr(text, syntax).map(Self::of)
            };
            parsed.map_err(|error| convert::syntax_error(value.py(), &error, text))
        })?
    }

    /// The text the expression was read from, if it was read with ``spans=True``; else None.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let place = self.place.as_ref();
        place
            .map(|place| convert::text(py, place.text()))
            .transpose()
    }

    /// Where the expression stands in ``source``: first and last character (the last not included), so that
    /// ``source[slice(*span)]`` is its text. None without ``spans=True``.
    #[getter]
    fn span(&self) -> Option<(usize, usize)> {
        self.place.as_ref().map(Place::characters)
    }

    /// Line and column of the expression in ``source``, both from 1; None without ``spans=True``.
    #[getter]
    fn line_column(&self) -> Option<(usize, usize)> {
        self.place.as_ref().map(Place::line_column)
    }

    /// The expression and all it is made of, parents first, from the left, each with its own ``span``. Empty
    /// without ``spans=True``.
    fn nodes(&self) -> Vec<Self> {
        let Some(place) = &self.place else {
            return Vec::new();
        };
        let nodes = place.nodes(&self.expr).into_iter();
        nodes.map(|(expr, at)| Self::placed(expr, at)).collect()
    }

    /// The line of ``source`` that the expression begins in, with carets below the expression; two lines, each
    /// indented by two spaces. Without ``spans=True`` the canonical text.
    fn excerpt(&self) -> String {
        match &self.place {
            Some(place) => place.excerpt(),
            None => format!("  {}", ::classad::unparse_text(&self.expr)),
        }
    }

    /// The value of the expression, its names looked up in ``my`` and, where a name is missing there or says
    /// ``TARGET.``, in ``target``.
    ///
    /// ``now`` is the time in seconds since the epoch for ``time()``; the clock's if None. ``strict`` is the
    /// strict mode. An undefined or wrong expression gives ``UNDEFINED`` or ``ERROR``. Raises ``ValueError``
    /// when the evaluation breaks off (too deep, too long, ``random(0)``).
    #[pyo3(signature = (my=None, target=None, *, now=None, strict=false))]
    fn eval<'py>(
        &self,
        py: Python<'py>,
        my: Option<PyRef<'py, PyAd>>,
        target: Option<PyRef<'py, PyAd>>,
        now: Option<i64>,
        strict: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = Call {
            my,
            target,
            now,
            strict,
        }
        .value(&self.expr)?;
        to_python(py, &value)
    }

    /// The value of the expression as an ``ExprTree``; what a list or an ad contains stays as it is written.
    #[pyo3(signature = (my=None, target=None, *, now=None, strict=false))]
    fn simplify<'py>(
        &self,
        my: Option<PyRef<'py, PyAd>>,
        target: Option<PyRef<'py, PyAd>>,
        now: Option<i64>,
        strict: bool,
    ) -> PyResult<Self> {
        Ok(Self::of(
            Call {
                my,
                target,
                now,
                strict,
            }
            .shallow_value(&self.expr)?
            .into_expr(),
        ))
    }

    /// The value of the expression as the tools print it: in the old syntax (``1.5``), a string without quotes
    /// unless ``quotes``, and what lists and ads contain as it is written.
    ///
    /// Raises ``ValueError`` as ``eval`` does.
    #[pyo3(signature = (my=None, *, quotes=false, now=None))]
    fn display<'py>(
        &self,
        py: Python<'py>,
        my: Option<PyRef<'py, PyAd>>,
        quotes: bool,
        now: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = Call {
            my,
            target: None,
            now,
            strict: false,
        };
        match call.shallow_value(&self.expr)? {
            Value::Str(text) if !quotes => convert::text(py, text.as_bytes()),
            value => convert::text(py, &unparse_styled(&Expr::Lit(value), OLD)),
        }
    }

    /// The text of the expression in the old syntax, with short reals.
    fn print_old<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::text(py, &unparse_styled(&self.expr, OLD))
    }

    /// The attributes the expression reads. With ``my``, the ad it belongs to, also those of the definitions it
    /// uses, and each name without scope word counted where it is found.
    #[pyo3(signature = (my=None))]
    fn references(&self, my: Option<PyRef<'_, PyAd>>) -> References {
        let reads = match my {
            Some(my) => reads_in(&self.expr, &my.ad),
            None => Reads::of(&self.expr),
        };
        References { reads }
    }

    /// The expression with its constant parts evaluated; it means the same.
    fn fold(&self) -> Self {
        Self::of(fold::fold(&self.expr))
    }

    /// What is left of the expression once the ad it belongs to is known and only TARGET is not.
    fn residual(&self, my: PyRef<'_, PyAd>) -> Self {
        Self::of(fold::residual(&self.expr, &my.ad))
    }

    /// The clauses of ``a && b && c``, in order; the expression alone if it is not a conjunction. They have spans if
    /// the expression has.
    fn conjuncts(&self) -> Vec<Self> {
        if let Some(place) = &self.place {
            let clauses = place.conjuncts(&self.expr).into_iter();
            return clauses.map(|(expr, at)| Self::placed(expr, at)).collect();
        }
        fold::conjuncts(&self.expr)
            .into_iter()
            .map(|e| Self::of(e.clone()))
            .collect()
    }

    /// What the expression is at its top: the kind of node (``literal``, ``attribute``, ``operation``, ``parentheses``,
    /// ``call``, ``list`` or ``ad``), its word (the operator, the name), and the expressions that it is made of, from
    /// the left.
    fn parts(&self) -> (&'static str, String, Vec<Self>) {
        let (kind, word) = match &self.expr {
            Expr::Lit(_) => ("literal", String::new()),
            Expr::Attr(name) | Expr::AbsAttr(name) => ("attribute", name.to_text().into_owned()),
            Expr::Select(select) => ("attribute", select.attr.to_text().into_owned()),
            Expr::Unary(unary) => ("operation", unary.op.symbol().to_owned()),
            Expr::Binary(binary) => ("operation", binary.op.symbol().to_owned()),
            Expr::Ternary(_) => ("operation", "? :".to_owned()),
            Expr::Elvis(_) => ("operation", "?:".to_owned()),
            Expr::Subscript(_) => ("operation", "[]".to_owned()),
            Expr::Paren(_) => ("parentheses", String::new()),
            Expr::Call(call) => ("call", call.name.to_text().into_owned()),
            Expr::List(_) => ("list", String::new()),
            Expr::Ad(_) => ("ad", String::new()),
        };
        let below = self.expr.children().into_iter();
        (kind, word, below.map(|e| Self::of(e.clone())).collect())
    }

    /// A number that expressions share which differ only in the case of names and in parentheses; the same in
    /// every process.
    #[getter]
    fn canonical_hash(&self) -> u64 {
        canonical_hash(&self.expr)
    }

    fn __str__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        convert::text(py, &::classad::unparse(&self.expr))
    }

    fn __repr__(&self) -> String {
        ::classad::unparse_text(&self.expr)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.expr == other.expr
    }

    fn __hash__(&self) -> u64 {
        canonical_hash(&self.expr)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((
            slf.get_type().into_any(),
            (::classad::unparse_text(&slf.get().expr),),
        ))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
}

/// The attributes an expression reads.
#[pyclass(frozen, name = "References", module = "slotwise.classad")]
pub struct References {
    reads: Reads,
}

fn texts(names: &[Name]) -> Vec<String> {
    names
        .iter()
        .map(|name| name.to_text().into_owned())
        .collect()
}

#[pymethods]
impl References {
    /// Attributes of the ad the expression belongs to.
    #[getter]
    fn my(&self) -> Vec<String> {
        texts(&self.reads.my)
    }
    /// Attributes of the other ad.
    #[getter]
    fn target(&self) -> Vec<String> {
        texts(&self.reads.target)
    }
    /// Attributes of either ad: names without scope word, if the ad was not given.
    #[getter]
    fn bare(&self) -> Vec<String> {
        texts(&self.reads.either)
    }
    /// Whether any attribute of either ad may be read (``eval`` of something computed, an ad as a value).
    #[getter]
    fn unbounded(&self) -> bool {
        self.reads.unbounded
    }
    /// Whether it depends on the time, on chance or on the host as well.
    #[getter]
    fn volatile(&self) -> bool {
        self.reads.volatile
    }
    fn __repr__(&self) -> String {
        format!(
            "References(my={:?}, target={:?}, bare={:?}, unbounded={}, volatile={})",
            self.my(),
            self.target(),
            self.bare(),
            self.unbounded(),
            self.volatile(),
        )
    }
}

/// Why an operator last gave an error in this thread; empty where nothing is known, or it was asked before.
#[pyfunction]
#[must_use]
pub fn take_fault() -> &'static str {
    ::classad::ops::take_fault()
}

/// A string as a ClassAd literal, quotes and escapes included.
#[pyfunction]
pub fn quote<'py>(text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let quoted = convert::with_bytes(text, |bytes| {
        ::classad::unparse(&Expr::Lit(Value::Str(bytes.into())))
    })?;
    convert::text(text.py(), &quoted)
}
