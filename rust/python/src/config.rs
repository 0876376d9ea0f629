//! Binding of the crate `config`: loaded configurations, the knob table, templates.

use std::collections::HashMap;
use std::sync::Arc;

use ::config::set::Origin;
use ::config::typed::Typed;
use ::config::{ConfigError, MacroSet, Reader, Request, Seeded, Source, View, knobs, templates};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The machine as configuration and submit descriptions see it.
pub(crate) struct Host {
    cwd: String,
    environment: HashMap<String, String>,
    numbers: Seeded,
}

impl Host {
    pub(crate) fn new(cwd: String, environment: HashMap<String, String>, seed: u64) -> Self {
        Self {
            cwd,
            environment,
            numbers: Seeded::new(seed),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        std::path::Path::new(&self.cwd).join(name)
    }
}

impl Source for Host {
    fn read(&self, path: &str) -> Result<String, String> {
        match std::fs::read(self.path(path)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, String> {
        let entries = std::fs::read_dir(self.path(directory)).map_err(|error| error.to_string())?;
        let names = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let path = format!(
                "{}/{}",
                directory.trim_end_matches('/'),
                entry.file_name().to_string_lossy()
            );
            (!self.path(&path).is_dir()).then_some(path)
        });
        Ok(names.collect())
    }

    fn run(&self, command: &str) -> Result<(String, i32), String> {
        let words = ::config::args::split_either(command)?;
        let (program, arguments) = words.split_first().ok_or("the command is empty")?;
        let output = std::process::Command::new(program)
            .args(arguments)
            .current_dir(&self.cwd)
            .env_clear()
            .envs(&self.environment)
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(|error| error.to_string())?;
        Ok((
            String::from_utf8_lossy(&output.stdout).into_owned(),
            output.status.code().unwrap_or(-1),
        ))
    }

    fn readable(&self, path: &str) -> bool {
        std::fs::File::open(self.path(path)).is_ok()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.environment.get(name).cloned()
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.environment
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    fn entries(&self, directory: &str) -> Vec<(String, bool)> {
        let Ok(entries) = std::fs::read_dir(self.path(directory)) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().to_string_lossy().into_owned();
                Some((name, entry.path().is_dir()))
            })
            .collect()
    }

    fn size(&self, path: &str) -> Option<u64> {
        size_below(&self.path(path), 0)
    }

    fn random(&self, below: u64) -> u64 {
        self.numbers.below(below)
    }
}

/// Bytes of a file, or of the files in a directory and those below it.
fn size_below(path: &std::path::Path, depth: u32) -> Option<u64> {
    let about = std::fs::metadata(path).ok()?;
    if !about.is_dir() || depth > 32 {
        return Some(about.len());
    }
    let entries = std::fs::read_dir(path).ok()?;
    Some(
        entries
            .filter_map(|entry| size_below(&entry.ok()?.path(), depth + 1))
            .sum(),
    )
}

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

    fn integer(&self, name: &str, otherwise: i64) -> PyResult<i64> {
        self.view().integer(name, otherwise).map_err(refused)
    }

    fn boolean(&self, name: &str, otherwise: bool) -> PyResult<bool> {
        self.view().boolean(name, otherwise).map_err(refused)
    }

    fn real(&self, name: &str, otherwise: f64) -> PyResult<f64> {
        self.view().real(name, otherwise).map_err(refused)
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
    );
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

/// One row of the knob table.
fn knob_dict<'py>(py: Python<'py>, knob: &knobs::Knob) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", knob.name)?;
    row.set_item("type", knob.kind.name())?;
    row.set_item("lowest", knob.lowest)?;
    row.set_item("highest", knob.highest)?;
    row.set_item("default", knob.default.as_deref())?;
    row.set_item("implied", knob.implied)?;
    row.set_item("in_reference", knob.in_reference)?;
    row.set_item("used", knob.used.is_some())?;
    row.set_item("unit", knob.used.as_ref().map_or("", |used| used.unit))?;
    row.set_item(
        "daemons",
        knob.used.as_ref().map_or("", |used| used.daemons),
    )?;
    row.set_item(
        "applies",
        knob.used.as_ref().map_or("", |used| used.applies.name()),
    )?;
    row.set_item(
        "description",
        knob.used.as_ref().map_or("", |used| used.description),
    )?;
    Ok(row)
}

/// The knob table.
#[pyfunction]
fn knob_table(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    knobs::all()
        .iter()
        .map(|knob| knob_dict(py, knob))
        .collect()
}

/// The knob of a name, with or without a prefix, or None.
#[pyfunction]
fn find_knob<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
    knobs::find(name)
        .map(|knob| knob_dict(py, knob))
        .transpose()
}

/// Known knobs with names close to a name.
#[pyfunction]
fn similar_knobs(name: &str) -> Vec<&'static str> {
    knobs::similar(name)
}

/// All templates: (category, name, text).
#[pyfunction]
fn config_templates() -> Vec<(&'static str, &'static str, String)> {
    templates::all()
        .iter()
        .map(|t| (t.category, t.name, t.text.clone()))
        .collect()
}

/// Why a text is no expression: (message, byte), or None.
#[pyfunction]
fn expression_complaint(text: &str) -> Option<(String, usize)> {
    ::config::expr::complaint(text)
}

/// A text as a value of a knob type: int, float, bool or str; None when it gives none.
#[pyfunction]
fn typed_text(py: Python<'_>, kind: &str, text: &str, name: &str) -> PyResult<Option<Py<PyAny>>> {
    use ::config::expr;
    let value = match kind {
        "int" | "long" => expr::integer(text, name).map(Typed::Int),
        "bool" => expr::boolean(text, name).map(Typed::Bool),
        "double" => expr::real(text, name).map(Typed::Real),
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
    module.add_function(wrap_pyfunction!(knob_table, module)?)?;
    module.add_function(wrap_pyfunction!(find_knob, module)?)?;
    module.add_function(wrap_pyfunction!(similar_knobs, module)?)?;
    module.add_function(wrap_pyfunction!(config_templates, module)?)?;
    Ok(())
}
