//! Typed columns to data frames through the Arrow C stream interface.
//!
//! The structs and their life cycle are those of the published interface
//! (<https://arrow.apache.org/docs/format/CStreamInterface.html>): a consumer calls `release` once, which
//! frees the producer's box behind `private_data`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use ::columns::{ExportedColumn, Series};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

const NULLABLE: i64 = 2;
const STREAM_NAME: &CStr = c"arrow_array_stream";

/// What a schema struct points to.
struct SchemaParts {
    _format: CString,
    _name: CString,
    children: Vec<*mut Schema>,
    dictionary: *mut Schema,
}

/// What an array struct points to.
struct ArrayParts {
    _owned: Vec<Vec<u8>>,
    _pointers: Vec<*const c_void>,
    children: Vec<*mut Array>,
    dictionary: *mut Array,
}

impl Schema {
    fn new(format: &str, name: &str, children: Vec<Schema>, dictionary: Option<Schema>) -> Self {
        // A NUL cannot be in a C string; names with one lose it.
        let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
        let (format, name) = (text(format), text(name));
        let children = children
            .into_iter()
            .map(|child| Box::into_raw(Box::new(child)))
            .collect();
        let dictionary =
            dictionary.map_or(ptr::null_mut(), |schema| Box::into_raw(Box::new(schema)));
        let (format_at, name_at) = (format.as_ptr(), name.as_ptr());
        let mut parts = Box::new(SchemaParts {
            _format: format,
            _name: name,
            children,
            dictionary,
        });
        Schema {
            format: format_at,
            name: name_at,
            metadata: ptr::null(),
            flags: NULLABLE,
            n_children: parts.children.len() as i64,
            children: parts.children.as_mut_ptr(),
            dictionary,
            release: Some(release_schema),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

/// Frees a schema. SAFETY: called once, with a schema that `Schema::new` made.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: `private_data` came from `Box::into_raw` in `Schema::new`; children and dictionary too, and
    // one that a consumer moved out has no `release` any more.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        for child in parts.children.iter().copied().chain([parts.dictionary]) {
            if !child.is_null() {
                let mut child = Box::from_raw(child);
                if let Some(release) = child.release {
                    release(&raw mut *child);
                }
            }
        }
        (*schema).release = None;
    }
}

impl Array {
    fn new(
        length: usize,
        nulls: usize,
        buffers: Vec<Option<Vec<u8>>>,
        children: Vec<Array>,
        dictionary: Option<Array>,
    ) -> Self {
        let mut owned = Vec::new();
        let mut pointers: Vec<*const c_void> = Vec::new();
        for buffer in buffers {
            match buffer {
                None => pointers.push(ptr::null()),
                Some(bytes) => {
                    pointers.push(bytes.as_ptr().cast());
                    owned.push(bytes);
                }
            }
        }
        let children = children
            .into_iter()
            .map(|child| Box::into_raw(Box::new(child)))
            .collect();
        let dictionary = dictionary.map_or(ptr::null_mut(), |array| Box::into_raw(Box::new(array)));
        let mut parts = Box::new(ArrayParts {
            _owned: owned,
            _pointers: pointers,
            children,
            dictionary,
        });
        Array {
            length: length as i64,
            null_count: nulls as i64,
            offset: 0,
            n_buffers: parts._pointers.len() as i64,
            n_children: parts.children.len() as i64,
            buffers: parts._pointers.as_mut_ptr(),
            children: parts.children.as_mut_ptr(),
            dictionary,
            release: Some(release_array),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

/// Frees an array. SAFETY: called once, with an array that `Array::new` made.
unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as in `release_schema`.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        for child in parts.children.iter().copied().chain([parts.dictionary]) {
            if !child.is_null() {
                let mut child = Box::from_raw(child);
                if let Some(release) = child.release {
                    release(&raw mut *child);
                }
            }
        }
        (*array).release = None;
    }
}

/// Eight-byte little-endian words of anything that has them.
fn bytes_of<T: Copy, const N: usize>(values: &[T], word: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() * N + 8);
    values
        .iter()
        .for_each(|value| out.extend_from_slice(&word(*value)));
    out
}

fn bits(bitmap: &::columns::Bitmap) -> Vec<u8> {
    bytes_of(bitmap.words(), u64::to_le_bytes)
}

/// Texts as a large-utf8 array.
fn text_array(texts: &[String]) -> Array {
    let mut ends = vec![0i64];
    let mut data = Vec::with_capacity(texts.iter().map(String::len).sum::<usize>() + 8);
    for text in texts {
        data.extend_from_slice(text.as_bytes());
        ends.push(data.len() as i64);
    }
    Array::new(
        texts.len(),
        0,
        vec![None, Some(bytes_of(&ends, i64::to_le_bytes)), Some(data)],
        Vec::new(),
        None,
    )
}

fn column_schema(column: &ExportedColumn) -> Schema {
    let plain = |format| Schema::new(format, &column.name, Vec::new(), None);
    match &column.series {
        Series::Nothing => plain("n"),
        Series::Bool(_) => plain("b"),
        Series::Int(_) => plain("l"),
        Series::Real(_) => plain("g"),
        Series::Text(..) => {
            let texts = Schema::new("U", "", Vec::new(), None);
            Schema::new("I", &column.name, Vec::new(), Some(texts))
        }
    }
}

fn column_array(column: &ExportedColumn) -> Array {
    let rows = column.valid.len();
    let nulls = rows - column.valid.count();
    let valid = (nulls > 0).then(|| bits(&column.valid));
    let made =
        |data, dictionary| Array::new(rows, nulls, vec![valid, Some(data)], Vec::new(), dictionary);
    match &column.series {
        Series::Nothing => Array::new(rows, rows, Vec::new(), Vec::new(), None),
        Series::Bool(values) => made(bits(values), None),
        Series::Int(values) => made(bytes_of(values, i64::to_le_bytes), None),
        Series::Real(values) => made(bytes_of(values, f64::to_le_bytes), None),
        Series::Text(codes, texts) => {
            made(bytes_of(codes, u32::to_le_bytes), Some(text_array(texts)))
        }
    }
}

/// What a stream gives out: one batch.
struct StreamParts {
    columns: Vec<ExportedColumn>,
    rows: usize,
    done: bool,
}

/// SAFETY: `stream` is one that `capsule` made and not released, `out` may be written.
unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: see above; `private_data` is the box made in `capsule`.
    unsafe {
        let parts = &*(*stream).private_data.cast::<StreamParts>();
        let children = parts.columns.iter().map(column_schema).collect();
        ptr::write(out, Schema::new("+s", "", children, None));
    }
    0
}

/// SAFETY: as `get_schema`.
unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as in `get_schema`. An array without `release` ends the stream.
    unsafe {
        let parts = &mut *(*stream).private_data.cast::<StreamParts>();
        if parts.done {
            let mut end = Array::new(0, 0, Vec::new(), Vec::new(), None);
            release_array(&raw mut end);
            end.private_data = ptr::null_mut();
            ptr::write(out, end);
        } else {
            parts.done = true;
            let children = parts.columns.iter().map(column_array).collect();
            ptr::write(out, Array::new(parts.rows, 0, vec![None], children, None));
        }
    }
    0
}

unsafe extern "C" fn get_last_error(_stream: *mut Stream) -> *const c_char {
    ptr::null()
}

/// SAFETY: called once, with a stream that `capsule` made.
unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: see above.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamParts>()));
        (*stream).release = None;
    }
}

/// A stream in its capsule (whose address is the struct's); a consumer that takes it over leaves
/// `release` empty.
#[repr(transparent)]
struct Held(Stream);

// SAFETY: the stream owns plain vectors only.
unsafe impl Send for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: nobody took the stream over.
            unsafe { release(&raw mut self.0) };
        }
    }
}

/// Columns as the capsule that `__arrow_c_stream__` gives.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    columns: Vec<ExportedColumn>,
    rows: usize,
) -> PyResult<Bound<'py, PyCapsule>> {
    let parts = Box::new(StreamParts {
        columns,
        rows,
        done: false,
    });
    let stream = Stream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(parts).cast(),
    };
    PyCapsule::new_with_value(py, Held(stream), STREAM_NAME)
}
