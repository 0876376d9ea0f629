//! How files are asked for.

/// Why a file has no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is none.
    Missing,
    /// It is a directory or a device.
    NotAFile,
    /// It holds more bytes than asked for.
    TooLarge,
    /// Another reason, as the system says it.
    Unreadable(String),
}

impl Fault {
    /// The reason as HTCondor words it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Missing => "Provided file path does not exist".to_owned(),
            Self::NotAFile => "Provided file path is not a file".to_owned(),
            Self::TooLarge => "It is larger than all files of a DAG may be".to_owned(),
            Self::Unreadable(reason) => format!("Failed to open file: {reason}"),
        }
    }
}

/// The files of whoever reads a DAG.
pub trait Files {
    /// The text of an ordinary file, by its absolute path, if it has at most so many bytes.
    ///
    /// # Errors
    /// Why there is none.
    fn read(&self, path: &str, most: u64) -> Result<String, Fault>;
}

/// A path as a process in `directory` means it; nothing is looked up, `.` and doubled slashes are left out.
#[must_use]
pub fn absolute(directory: &str, path: &str) -> String {
    let mut whole = String::with_capacity(directory.len() + path.len() + 1);
    let parts = if path.starts_with('/') {
        [path, ""]
    } else {
        [directory, path]
    };
    for part in parts.iter().flat_map(|part| part.split('/')) {
        if !part.is_empty() && part != "." {
            whole.push('/');
            whole.push_str(part);
        }
    }
    if whole.is_empty() {
        whole.push('/');
    }
    whole
}

/// A path below a directory that is relative itself; an absolute path stands for itself.
#[must_use]
pub fn below(directory: &str, path: &str) -> String {
    if directory.is_empty() || directory == "." || path.starts_with('/') {
        path.to_owned()
    } else if path.is_empty() {
        directory.to_owned()
    } else {
        format!("{}/{path}", directory.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_without_looking_at_files() {
        assert_eq!(absolute("/home/u", "./x.dag"), "/home/u/x.dag");
        assert_eq!(absolute("/home/u", "/a//b"), "/a/b");
        assert_eq!(absolute("/home/u", "../x"), "/home/u/../x");
        assert_eq!(below("s", "t"), "s/t");
        assert_eq!(below("s", ""), "s");
        assert_eq!(below(".", "t"), "t");
        assert_eq!(below("s", "/t"), "/t");
    }
}
