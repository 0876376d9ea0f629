//! Values of the language.

use crate::ad::Ad;
use crate::expr::Expr;
use std::fmt;
use std::sync::Arc;

/// An immutable shared byte string. ClassAd strings are bytes: usually UTF-8, never promised to be.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Str(Arc<[u8]>);

impl Str {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    /// The text, invalid UTF-8 replaced; for messages.
    #[must_use]
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}
impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}
impl From<&[u8]> for Str {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}
impl From<Vec<u8>> for Str {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}
impl From<String> for Str {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}
impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

/// A moment: seconds since the epoch and the zone it is shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsTime {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub secs: i64,
    /// Seconds east of UTC.
    pub offset_s: i32,
}

/// Where a list's or a nested ad's names are looked up while an evaluation runs.
///
/// Only meaningful inside the evaluator that made it; [`Scope::NONE`] everywhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope(pub(crate) u32);

impl Scope {
    /// No enclosing ad.
    pub const NONE: Scope = Scope(u32::MAX);
}

/// A list value: its items stay expressions until someone needs them.
#[derive(Clone, Debug)]
pub struct ListValue {
    /// The items as written.
    pub items: Arc<[Expr]>,
    /// The ad whose names the items use.
    pub scope: Scope,
    /// Made by a function rather than written: `=?=` tells the two apart, as HTCondor does.
    pub made: bool,
}

/// A nested ad as a value.
#[derive(Clone, Debug)]
pub struct AdValue {
    /// The ad.
    pub ad: Arc<Ad>,
    /// The ad around it.
    pub scope: Scope,
    /// Made by a function rather than written.
    pub made: bool,
}

/// What an expression evaluates to.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No such attribute, or nothing known.
    #[default]
    Undefined,
    /// The expression makes no sense for these values.
    Error,
    /// true or false.
    Bool(bool),
    /// 64-bit integer, wrapping.
    Int(i64),
    /// IEEE double.
    Real(f64),
    /// Bytes.
    Str(Str),
    /// A moment.
    AbsTime(AbsTime),
    /// A span in seconds.
    RelTime(f64),
    /// A list of unevaluated items.
    List(ListValue),
    /// A nested ad.
    Ad(AdValue),
}

/// The type of a value, in the words the conformance files use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Kind {
    Undefined,
    Error,
    Boolean,
    Integer,
    Real,
    String,
    AbsTime,
    RelTime,
    List,
    ClassAd,
}

impl Kind {
    /// The name used in reports: `integer`, `classad`, ...
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Undefined => "undefined",
            Kind::Error => "error",
            Kind::Boolean => "boolean",
            Kind::Integer => "integer",
            Kind::Real => "real",
            Kind::String => "string",
            Kind::AbsTime => "abstime",
            Kind::RelTime => "reltime",
            Kind::List => "list",
            Kind::ClassAd => "classad",
        }
    }
}

impl Value {
    /// The type of this value.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Value::Undefined => Kind::Undefined,
            Value::Error => Kind::Error,
            Value::Bool(_) => Kind::Boolean,
            Value::Int(_) => Kind::Integer,
            Value::Real(_) => Kind::Real,
            Value::Str(_) => Kind::String,
            Value::AbsTime(_) => Kind::AbsTime,
            Value::RelTime(_) => Kind::RelTime,
            Value::List(_) => Kind::List,
            Value::Ad(_) => Kind::ClassAd,
        }
    }

    /// A string value.
    pub fn str(text: impl Into<Str>) -> Self {
        Value::Str(text.into())
    }

    /// The truth value of a boolean or number; `None` for anything else.
    #[must_use]
    #[inline]
    pub fn truth(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            Value::Int(i) => Some(*i != 0),
            Value::Real(r) => Some(*r != 0.0),
            _ => None,
        }
    }

    /// Whether this is `true` or a number other than 0: what a Requirements must be to match.
    #[must_use]
    #[inline]
    pub fn is_true(&self) -> bool {
        self.truth() == Some(true)
    }

    /// Whether this is undefined or error.
    #[must_use]
    pub fn is_exceptional(&self) -> bool {
        matches!(self, Value::Undefined | Value::Error)
    }

    /// Booleans, integers and reals as a double.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Value::Bool(b) => Some(f64::from(u8::from(*b))),
            Value::Int(i) => Some(*i as f64),
            Value::Real(r) => Some(*r),
            _ => None,
        }
    }

    /// The bytes of a string value.
    #[must_use]
    pub fn as_str(&self) -> Option<&[u8]> {
        match self {
            Value::Str(s) => Some(s.as_bytes()),
            _ => None,
        }
    }

    /// A list value outside any ad.
    pub fn list(items: impl Into<Arc<[Expr]>>) -> Self {
        Value::List(ListValue {
            items: items.into(),
            scope: Scope::NONE,
            made: false,
        })
    }

    /// An ad value outside any other ad.
    pub fn ad(ad: impl Into<Arc<Ad>>) -> Self {
        Value::Ad(AdValue {
            ad: ad.into(),
            scope: Scope::NONE,
            made: false,
        })
    }

    /// A list made by a function.
    pub fn made_list(items: impl Into<Arc<[Expr]>>) -> Self {
        Value::List(ListValue {
            items: items.into(),
            scope: Scope::NONE,
            made: true,
        })
    }

    /// The value as a literal expression; lists and ads become their literals.
    #[must_use]
    pub fn into_expr(self) -> Expr {
        match self {
            Value::List(list) => Expr::List(list.items),
            Value::Ad(ad) => Expr::Ad(ad.ad),
            // A literal span holds whole seconds of 32 bits when it is made from a value.
            Value::RelTime(r) => Expr::Lit(Value::RelTime(f64::from(crate::ops::real_to_i32(r)))),
            other => Expr::Lit(other),
        }
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}
impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Value::Int(i)
    }
}
impl From<f64> for Value {
    fn from(r: f64) -> Self {
        Value::Real(r)
    }
}
impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::Str(s.into())
    }
}

const _: () = assert!(size_of::<Value>() == 24 && size_of::<Expr>() == 24);
