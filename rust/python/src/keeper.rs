//! Binding of crate `keeper`: the zygote's loop, and ending what a dead keeper left.

use std::ffi::CString;
use std::os::fd::RawFd;
use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// Forks a keeper for each control directory named on the `SOCK_SEQPACKET` socket `fd`. Never returns; the process
/// must have one thread.
///
/// `program(args, env)` runs jobs whose spec is `warm`, in a process of theirs that has their rights, directory, files and
/// environment; its value is their exit status.
#[pyfunction]
#[pyo3(signature = (fd, program=None))]
fn keeper_zygote(py: Python<'_>, fd: RawFd, program: Option<Bound<'_, PyAny>>) {
    let Some(program) = program else {
        keeper::zygote::serve(fd, None)
    };
    let run = |spec: &keeper::Spec| {
        // SAFETY: this is the only thread of a process that was forked while it held the interpreter's lock.
        unsafe { pyo3::ffi::PyOS_AfterFork_Child() };
        keeper::shown::as_program(&spec.args, &spec.env);
        let given = |texts: &[CString]| {
            texts
                .iter()
                .map(|text| text.as_bytes().to_vec())
                .collect::<Vec<_>>()
        };
        match program
            .call1((given(&spec.args), given(&spec.env)))
            .and_then(|status| status.extract())
        {
            Ok(status) => status,
            Err(error) => {
                error.print(py);
                1
            }
        }
    };
    // Its own words, and those of its keepers, are long.
    keeper::shown::as_program(&[c"slotwise-zygote".to_owned()], &[]);
    keeper::zygote::serve(fd, Some(&run))
}

/// What became of the run of a control directory: `("alive", [pid])`, `("ended", [])`, `("cleaned", [])` or
/// `("leftovers", [names])`. Ends the family of a dead keeper; takes up to `patience_s` seconds.
#[pyfunction]
fn keeper_sweep(
    py: Python<'_>,
    control: PathBuf,
    patience_s: f64,
) -> PyResult<(&'static str, Vec<String>)> {
    let swept = py.detach(|| keeper::sweep(&control, patience_s))?;
    Ok(match swept {
        keeper::Swept::Alive(pid) => ("alive", vec![pid.to_string()]),
        keeper::Swept::Ended => ("ended", Vec::new()),
        keeper::Swept::Cleaned => ("cleaned", Vec::new()),
        keeper::Swept::Leftovers(names) => ("leftovers", names),
    })
}

/// Process id of the keeper that holds the lock of a control directory; None when none does.
#[pyfunction]
fn keeper_holder(control: PathBuf) -> PyResult<Option<i32>> {
    Ok(keeper::holder(&control)?)
}

/// Ends all processes of a cgroup and removes it; true when it is gone.
#[pyfunction]
fn keeper_clear_group(py: Python<'_>, version: u32, group: PathBuf, patience_s: f64) -> bool {
    py.detach(|| keeper::cgroup::clear(version, &group, patience_s))
}

/// (path, mode, owner or None, content or None for a directory).
type TreeEntry = (PathBuf, u32, Option<(u32, u32)>, Option<Vec<u8>>);

/// Makes directories and files in order; an `OSError` names the first that the file system refuses.
#[pyfunction]
fn keeper_lay_out(entries: Vec<TreeEntry>) -> PyResult<()> {
    let entries: Vec<_> = entries
        .into_iter()
        .map(|(path, mode, owner, content)| keeper::scratch::Entry {
            path,
            mode,
            owner,
            content,
        })
        .collect();
    keeper::scratch::lay_out(&entries).map_err(|(path, error)| {
        let number = error.raw_os_error().unwrap_or(0);
        PyOSError::new_err((number, error.to_string(), path))
    })
}

/// Removes a tree; what could not be removed, in words.
#[pyfunction]
fn keeper_remove_tree(py: Python<'_>, path: PathBuf) -> Vec<String> {
    py.detach(|| keeper::scratch::remove(&path))
}

/// Blocks of 512 bytes that a tree takes, and its files.
#[pyfunction]
fn keeper_measure_tree(py: Python<'_>, path: PathBuf) -> (u64, u64) {
    let size = py.detach(|| keeper::scratch::measure(&path));
    (size.blocks, size.files)
}

/// Adds the functions to the extension module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(keeper_zygote, module)?)?;
    module.add_function(wrap_pyfunction!(keeper_sweep, module)?)?;
    module.add_function(wrap_pyfunction!(keeper_holder, module)?)?;
    module.add_function(wrap_pyfunction!(keeper_clear_group, module)?)?;
    module.add_function(wrap_pyfunction!(keeper_lay_out, module)?)?;
    module.add_function(wrap_pyfunction!(keeper_remove_tree, module)?)?;
    module.add_function(wrap_pyfunction!(keeper_measure_tree, module)?)?;
    Ok(())
}
