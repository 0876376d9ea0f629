//! Makes and removes the small trees of runs, in one call each: a directory of a run is a dozen files.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, fchown};
use std::path::{Path, PathBuf};

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
            // The process's mask may have taken bits away.
            fs::set_permissions(&entry.path, fs::Permissions::from_mode(entry.mode))?;
            if let Some((uid, gid)) = entry.owner {
                chown(&entry.path, Some(uid), Some(gid))?;
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
    match fs::remove_dir_all(path) {
        Ok(()) => return Vec::new(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(_) => open_up(path),
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            vec![format!("{}: {error}", path.display())]
        }
        _ => Vec::new(),
    }
}

/// Gives back the rights that a job without another user may have taken from its own directories.
fn open_up(path: &Path) {
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
