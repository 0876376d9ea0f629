//! The user maps that `userMap()` asks, one set for the process.

use super::convert::with_bytes;
use ::classad::Host;
use ::classad::usermap::UserMaps;
use pyo3::prelude::*;
use std::sync::{LazyLock, RwLock};

static MAPS: LazyLock<RwLock<UserMaps>> = LazyLock::new(RwLock::default);

/// What evaluations from Python ask about the machine.
pub struct Machine;

impl Host for Machine {
    fn user_map(&self, map: &[u8], input: &[u8]) -> Option<Vec<u8>> {
        MAPS.read().ok()?.lookup(map, input)
    }

    /// Off, as HTCondor has it unless CLASSAD_ENABLE_USER_HOME says otherwise.
    fn user_home(&self, _user: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Makes ``userMap(name, ...)`` answer from a map: lines of ``METHOD PRINCIPAL CANONICAL``, where METHOD is
/// mostly ``*`` and PRINCIPAL a text or ``/pattern/``. None forgets the map.
#[pyfunction]
pub fn define_user_map(name: &str, text: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let Ok(mut maps) = MAPS.write() else {
        return Ok(());
    };
    match text {
        Some(text) => with_bytes(text, |text| maps.define(name.as_bytes(), text)),
        None => {
            maps.forget(name.as_bytes());
            Ok(())
        }
    }
}
