//! Makes and removes the small trees of runs, in one call each: a directory of a run is a dozen files.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs;
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::sys;
use crate::walk::{self, Visitor};

/// A directory (no content) or file to make.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where.
    pub path: PathBuf,
    /// Permission bits, whatever the process's mask.
    pub mode: u32,
    /// User and group, if not the process's own.
    pub owner: Option<(u32, u32)>,
    /// Content of a file; none for a directory.
    pub content: Option<Vec<u8>>,
}

/// Makes the entries in order. Directories that are there are kept, files replaced: always by a new one, as a job that
/// may write to the directory could have left a link there that leads elsewhere.
///
/// # Errors
/// The first that the file system refuses, with its path.
pub fn lay_out(entries: &[Entry]) -> Result<(), (PathBuf, io::Error)> {
    entries
        .iter()
        .try_for_each(|entry| make(entry).map_err(|error| (entry.path.clone(), error)))
}

fn make(entry: &Entry) -> io::Result<()> {
    match &entry.content {
        None => {
            match fs::DirBuilder::new().mode(entry.mode).create(&entry.path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            // What is there already may be a link that leads elsewhere.
            let made = fs::OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
                .open(&entry.path)?;
            // The process's mask may have taken bits away.
            made.set_permissions(fs::Permissions::from_mode(entry.mode))?;
            if let Some((uid, gid)) = entry.owner {
                fchown(&made, Some(uid), Some(gid))?;
            }
        }
        Some(content) => {
            let mut file = new_file(entry)?;
            file.write_all(content)?;
            if let Some((uid, gid)) = entry.owner {
                fchown(&file, Some(uid), Some(gid))?;
            }
        }
    }
    Ok(())
}

/// A file that was not there a moment ago, so neither a link nor one that somebody else has open.
fn new_file(entry: &Entry) -> io::Result<fs::File> {
    let make = || {
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(entry.mode)
            .open(&entry.path)
    };
    match make() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&entry.path)?;
            make()
        }
        made => made,
    }
}

/// Removes a tree without following links; returns what could not be removed, in words. One that is not there is gone.
pub fn remove(path: &Path) -> Vec<String> {
    let walked = match walk::walk(path, &mut Removal) {
        Ok(problems) => problems,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => vec![error],
    };
    match fs::remove_dir(path) {
        Ok(()) => Vec::new(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        // What was in the way says more than that the directory is not empty.
        Err(error) => vec![format!(
            "{}: {}",
            path.display(),
            walked.first().unwrap_or(&error)
        )],
    }
}

struct Removal;

impl Visitor for Removal {
    fn enter(&mut self, fd: RawFd, status: &libc::stat) {
        // A job without another user may have taken rights from its own directories.
        if status.st_mode & 0o700 != 0o700 {
            // SAFETY: no memory involved.
            unsafe { libc::fchmod(fd, 0o700) };
        }
    }

    fn file(&mut self, parent: RawFd, name: &CStr) -> io::Result<()> {
        unlink(parent, name, 0)
    }

    fn leave(&mut self, parent: RawFd, name: &CStr) -> io::Result<()> {
        unlink(parent, name, libc::AT_REMOVEDIR)
    }
}

fn unlink(parent: RawFd, name: &CStr, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: a valid name.
    match sys::checked(unsafe { libc::unlinkat(parent, name.as_ptr(), flags) }) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What a tree takes: blocks of 512 bytes, and its files; several names of one file count its blocks once. What cannot
/// be looked at does not count.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Blocks of files and directories.
    pub blocks: u64,
    /// Names of files.
    pub files: u64,
}

/// Measures a tree; one that is not there takes nothing.
pub fn measure(path: &Path) -> Size {
    let mut found = Measuring::default();
    let _ = walk::walk(path, &mut found);
    found.size
}

#[derive(Default)]
struct Measuring {
    size: Size,
    /// Files with several names that were met.
    met: HashSet<(libc::dev_t, libc::ino_t)>,
}

impl Visitor for Measuring {
    fn enter(&mut self, _fd: RawFd, status: &libc::stat) {
        self.size.blocks += status.st_blocks.unsigned_abs();
    }

    fn file(&mut self, parent: RawFd, name: &CStr) -> io::Result<()> {
        let status = walk::status(parent, name)?;
        self.size.files += 1;
        if status.st_nlink == 1 || self.met.insert((status.st_dev, status.st_ino)) {
            self.size.blocks += status.st_blocks.unsigned_abs();
        }
        Ok(())
    }

    fn leave(&mut self, _parent: RawFd, _name: &CStr) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, FromRawFd};

    #[test]
    fn a_tree_is_made_and_removed_whatever_its_rights() {
        let top = std::env::temp_dir().join(format!("keeper-tree-{}", std::process::id()));
        let entry = |name: &str, mode, content: Option<&str>| Entry {
            path: top.join(name),
            mode,
            owner: None,
            content: content.map(|text| text.as_bytes().to_vec()),
        };
        lay_out(&[
            entry("", 0o755, None),
            entry("inner", 0o1777, None),
            entry("inner/file", 0o600, Some("text")),
        ])
        .unwrap();
        assert_eq!(fs::read_to_string(top.join("inner/file")).unwrap(), "text");
        assert_eq!(
            fs::metadata(top.join("inner"))
                .unwrap()
                .permissions()
                .mode()
                & 0o7777,
            0o1777
        );
        fs::set_permissions(top.join("inner"), fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(remove(&top), Vec::<String>::new());
        assert!(!top.exists());
        assert!(lay_out(&[entry("no/where", 0o700, None)]).is_err());
    }

    #[test]
    fn a_file_takes_the_place_of_a_link_and_leaves_its_target_alone() {
        let top = std::env::temp_dir().join(format!("keeper-links-{}", std::process::id()));
        fs::create_dir(&top).unwrap();
        fs::write(top.join("precious"), "kept").unwrap();
        std::os::unix::fs::symlink(top.join("precious"), top.join("soft")).unwrap();
        fs::hard_link(top.join("precious"), top.join("hard")).unwrap();
        for name in ["soft", "hard"] {
            lay_out(&[Entry {
                path: top.join(name),
                mode: 0o600,
                owner: None,
                content: Some(b"new".to_vec()),
            }])
            .unwrap();
            assert_eq!(fs::read_to_string(top.join(name)).unwrap(), "new");
        }
        assert_eq!(fs::read_to_string(top.join("precious")).unwrap(), "kept");
        assert_eq!(remove(&top), Vec::<String>::new());
    }

    #[test]
    fn a_link_is_no_directory_of_a_run() {
        let top = std::env::temp_dir().join(format!("keeper-planted-{}", std::process::id()));
        fs::create_dir_all(top.join("theirs")).unwrap();
        fs::set_permissions(top.join("theirs"), fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(top.join("theirs"), top.join("dir_1.0_1")).unwrap();
        let planted = Entry {
            path: top.join("dir_1.0_1"),
            mode: 0o755,
            owner: None,
            content: None,
        };
        assert!(lay_out(&[planted]).is_err());
        let mode = fs::metadata(top.join("theirs"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(remove(&top), Vec::<String>::new());
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_measured_and_removed() {
        let top = std::env::temp_dir().join(format!("keeper-deep-{}", std::process::id()));
        fs::create_dir(&top).unwrap();
        let mut at = fs::File::open(&top).unwrap();
        for _ in 0..3000 {
            // SAFETY: valid names; the descriptor is ours alone.
            at = unsafe {
                libc::mkdirat(at.as_raw_fd(), c"d".as_ptr(), 0o755);
                let fd = libc::openat(at.as_raw_fd(), c"d".as_ptr(), libc::O_RDONLY);
                assert!(fd >= 0);
                fs::File::from_raw_fd(fd)
            };
        }
        fs::write(top.join("d/d/d/file"), [1; 5000]).unwrap();
        fs::hard_link(top.join("d/d/d/file"), top.join("d/other")).unwrap();
        let shallow = measure(&top.join("d/d/d/d"));
        let whole = measure(&top);
        assert_eq!((shallow.files, whole.files), (0, 2));
        assert!(whole.blocks >= shallow.blocks + 10 && whole.blocks < shallow.blocks + 80);
        assert_eq!(remove(&top), Vec::<String>::new());
        assert!(!top.exists());
        assert_eq!(measure(&top), Size::default());
    }
}
