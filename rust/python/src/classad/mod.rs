//! The Python face of crate `classad`.

pub(crate) mod ad;
mod ad_source;
mod arguments;
mod cases;
pub mod convert;
pub(crate) mod expr;
pub mod maps;
mod parse;
mod place;

use pyo3::prelude::*;

pub use ad::PyAd;
pub use expr::PyExpr;

/// Adds this area's types and functions.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyAd>()?;
    module.add_class::<PyExpr>()?;
    module.add_class::<convert::Special>()?;
    module.add_class::<parse::AdIterator>()?;
    module.add_class::<expr::References>()?;
    module.add("UNDEFINED", convert::special(module.py(), false)?)?;
    module.add("ERROR", convert::special(module.py(), true)?)?;
    module.add_function(wrap_pyfunction!(parse::parse_text, module)?)?;
    module.add_function(wrap_pyfunction!(parse::complete_prefix, module)?)?;
    maps::install();
    module.add_function(wrap_pyfunction!(maps::define_user_map, module)?)?;
    module.add_class::<maps::MapFile>()?;
    module.add_function(wrap_pyfunction!(maps::forget_user_maps, module)?)?;
    module.add_function(wrap_pyfunction!(maps::answer_in_thread, module)?)?;
    module.add_function(wrap_pyfunction!(maps::enable_user_home, module)?)?;
    module.add_function(wrap_pyfunction!(maps::keep_debug_lines, module)?)?;
    module.add_function(wrap_pyfunction!(maps::take_debug_lines, module)?)?;
    module.add_function(wrap_pyfunction!(cases::evaluate_text, module)?)?;
    module.add_function(wrap_pyfunction!(cases::format_text, module)?)?;
    module.add_function(wrap_pyfunction!(cases::read_ads_as_reference, module)?)?;
    module.add_function(wrap_pyfunction!(expr::quote, module)?)?;
    module.add_function(wrap_pyfunction!(expr::take_fault, module)?)?;
    module.add_function(wrap_pyfunction!(arguments::split_arguments, module)?)?;
    module.add_function(wrap_pyfunction!(place::definition_in, module)?)?;
    Ok(())
}
