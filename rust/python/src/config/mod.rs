//! Binding of the crate `config`: loaded configurations; the rooms hold the machine they read and the knob table.

mod host;
mod knobs;

use std::sync::Arc;

use ::config::set::Origin;
use ::config::typed::Typed;
use ::config::{ConfigError, MacroSet, Reader, Request, View};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) use host::Host;

/// An error as `(code, message, file, line, key, hint)`.
pub(crate) fn refused(error: ConfigError) -> PyErr {
    let ConfigError {
        code,
        message,
        place,
        key,
        hint,
    } = error;
    PyValueError::new_err((code.text(), message, place.file, place.line, key, hint))
}

fn typed_object(py: Python<'_>, value: Typed) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Typed::Text(text) => text.into_pyobject(py)?.into_any().unbind(),
        Typed::Int(number) => number.into_pyobject(py)?.into_any().unbind(),
        Typed::Bool(truth) => truth.into_pyobject(py)?.to_owned().into_any().unbind(),
        Typed::Real(number) => number.into_pyobject(py)?.into_any().unbind(),
    })
}

struct Loaded {
    set: MacroSet,
    host: Host,
    warnings: Vec<(String, u32, String)>,
}

/// A configuration that was read, as one subsystem sees it. Frozen.
#[pyclass(frozen, module = "slotwise._native")]
pub struct ConfigData {
    loaded: Arc<Loaded>,
    subsystem: Option<String>,
    local_name: Option<String>,
}

impl ConfigData {
    pub(crate) fn view(&self) -> View<'_> {
        View {
            set: &self.loaded.set,
            subsystem: self.subsystem.as_deref(),
            local_name: self.local_name.as_deref(),
            source: &self.loaded.host,
        }
    }
}

type OriginTuple = (String, u32, Option<String>);

fn origin_tuple(set: &MacroSet, origin: &Origin) -> OriginTuple {
    let place = set.place(origin);
    (
        place.file,
        place.line,
        origin.template.as_deref().map(str::to_owned),
    )
}

#[pymethods]
impl ConfigData {
    /// The same settings as another subsystem reads them.
    #[pyo3(signature = (subsystem, local_name=None))]
    fn seen_by(&self, subsystem: Option<String>, local_name: Option<String>) -> Self {
        Self {
            loaded: Arc::clone(&self.loaded),
            subsystem,
            local_name,
        }
    }

    /// Expanded text, or None when undefined or empty.
    fn text(&self, name: &str) -> PyResult<Option<String>> {
        self.view().text(name).map_err(refused)
    }

    /// Value by the knob table's type: str, int, bool, float or None.
    fn typed(&self, py: Python<'_>, name: &str) -> PyResult<Option<Py<PyAny>>> {
        self.view()
            .typed(name)
            .map_err(refused)?
            .map(|value| typed_object(py, value))
            .transpose()
    }

    /// Expanded text, or that of the built-in default when undefined or empty; None when there is none.
    fn text_or_default(&self, name: &str) -> PyResult<Option<String>> {
        self.view().text_or_default(name).map_err(refused)
    }

    fn integer(&self, name: &str) -> PyResult<Option<i64>> {
        self.view().integer(name).map_err(refused)
    }

    fn boolean(&self, name: &str) -> PyResult<Option<bool>> {
        self.view().boolean(name).map_err(refused)
    }

    fn real(&self, name: &str) -> PyResult<Option<f64>> {
        self.view().real(name).map_err(refused)
    }

    /// Value before expansion, defaults included.
    fn raw(&self, name: &str) -> Option<String> {
        self.view().raw_value(name).map(str::to_owned)
    }

    /// Built-in default before expansion.
    fn default(&self, name: &str) -> Option<String> {
        self.loaded.set.default_of(name).map(str::to_owned)
    }

    /// (file, line, template) of the setting a lookup ends at; None for built-in defaults and undefined names.
    fn origin(&self, name: &str) -> Option<OriginTuple> {
        self.view()
            .entry(name)
            .map(|entry| origin_tuple(&self.loaded.set, &entry.origin))
    }

    /// Name as written, with its prefix, of the setting a lookup ends at.
    fn entry_name(&self, name: &str) -> Option<String> {
        self.view().entry(name).map(|entry| entry.name.to_string())
    }

    /// All settings: (name, raw, file, line, template), in the order of their first setting.
    fn settings(&self) -> Vec<(String, String, String, u32, Option<String>)> {
        let set = &self.loaded.set;
        let row = |entry: &::config::set::Entry| {
            let (file, line, template) = origin_tuple(set, &entry.origin);
            (
                entry.name.to_string(),
                entry.raw.to_string(),
                file,
                line,
                template,
            )
        };
        set.entries().iter().map(row).collect()
    }

    /// Values that others have replaced, in that order: name, raw text, file, line, template.
    fn replaced(&self) -> Vec<(String, String, String, u32, Option<String>)> {
        let set = &self.loaded.set;
        let row = |former: &::config::set::Replaced| {
            let (file, line, template) = origin_tuple(set, &former.origin);
            (
                former.name.to_string(),
                former.raw.to_string(),
                file,
                line,
                template,
            )
        };
        set.replaced().iter().map(row).collect()
    }

    /// Text with all macros expanded as in a value.
    fn expand(&self, text: &str) -> PyResult<String> {
        ::config::Expander::new(&self.view())
            .expand(text)
            .map_err(refused)
    }

    /// Files and commands read, in order.
    fn sources(&self) -> Vec<String> {
        self.loaded.set.sources()[3..].to_vec()
    }

    /// Warnings met while reading: (file, line, message).
    fn warnings(&self) -> Vec<(String, u32, String)> {
        self.loaded.warnings.clone()
    }
}

type Pairs = Vec<(String, String)>;

pub(crate) fn field<T>(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<T>
where
    T: Default + for<'a> FromPyObjectOwned<'a>,
{
    match dict.get_item(name)? {
        Some(value) => value.extract().map_err(Into::into),
        None => Ok(T::default()),
    }
}

fn request_of(dict: &Bound<'_, PyDict>) -> PyResult<Request> {
    let environment: Pairs = field(dict, "environment")?;
    Ok(Request {
        root: field(dict, "root")?,
        early: field(dict, "early")?,
        firm: field(dict, "firm")?,
        fallback: field(dict, "fallback")?,
        defaults: field(dict, "defaults")?,
        environment: ::config::load::environment_settings(&environment),
        user_directory: field(dict, "user_directory")?,
        persistent: field(dict, "persistent")?,
        runtime: field(dict, "runtime")?,
    })
}

/// Reads a configuration. `request` has root, early, firm, fallback, defaults, environment, user_directory,
/// persistent, runtime, subsystem, local_name, cwd and seed; see `slotwise.config.load`.
#[pyfunction]
fn load_config(py: Python<'_>, request: &Bound<'_, PyDict>) -> PyResult<ConfigData> {
    let what = request_of(request)?;
    let environment: Pairs = field(request, "environment")?;
    let host = Host::new(
        field(request, "cwd")?,
        environment.into_iter().collect(),
        field(request, "seed")?,
    )
    .trusting_root_alone();
    let subsystem: Option<String> = field(request, "subsystem")?;
    let local_name: Option<String> = field(request, "local_name")?;
    let read = py.detach(|| {
        let mut reader = Reader::new(&host);
        reader.subsystem.clone_from(&subsystem);
        reader.local_name.clone_from(&local_name);
        ::config::load(&mut reader, &what)?;
        let warnings = reader
            .warnings
            .into_iter()
            .map(|w| (w.place.file, w.place.line, w.message))
            .collect();
        Ok((reader.set, warnings))
    });
    let (set, warnings) = read.map_err(refused)?;
    Ok(ConfigData {
        loaded: Arc::new(Loaded {
            set,
            host,
            warnings,
        }),
        subsystem,
        local_name,
    })
}

/// Why a text is not an expression: (message, byte, the line with a caret below the place), or None.
#[pyfunction]
fn expression_complaint(text: &str) -> Option<(String, usize, String)> {
    ::config::expr::complaint(text)
}

/// A text as a value of a knob type: int, float, bool or str; None when it gives none.
#[pyfunction]
fn typed_text(py: Python<'_>, kind: &str, text: &str, name: &str) -> PyResult<Option<Py<PyAny>>> {
    use ::config::expr;
    let now = crate::classad::convert::now();
    let value = match kind {
        "int" | "long" => expr::integer_at(text, name, now).map(Typed::Int),
        "bool" => expr::boolean_at(text, name, now).map(Typed::Bool),
        "double" => expr::real(text, name, now).map(Typed::Real),
        _ => Some(Typed::Text(text.to_owned())),
    };
    value.map(|value| typed_object(py, value)).transpose()
}

/// Adds the names of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ConfigData>()?;
    module.add_function(wrap_pyfunction!(load_config, module)?)?;
    module.add_function(wrap_pyfunction!(expression_complaint, module)?)?;
    module.add_function(wrap_pyfunction!(typed_text, module)?)?;
    knobs::register(module)
}
