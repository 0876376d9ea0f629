//! Finds the next macro reference in a text: `$(NAME)`, `$(NAME:default)`, `$FUNC(...)`, `$(N)` in templates.
//!
//! A reference that does not have the exact shape is plain text: blanks inside the parentheses, or characters in a
//! default beyond the few that are allowed, make the whole no macro. `$$(...)` is never a reference here.

/// What stands between `$` and `(`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `$(NAME)`.
    Plain,
    /// `$ENV(NAME)`.
    Env,
    /// `$RANDOM_CHOICE(a,b)`.
    RandomChoice,
    /// `$RANDOM_INTEGER(low,high,step)`.
    RandomInteger,
    /// `$CHOICE(index,list)`.
    Choice,
    /// `$SUBSTR(name,start,length)`.
    Substr,
    /// `$INT(name,format)`.
    Int,
    /// `$REAL(name,format)`.
    Real,
    /// `$STRING(name,format)`.
    Text,
    /// `$EVAL(name)`.
    Eval,
    /// `$BASENAME(name,suffix)`.
    Basename,
    /// `$DIRNAME(name)`.
    Dirname,
    /// `$Fpdnxbqa(name)`.
    Filename,
}

/// A reference found: byte positions in the text searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: Kind,
    /// Position of the `$`.
    pub dollar: usize,
    /// Position after the `(`.
    pub body: usize,
    /// Position of the default's first character, for bodies with a colon.
    pub default: Option<usize>,
    /// Position after the `)`.
    pub end: usize,
}

impl Found {
    /// Text between the parentheses.
    #[must_use]
    pub fn body<'t>(&self, text: &'t str) -> &'t str {
        &text[self.body..self.end - 1]
    }

    /// Function letters between `$` and `(`.
    #[must_use]
    pub fn function<'t>(&self, text: &'t str) -> &'t str {
        &text[self.dollar + 1..self.body - 1]
    }
}

/// Which references a search stops at.
#[derive(Clone, Copy, Debug)]
pub enum Want<'n> {
    /// All but `$(DOLLAR)`.
    ButDollar,
    /// Only `$(DOLLAR)`.
    OnlyDollar,
    /// References to a name itself, by one or two names: plain ones and file-name functions.
    Own(&'n str, Option<&'n str>),
    /// `$(1)`, `$(2?)`, `$(0#)`, `$(3+)`, `$(1:default)`.
    Argument,
}

const FUNCTIONS: [(&str, Kind); 11] = [
    ("ENV", Kind::Env),
    ("RANDOM_CHOICE", Kind::RandomChoice),
    ("RANDOM_INTEGER", Kind::RandomInteger),
    ("CHOICE", Kind::Choice),
    ("SUBSTR", Kind::Substr),
    ("INT", Kind::Int),
    ("REAL", Kind::Real),
    ("STRING", Kind::Text),
    ("EVAL", Kind::Eval),
    ("BASENAME", Kind::Basename),
    ("DIRNAME", Kind::Dirname),
];

/// Whether a character may stand in a knob's name.
#[must_use]
pub fn is_name_char(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'/')
}

fn is_default_char(c: u8) -> bool {
    matches!(c, b'$' | b' ' | b',' | b'\\' | b':')
}

fn kind_of(function: &str, want: Want<'_>) -> Option<Kind> {
    if function.is_empty() {
        return Some(Kind::Plain);
    }
    if matches!(want, Want::Argument) || function.starts_with('$') {
        return None;
    }
    let letters = function.as_bytes();
    if letters[0] == b'F'
        && letters[1..]
            .iter()
            .all(|c| b"pnxdqabfwu".contains(&(c | 0x20)))
    {
        return Some(Kind::Filename);
    }
    FUNCTIONS
        .iter()
        .find(|(name, _)| *name == function)
        .map(|(_, kind)| *kind)
}

fn position(text: &[u8], from: usize, wanted: u8) -> Option<usize> {
    text.get(from..)?
        .iter()
        .position(|&c| c == wanted)
        .map(|at| at + from)
}

/// A text that is searched, and how many of its bytes were looked at so far, some of them more than once.
struct Searched<'t> {
    bytes: &'t [u8],
    last_close: Option<usize>,
    looked: usize,
}

impl<'t> Searched<'t> {
    fn new(bytes: &'t [u8]) -> Self {
        let last_close = bytes.iter().rposition(|&c| c == b')');
        Self {
            bytes,
            last_close,
            looked: 0,
        }
    }

    /// The first `)` at or after a position.
    fn close(&mut self, from: usize) -> Option<usize> {
        if self.last_close.is_none_or(|last| from > last) {
            return None;
        }
        let found = position(self.bytes, from, b')')?;
        self.looked += found - from;
        Some(found)
    }
}

/// End of the body (position of its `)`) and of the default, or `None` when the shape is wrong.
fn body_end(
    text: &mut Searched<'_>,
    body: usize,
    kind: Kind,
    argument: bool,
) -> Option<(usize, Option<usize>)> {
    if !matches!(kind, Kind::Plain | Kind::Env) {
        return text.close(body).map(|end| (end, None));
    }
    if text.last_close.is_none_or(|last| body > last) {
        return None;
    }
    let mut at = body;
    let mut default = None;
    loop {
        let c = *text.bytes.get(at)?;
        text.looked += 1;
        if c == b')' {
            return Some((at, default));
        }
        at += 1;
        if c == b':' && default.is_none() {
            default = Some(at);
            continue;
        }
        if default.is_some() {
            if c == b'(' {
                if let Some(close) = text.close(at) {
                    at = close + 1;
                    continue;
                }
            } else if argument || is_default_char(c) {
                continue;
            }
        }
        let fits = if argument {
            c.is_ascii_digit() || b"?#+".contains(&c)
        } else {
            is_name_char(c)
        };
        if !fits {
            return None;
        }
    }
}

fn names(body: &str, name: &str) -> bool {
    let (b, n) = (body.as_bytes(), name.as_bytes());
    (b.len() == n.len() || (b.len() > n.len() && b[n.len()] == b':'))
        && b[..n.len()].eq_ignore_ascii_case(n)
}

fn wanted(want: Want<'_>, kind: Kind, body: &str) -> bool {
    match want {
        Want::ButDollar => !(kind == Kind::Plain && body.eq_ignore_ascii_case("DOLLAR")),
        Want::OnlyDollar => kind == Kind::Plain && body.eq_ignore_ascii_case("DOLLAR"),
        Want::Own(own, other) => {
            matches!(kind, Kind::Plain | Kind::Filename)
                && (names(body, own) || other.is_some_and(|other| names(body, other)))
        }
        Want::Argument => body.as_bytes().first().is_some_and(u8::is_ascii_digit),
    }
}

/// First wanted reference at or after `from`, and the first `$` passed over on the way (a reference may come to
/// life there when text further right is replaced).
///
/// `looked` grows by the bytes of bodies that were looked at, some of them for each of several `$`: in a text of many
/// references that are none this is more than the text is long.
pub fn next(
    text: &str,
    from: usize,
    want: Want<'_>,
    looked: &mut usize,
) -> (Option<Found>, Option<usize>) {
    let mut searched = Searched::new(text.as_bytes());
    let found = next_in(text, &mut searched, from, want);
    *looked += searched.looked;
    found
}

fn next_in(
    text: &str,
    searched: &mut Searched<'_>,
    from: usize,
    want: Want<'_>,
) -> (Option<Found>, Option<usize>) {
    let bytes = text.as_bytes();
    let argument = matches!(want, Want::Argument);
    let mut search = from;
    let mut passed = None;
    while let Some(dollar) = position(bytes, search, b'$') {
        let mut at = dollar + 1;
        if bytes.get(at) == Some(&b'$') {
            at += 1;
        }
        while bytes
            .get(at)
            .is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_')
        {
            at += 1;
        }
        let kind = if bytes.get(at) == Some(&b'(') {
            kind_of(&text[dollar + 1..at], want)
        } else {
            None
        };
        let Some(kind) = kind else {
            passed = passed.or(Some(dollar));
            search = at;
            continue;
        };
        let body = at + 1;
        if let Some((close, default)) = body_end(searched, body, kind, argument) {
            if wanted(want, kind, &text[body..close]) {
                return (
                    Some(Found {
                        kind,
                        dollar,
                        body,
                        default,
                        end: close + 1,
                    }),
                    passed,
                );
            }
            search = close;
        } else {
            search = body;
        }
        passed = passed.or(Some(dollar));
    }
    (None, passed)
}
