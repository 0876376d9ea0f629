//! Goes through a directory tree of any depth, with few open files and without following links: a job may have nested its
//! directories deeper than a path may be long, or than a process may have files open.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use crate::sys::{c_path, checked};

/// Levels that stay open; from deeper ones the way back is `..`.
const OPEN_LEVELS: usize = 32;

/// What is done on the way.
pub trait Visitor {
    /// A directory, open as `fd`; before what is in it.
    fn enter(&mut self, fd: RawFd, status: &libc::stat);
    /// Something that is not a directory.
    ///
    /// # Errors
    /// What cannot be done; the way goes on.
    fn file(&mut self, parent: RawFd, name: &CStr) -> io::Result<()>;
    /// A directory below the top, after what is in it.
    ///
    /// # Errors
    /// What cannot be done; the way goes on.
    fn leave(&mut self, parent: RawFd, name: &CStr) -> io::Result<()>;
}

struct Level {
    name: CString,
    identity: (libc::dev_t, libc::ino_t),
    /// Closed for deep levels that are not the last.
    fd: Option<OwnedFd>,
    /// Directories in it that are still to be visited.
    pending: Vec<CString>,
}

/// Goes through the tree at `top`; returns what went wrong on the way.
///
/// # Errors
/// When the top cannot be opened as a directory, or when directories were moved meanwhile.
pub fn walk(top: &Path, visitor: &mut impl Visitor) -> io::Result<Vec<io::Error>> {
    let mut problems = Vec::new();
    let first = open(libc::AT_FDCWD, &c_path(top)?)?;
    let mut levels = vec![arrive(first, CString::default(), visitor, &mut problems)?];
    while let Some(last) = levels.last_mut() {
        let fd = last.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        if let Some(name) = last.pending.pop() {
            match open(fd, &name).and_then(|below| arrive(below, name, visitor, &mut problems)) {
                Ok(level) => {
                    if levels.len() > OPEN_LEVELS
                        && let Some(above) = levels.last_mut()
                    {
                        above.fd = None;
                    }
                    levels.push(level);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => problems.push(error),
            }
            continue;
        }
        let Some(done) = levels.pop() else { break };
        let Some(above) = levels.last_mut() else {
            break;
        };
        if above.fd.is_none() {
            above.fd = Some(back(fd, above.identity)?);
        }
        let parent = above.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        if let Err(error) = visitor.leave(parent, &done.name) {
            problems.push(error);
        }
    }
    Ok(problems)
}

fn arrive(
    fd: OwnedFd,
    name: CString,
    visitor: &mut impl Visitor,
    problems: &mut Vec<io::Error>,
) -> io::Result<Level> {
    let found = status(fd.as_raw_fd(), c"")?;
    visitor.enter(fd.as_raw_fd(), &found);
    let mut pending = Vec::new();
    for (entry, is_directory) in entries(fd.as_raw_fd())? {
        if is_directory {
            pending.push(entry);
        } else if let Err(error) = visitor.file(fd.as_raw_fd(), &entry) {
            problems.push(error);
        }
    }
    Ok(Level {
        name,
        identity: (found.st_dev, found.st_ino),
        fd: Some(fd),
        pending,
    })
}

/// Opens a directory. One that its owner, who we are, may not read is made readable.
fn open(parent: RawFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: valid names; the descriptor is ours alone.
    unsafe {
        let fd = match checked(libc::openat(parent, name.as_ptr(), flags)) {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                checked(libc::fchmodat(parent, name.as_ptr(), 0o700, 0))?;
                checked(libc::openat(parent, name.as_ptr(), flags))?
            }
            opened => opened?,
        };
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// The directory above; an error if it is not the one that we came from.
fn back(fd: RawFd, identity: (libc::dev_t, libc::ino_t)) -> io::Result<OwnedFd> {
    let above = open(fd, c"..")?;
    let found = status(above.as_raw_fd(), c"")?;
    if (found.st_dev, found.st_ino) == identity {
        return Ok(above);
    }
    Err(io::Error::other("a directory was moved meanwhile"))
}

/// What there is to know of an entry, or (no name) of the directory itself; links are not followed.
///
/// # Errors
/// When the file system does not tell.
pub fn status(parent: RawFd, name: &CStr) -> io::Result<libc::stat> {
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
    // SAFETY: stat is plain data; the call fills it.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        checked(libc::fstatat(parent, name.as_ptr(), &raw mut found, flags))?;
        Ok(found)
    }
}

/// Names in a directory, each with whether it is one itself.
fn entries(fd: RawFd) -> io::Result<Vec<(CString, bool)>> {
    let mut found = Vec::new();
    // SAFETY: the stream owns its copy of the descriptor and is closed at the end; an entry is read before the next.
    unsafe {
        let copy = checked(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0))?;
        let stream = libc::fdopendir(copy);
        if stream.is_null() {
            let error = io::Error::last_os_error();
            libc::close(copy);
            return Err(error);
        }
        loop {
            let entry = libc::readdir64(stream);
            if entry.is_null() {
                break;
            }
            let name = CStr::from_ptr((*entry).d_name.as_ptr());
            if name == c"." || name == c".." {
                continue;
            }
            let is_directory = match (*entry).d_type {
                libc::DT_UNKNOWN => status(fd, name)
                    .is_ok_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFDIR),
                kind => kind == libc::DT_DIR,
            };
            found.push((name.to_owned(), is_directory));
        }
        libc::closedir(stream);
    }
    Ok(found)
}
