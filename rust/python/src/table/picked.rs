//! Attributes picked out of many texts of changes.

use ::columns::changes_text::{Written, each_attribute};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use rustc_hash::FxHashMap;

/// A column that is wanted, by its place among those of its kind.
#[derive(Clone, Copy)]
enum Wanted {
    Number(usize),
    Text(usize),
}

/// A column as Python gets it.
type Numbers<'py> = Bound<'py, PyBytes>;
/// A column of texts, with None where there is none.
type Texts<'py> = Bound<'py, PyList>;

/// Bytes that come with a row, by its place.
type Kept<'py> = Vec<(usize, Bound<'py, PyBytes>)>;

/// What [`picked`] has for Python: numbers, texts, columns of the rows' own, bytes.
type Picked<'py> = (
    Vec<Numbers<'py>>,
    Vec<Texts<'py>>,
    Vec<Numbers<'py>>,
    Kept<'py>,
);

/// Names of attributes that are wanted, whatever their case.
struct Names {
    wanted: FxHashMap<Vec<u8>, Wanted>,
    /// By the first letter of a wanted name (its lower five bits), the lengths of such names, a bit each: most others
    /// are told by this.
    lengths: [u64; 32],
    /// Names are written as the schedd writes them in nearly all texts: their spelling is looked up once.
    spelt: FxHashMap<Vec<u8>, Option<Wanted>>,
}

impl Names {
    fn of(numbers: &[String], words: &[String]) -> Self {
        let mut names = Names {
            wanted: FxHashMap::default(),
            lengths: [0; 32],
            spelt: FxHashMap::default(),
        };
        let numbers = numbers.iter().enumerate();
        let words = words.iter().enumerate();
        for (name, place) in numbers
            .map(|(at, name)| (name, Wanted::Number(at)))
            .chain(words.map(|(at, name)| (name, Wanted::Text(at))))
        {
            if let Some(first) = name.bytes().next() {
                names.lengths[usize::from(first & 31)] |= bit_of(name.len());
            }
            names
                .wanted
                .insert(name.to_ascii_lowercase().into_bytes(), place);
        }
        names
    }

    fn place(&mut self, name: &[u8]) -> Option<Wanted> {
        let first = *name.first()?;
        if self.lengths[usize::from(first & 31)] & bit_of(name.len()) == 0 {
            return None;
        }
        if let Some(place) = self.spelt.get(name) {
            return *place;
        }
        let place = self.wanted.get(&name.to_ascii_lowercase()).copied();
        if self.spelt.len() < SPELLINGS_MAX {
            self.spelt.insert(name.to_vec(), place);
        }
        place
    }
}

/// Lengths from 63 on share a bit.
fn bit_of(length: usize) -> u64 {
    1 << length.min(63)
}

/// The values of attributes in texts of changes: for each of `numbers` the doubles of all rows as bytes, NaN where
/// there is no number, and for each of `words` a list of texts and None. A row is a tuple of its text and of `own`
/// further values: numbers become columns of doubles likewise, bytes are kept with the place of their row.
///
/// Each row is let go before the next one is taken: most of what millions of rows cost is memory that is new.
#[pyfunction]
pub(crate) fn picked<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    numbers: Vec<String>,
    words: Vec<String>,
    own: usize,
) -> PyResult<Picked<'py>> {
    let mut names = Names::of(&numbers, &words);
    let mut doubles = vec![Vec::new(); numbers.len()];
    let mut given = vec![Vec::new(); own];
    let mut kept = Vec::new();
    let mut found: Vec<Vec<Option<Py<PyString>>>> = words.iter().map(|_| Vec::new()).collect();
    let mut known: FxHashMap<String, Py<PyString>> = FxHashMap::default();
    for (at, row) in rows.try_iter()?.enumerate() {
        let row = row?.cast_into::<PyTuple>()?;
        for column in &mut doubles {
            column.push(f64::NAN);
        }
        for column in &mut found {
            column.push(None);
        }
        for (place, column) in given.iter_mut().enumerate() {
            let value = row.get_item(place + 1)?;
            column.push(value.extract().unwrap_or(f64::NAN));
            if let Ok(bytes) = value.cast_into::<PyBytes>() {
                kept.push((at, bytes));
            }
        }
        let text = row.get_item(0)?.cast_into::<PyString>()?;
        each_attribute(text.to_str()?.as_bytes(), |name, value| {
            match names.place(name) {
                None => {}
                Some(Wanted::Number(place)) => {
                    doubles[place][at] = value.number().unwrap_or(f64::NAN);
                }
                Some(Wanted::Text(place)) => found[place][at] = python_text(py, &mut known, value),
            }
        });
    }
    let found = found.into_iter().map(|column| PyList::new(py, column));
    Ok((
        bytes_of(py, &doubles)?,
        found.collect::<PyResult<_>>()?,
        bytes_of(py, &given)?,
        kept,
    ))
}

fn bytes_of<'py>(py: Python<'py>, columns: &[Vec<f64>]) -> PyResult<Vec<Numbers<'py>>> {
    let made = columns.iter().map(|column| {
        PyBytes::new_with(py, column.len() * size_of::<f64>(), |bytes| {
            for (place, number) in bytes.chunks_exact_mut(size_of::<f64>()).zip(column) {
                place.copy_from_slice(&number.to_ne_bytes());
            }
            Ok(())
        })
    });
    made.collect()
}

/// Spellings of names, and texts, that are remembered.
const SPELLINGS_MAX: usize = 10_000;

/// Equal texts are one object.
fn python_text(
    py: Python<'_>,
    known: &mut FxHashMap<String, Py<PyString>>,
    value: Written<'_>,
) -> Option<Py<PyString>> {
    let text = value.text()?;
    if let Some(made) = known.get(&text) {
        return Some(made.clone_ref(py));
    }
    let made = PyString::new(py, &text).unbind();
    if known.len() < SPELLINGS_MAX {
        known.insert(text, made.clone_ref(py));
    }
    Some(made)
}
