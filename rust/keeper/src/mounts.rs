//! What a job sees mounted: private directories, shared memory and processes of its own, and no other job's volume.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::spec::Spec;
use crate::sys::{self, c_path, checked};

/// Arranges the mounts of a job in the namespace that the caller has just entered.
///
/// # Errors
/// When the kernel refuses one: a job without the privacy that it was promised does not start.
pub fn prepare(spec: &Spec) -> io::Result<()> {
    mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE)?;
    // All sources are opened first: the first mount (of /tmp, say) may hide where the others are.
    let pinned = opened(
        spec.pins
            .iter()
            .map(|path| (path.as_path(), path.as_path())),
    )?;
    let bound = opened(
        spec.mounts
            .iter()
            .map(|(from, to)| (from.as_path(), to.as_path())),
    )?;
    if let Some((below, own)) = &spec.hide {
        take_away(below, own)?;
    }
    for (source, to) in &bound {
        bind(source, to)?;
    }
    if let Some(mib) = spec.shm_mib {
        own_shared_memory(mib)?;
    }
    for (source, path) in &pinned {
        std::fs::create_dir_all(path)?;
        bind(source, path)?;
    }
    Ok(())
}

/// Each source as an open descriptor, with its target.
fn opened<'a>(
    pairs: impl Iterator<Item = (&'a Path, &'a Path)>,
) -> io::Result<Vec<(OwnedFd, &'a Path)>> {
    pairs
        .map(|(from, to)| {
            let name = c_path(from)?;
            // SAFETY: a valid name; the descriptor is ours.
            let fd = unsafe {
                OwnedFd::from_raw_fd(checked(libc::open(
                    name.as_ptr(),
                    libc::O_PATH | libc::O_CLOEXEC,
                ))?)
            };
            Ok((fd, to))
        })
        .collect()
}

fn bind(source: &OwnedFd, to: &Path) -> io::Result<()> {
    let from = PathBuf::from(format!("/proc/self/fd/{}", source.as_raw_fd()));
    mount(&c_path(&from)?, &c_path(to)?, libc::MS_BIND | libc::MS_REC)
}

fn mount(from: &CStr, to: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: valid names, no data.
    checked(unsafe {
        libc::mount(
            from.as_ptr(),
            to.as_ptr(),
            std::ptr::null(),
            flags,
            std::ptr::null(),
        )
    })?;
    Ok(())
}

/// Unmounts what is mounted below `below`, except below `own`: the volumes of other jobs are not this one's business,
/// and would be kept in use by it.
fn take_away(below: &Path, own: &Path) -> io::Result<()> {
    let table = sys::read_text("/proc/self/mountinfo")?;
    let places = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(plain);
    let others: Vec<PathBuf> = places
        .filter(|at| at.starts_with(below) && at != below && !at.starts_with(own))
        .collect();
    for at in others.iter().rev() {
        // SAFETY: a valid name.
        match checked(unsafe { libc::umount2(c_path(at)?.as_ptr(), libc::MNT_DETACH) }) {
            // Gone meanwhile with the mount that it was in.
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}

/// A path of the kernel's table: blanks and the like are written as octal numbers there.
fn plain(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes
            .get(at + 1..at + 4)
            .filter(|_| bytes[at] == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        found.push(octal.unwrap_or(bytes[at]));
        at += if octal.is_some() { 4 } else { 1 };
    }
    PathBuf::from(std::ffi::OsString::from_vec(found))
}

/// An empty `/dev/shm` that ends with the job; of `mib` MiB, or of the kernel's usual size (0).
fn own_shared_memory(mib: u64) -> io::Result<()> {
    let size = if mib > 0 {
        format!("mode=1777,size={mib}m")
    } else {
        "mode=1777".to_owned()
    };
    let options = std::ffi::CString::new(size)?;
    // SAFETY: valid names and text.
    checked(unsafe {
        libc::mount(
            c"tmpfs".as_ptr(),
            c"/dev/shm".as_ptr(),
            c"tmpfs".as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV,
            options.as_ptr().cast(),
        )
    })?;
    Ok(())
}

/// Mounts the `/proc` of the process namespace that the caller is in.
///
/// # Errors
/// When the kernel refuses it.
pub fn own_proc() -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: valid names, no data.
    checked(unsafe {
        libc::mount(
            c"proc".as_ptr(),
            c"/proc".as_ptr(),
            c"proc".as_ptr(),
            flags,
            std::ptr::null(),
        )
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_the_kernels_table_are_read() {
        assert_eq!(plain("/a\\040b/c"), PathBuf::from("/a b/c"));
        assert_eq!(plain("/a\\b"), PathBuf::from("/a\\b"));
    }
}
