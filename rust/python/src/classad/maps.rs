//! What this process answers when a ClassAd function asks about the machine: user maps, home directories, and where
//! the lines of `debug()` go. One set for the process, as its configuration says; a thread that runs a command for
//! somebody has answers of its own, which are read when an expression asks for them first: whose expressions a command
//! evaluates is not known before, and most ask for none.

use super::convert::with_bytes;
use ::classad::Externals;
use ::classad::usermap::{Principals, Reason, UserMaps};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, RwLock};

static MAPS: LazyLock<RwLock<UserMaps>> = LazyLock::new(RwLock::default);
static VERSION: AtomicU64 = AtomicU64::new(0);
/// CLASSAD_ENABLE_USER_HOME, whose default is true.
static HOMES: AtomicBool = AtomicBool::new(true);
static LISTENING: AtomicBool = AtomicBool::new(false);
static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// How many lines of `debug()` wait to be taken; older ones are lost.
const LINES_MAX: usize = 10_000;

/// How much work it may be to find a principal in a map file: a fraction of a second.
const PRINCIPAL_STEPS: i64 = 10_000_000;

/// The answers of a thread.
struct Own {
    maps: UserMaps,
    homes: bool,
    /// Reads them; taken when it is called.
    reader: Option<Py<PyAny>>,
}

thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

struct Machine;

impl Machine {
    /// Has the thread's own answers read if they are not yet.
    fn read() {
        let reader = OWN.with_borrow_mut(|own| own.as_mut().and_then(|own| own.reader.take()));
        if let Some(reader) = reader {
            Python::attach(|py| {
                if let Err(error) = reader.call0(py) {
                    error.write_unraisable(py, None);
                }
            });
        }
    }
}

impl Externals for Machine {
    fn user_map(&self, map: &[u8], input: &[u8], steps: &mut i64) -> Option<Vec<u8>> {
        Machine::read();
        OWN.with_borrow(|own| match own {
            Some(own) => own.maps.lookup(map, input, steps),
            None => MAPS.read().ok()?.lookup(map, input, steps),
        })
    }

    fn user_home(&self, user: &[u8]) -> Option<Vec<u8>> {
        Machine::read();
        let own = OWN.with_borrow(|own| own.as_ref().map(|own| own.homes));
        if !own.unwrap_or_else(|| HOMES.load(Ordering::Relaxed)) {
            return None;
        }
        home_of(&CString::new(user).ok()?)
    }

    /// Lines wait for Python to take them: an evaluation may run in any thread, and must not wait for one.
    fn debug(&self, line: &str) {
        if let Ok(mut lines) = LINES.lock() {
            if lines.len() == LINES_MAX {
                lines.pop_front();
            }
            lines.push_back(line.to_owned());
        }
    }

    fn wants_debug(&self) -> bool {
        LISTENING.load(Ordering::Relaxed)
    }

    fn version(&self) -> u64 {
        VERSION.load(Ordering::Relaxed)
    }
}

/// The home directory that the system's user database has for a user.
fn home_of(user: &CString) -> Option<Vec<u8>> {
    let mut buffer: Vec<libc::c_char> = vec![0; 16 << 10];
    // SAFETY: an all-zero `passwd` is valid; the pointers are to live locals and the buffer's length is told. The
    // entry's strings live in the buffer, and are copied before it goes.
    unsafe {
        let mut entry: libc::passwd = std::mem::zeroed();
        let mut found = std::ptr::null_mut();
        let failed = libc::getpwnam_r(
            user.as_ptr(),
            &raw mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        );
        if failed != 0 || found.is_null() || entry.pw_dir.is_null() {
            return None;
        }
        Some(std::ffi::CStr::from_ptr(entry.pw_dir).to_bytes().to_vec())
    }
}

/// Makes this process's evaluations ask here.
pub fn install() {
    ::classad::externals::install(&Machine);
}

/// Makes ``userMap(name, ...)`` answer from a map: lines of ``METHOD PRINCIPAL CANONICAL``, where METHOD is
/// mostly ``*`` and PRINCIPAL a text or ``/pattern/``. With ``prefixes``, PRINCIPAL is a beginning. None forgets the
/// map. Names ignore case.
#[pyfunction]
#[pyo3(signature = (name, text, *, prefixes=false))]
pub fn define_user_map(
    name: &str,
    text: Option<&Bound<'_, PyAny>>,
    prefixes: bool,
) -> PyResult<()> {
    let text = match text {
        Some(text) => Some(with_bytes(text, <[u8]>::to_vec)?),
        None => None,
    };
    change(|maps| match &text {
        Some(text) => {
            let principals = if prefixes {
                Principals::Prefixes
            } else {
                Principals::Texts
            };
            maps.define(name.as_bytes(), text, principals);
        }
        None => {
            maps.forget(name.as_bytes());
        }
    });
    Ok(())
}

/// Changes the maps of the thread if it has maps of its own, else those of the process.
fn change(step: impl FnOnce(&mut UserMaps)) {
    VERSION.fetch_add(1, Ordering::Relaxed);
    OWN.with_borrow_mut(|own| match own {
        Some(own) => step(&mut own.maps),
        None => {
            if let Ok(mut maps) = MAPS.write() {
                step(&mut maps);
            }
        }
    });
}

/// Gives the thread answers of its own about user maps and homes, which ``reader`` defines when it is called: once, when
/// an expression asks first. None: it answers as the process again.
#[pyfunction]
#[pyo3(signature = (reader))]
pub fn answer_in_thread(reader: Option<Py<PyAny>>) {
    VERSION.fetch_add(1, Ordering::Relaxed);
    let own = reader.map(|reader| Own {
        maps: UserMaps::default(),
        homes: true,
        reader: Some(reader),
    });
    let former = OWN.replace(own);
    drop(former);
}

/// A map of its own, as CERTIFICATE_MAPFILE is one: lines of ``METHOD PRINCIPAL CANONICAL``, the first that fits wins.
/// With ``hash_keys`` a PRINCIPAL is a text, or a ``/pattern/``; without, every one is a pattern; with ``prefixes`` it is
/// how a principal begins, and the longest counts. Names of methods ignore case. ``bad_lines``: numbers of lines that map nobody, or not whom they seem to, each with what is wrong.
#[pyclass(frozen, module = "slotwise._native")]
pub struct MapFile {
    maps: UserMaps,
    #[pyo3(get)]
    bad_lines: Vec<(usize, &'static str)>,
}

#[pymethods]
impl MapFile {
    #[new]
    #[pyo3(signature = (text, *, hash_keys, prefixes = false))]
    fn new(text: &[u8], hash_keys: bool, prefixes: bool) -> Self {
        let mut maps = UserMaps::default();
        let principals = if prefixes {
            Principals::Prefixes
        } else if hash_keys {
            Principals::Texts
        } else {
            Principals::Patterns
        };
        let bad = maps.define(b"m", text, principals);
        let bad_lines = bad.iter().map(|bad| (bad.line, said(bad.reason))).collect();
        Self { maps, bad_lines }
    }

    /// The canonical name of a principal that proved itself by ``method``; None when no line maps it.
    fn lookup(&self, method: &str, principal: &str) -> Option<String> {
        let map = format!("m.{method}");
        let mut steps = PRINCIPAL_STEPS;
        let found = self
            .maps
            .lookup(map.as_bytes(), principal.as_bytes(), &mut steps)?;
        String::from_utf8(found).ok()
    }
}

fn said(reason: Reason) -> &'static str {
    match reason {
        Reason::Incomplete => "a line is METHOD PRINCIPAL user@domain",
        Reason::NoPattern => "the principal is not a regular expression",
        Reason::GoesOn => {
            "there is more than METHOD PRINCIPAL user@domain: a principal with blanks or slashes goes between quotes"
        }
    }
}

/// Forgets all user maps.
#[pyfunction]
pub fn forget_user_maps() {
    change(UserMaps::clear);
}

/// Whether ``userHome()`` looks users up (CLASSAD_ENABLE_USER_HOME); else it says undefined or its default.
#[pyfunction]
pub fn enable_user_home(enabled: bool) {
    OWN.with_borrow_mut(|own| match own {
        Some(own) => own.homes = enabled,
        None => HOMES.store(enabled, Ordering::Relaxed),
    });
    VERSION.fetch_add(1, Ordering::Relaxed);
}

/// Whether the lines that ``debug()`` tells are kept for ``take_debug_lines``.
#[pyfunction]
pub fn keep_debug_lines(keep: bool) {
    LISTENING.store(keep, Ordering::Relaxed);
}

/// The lines that ``debug()`` told since the last time, oldest first; of more than 10,000 the last.
#[pyfunction]
pub fn take_debug_lines() -> Vec<String> {
    LINES
        .lock()
        .map_or_else(|_| Vec::new(), |mut lines| lines.drain(..).collect())
}
