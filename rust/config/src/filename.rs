//! Parts of file names: `$Fpdnxbqa(...)`, `$BASENAME(...)`, `$DIRNAME(...)`.

/// Which parts of a name are kept, and how they are written.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Extension with its point.
    pub extension: bool,
    /// Base name without extension.
    pub base: bool,
    /// Whole directory.
    pub path: bool,
    /// Number of directories kept from the end.
    pub directories: usize,
    /// No separator at the end of directories, no point before the extension.
    pub bare: bool,
    /// Put quotes around: this character.
    pub quote: Option<u8>,
    /// Make the name absolute first.
    pub absolute: bool,
    /// Turn separators into this one.
    pub separator: Option<u8>,
    /// Suffix that `$BASENAME` takes away.
    pub suffix: Option<String>,
}

impl Parts {
    /// From the letters between `$F` and `(`.
    #[must_use]
    pub fn from_letters(letters: &str) -> Self {
        let mut parts = Self::default();
        let mut arguments = false;
        let mut quoted = false;
        for letter in letters.bytes().map(|c| c | 0x20) {
            match letter {
                b'x' => parts.extension = true,
                b'n' => parts.base = true,
                b'p' => parts.path = true,
                b'd' => parts.directories += 1,
                b'a' => arguments = true,
                b'b' => parts.bare = true,
                b'f' => parts.absolute = true,
                b'w' => parts.separator = Some(b'\\'),
                b'u' => parts.separator = Some(b'/'),
                b'q' => quoted = true,
                _ => {}
            }
        }
        if quoted {
            parts.quote = Some(if arguments { b'\'' } else { b'"' });
        }
        parts
    }

    fn any(&self) -> bool {
        self.extension || self.base || self.path || self.directories > 0
    }

    /// The kept parts of `name`; `cwd` is where relative names start, if the caller has one.
    #[must_use]
    pub fn of(&self, name: &str, cwd: Option<&str>) -> String {
        let bare_name = unquoted(name);
        let mut text = self.written(bare_name, cwd);
        let dir_end = text.iter().rposition(|&c| c == b'/').map_or(0, |at| at + 1);
        let mut dot = text[dir_end..]
            .iter()
            .rposition(|&c| c == b'.')
            .filter(|&at| at > 0);
        if dir_end == text.len() {
            dot = None;
        }
        let mut dot = dot.map_or(text.len(), |at| at + dir_end);
        let mut keep = Kept {
            extension: self.extension,
            base: self.base,
            path: self.path,
            dirs: self.directories,
        };
        if let Some(suffix) = &self.suffix {
            let start = text
                .len()
                .checked_sub(suffix.len())
                .filter(|&at| at >= dir_end);
            if let Some(at) = start.filter(|&at| text[at..].eq_ignore_ascii_case(suffix.as_bytes()))
            {
                dot = at;
                keep.extension = false;
            }
        }
        let (start, end) = self.range(&text, dir_end, dot, &mut keep);
        let kept = match self.quote {
            Some(quote) => requote(&mut text, start, end, quote),
            None => text[start..end.max(start)].to_vec(),
        };
        crate::bytes::hold(&kept).into_owned()
    }

    fn written(&self, name: &str, cwd: Option<&str>) -> Vec<u8> {
        let directory =
            cwd.filter(|cwd| self.absolute && !name.starts_with('/') && !cwd.is_empty());
        let mut text = match directory {
            Some(cwd) => {
                let short = name
                    .strip_prefix("./")
                    .filter(|rest| !rest.is_empty())
                    .unwrap_or(name);
                format!("{}/{short}", cwd.strip_suffix('/').unwrap_or(cwd)).into_bytes()
            }
            None => copied(name, self.quote),
        };
        if directory.is_some()
            && let Some(quote) = self.quote
        {
            text.insert(0, quote);
            text.push(quote);
        }
        if let Some(separator) = self
            .separator
            .filter(|_| self.any() || self.separator.is_some() || self.absolute)
        {
            let other = if separator == b'/' { b'\\' } else { b'/' };
            for c in &mut text {
                if *c == other {
                    *c = separator;
                }
            }
        }
        text
    }

    fn range(&self, text: &[u8], dir_end: usize, dot: usize, keep: &mut Kept) -> (usize, usize) {
        let end = text.len();
        if dir_end == 0 && (keep.extension || keep.base) {
            keep.path = false;
            keep.dirs = 0;
        }
        let without_slash = if self.bare && dir_end > 0 {
            dir_end - 1
        } else {
            dir_end
        };
        if keep.dirs == 0 {
            return match (keep.path, keep.base, keep.extension) {
                (false, false, true) => (if self.bare && dot < end { dot + 1 } else { dot }, end),
                (false, true, true) => (dir_end, end),
                (false, true, false) => (dir_end, dot),
                (true, false, false) => (0, without_slash),
                (true, true, false) => (0, dot),
                _ => (0, end),
            };
        }
        if dir_end == 0 {
            return (1.min(end), 1.min(end));
        }
        let Some(start) = start_of_directories(text, keep.dirs) else {
            return (0, 0);
        };
        match (keep.base, keep.extension) {
            (true, false) => (start, dot),
            (false, false) => (start, without_slash),
            _ => (start, end),
        }
    }
}

struct Kept {
    extension: bool,
    base: bool,
    path: bool,
    dirs: usize,
}

/// The name without a pair of quotes around it.
fn unquoted(name: &str) -> &str {
    let bytes = name.as_bytes();
    if bytes.len() > 1 && bytes[0] == bytes[bytes.len() - 1] && matches!(bytes[0], b'"' | b'\'') {
        &name[1..name.len() - 1]
    } else {
        name
    }
}

/// A copy without a leading quote (and its partner), with quotes of the wanted kind.
fn copied(name: &str, quote: Option<u8>) -> Vec<u8> {
    let mut bytes = name.as_bytes();
    let mut stripped = None;
    if let Some(&first) = bytes.first()
        && (first == b'"' || Some(first) == quote)
    {
        stripped = Some(first);
        bytes = &bytes[1..];
    }
    if stripped.is_some() && bytes.last().copied() == stripped {
        bytes = &bytes[..bytes.len() - 1];
    }
    let mut text = Vec::with_capacity(bytes.len() + 2);
    text.extend(quote);
    text.extend_from_slice(bytes);
    text.extend(quote);
    text
}

/// Puts the quotes back that cutting took away.
fn requote(text: &mut Vec<u8>, mut start: usize, mut end: usize, quote: u8) -> Vec<u8> {
    if text.get(start) != Some(&quote) && start > 0 {
        start -= 1;
        text[start] = quote;
    }
    if end > 1 && text.get(end - 1) == Some(&quote) {
        end -= 1;
    }
    text.truncate(end);
    text.push(quote);
    text[start.min(text.len() - 1)..].to_vec()
}

fn start_of_directories(text: &[u8], count: usize) -> Option<usize> {
    let starts: Vec<usize> = (0..text.len())
        .filter(|&at| matches!(text[at], b'/' | b'\\'))
        .map(|at| at + 1)
        .collect();
    match starts.len().checked_sub(count)? {
        0 => Some(0),
        above => Some(starts[above - 1]),
    }
}
