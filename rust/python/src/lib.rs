//! `slotwise._native`: the Python face of the Rust core. Thin: conversions and batches, no policy.
//!
//! Each crate's binding is a module of its own (`classad`, `table`, `cycle`, `config`, `dag`, `keeper`), which registers its
//! types and functions.

use pyo3::prelude::*;

mod arrow;
mod classad;
mod config;
mod cycle;
mod dag;
mod dag_run;
mod hostbench;
#[cfg(target_os = "linux")]
mod keeper;
mod keys;
mod submit;
mod table;
mod transform;

/// The extension module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    self::classad::register(module)?;
    self::config::register(module)?;
    self::submit::register(module)?;
    self::transform::register(module)?;
    self::table::register(module)?;
    self::cycle::register(module)?;
    self::dag::register(module)?;
    dag_run::register(module)?;
    self::hostbench::register(module)?;
    #[cfg(target_os = "linux")]
    self::keeper::register(module)?;
    Ok(())
}
