//! The expression tree. Cheap to clone (inner nodes are shared) and open to match on.

use crate::ad::Ad;
use crate::builtins::Builtin;
use crate::name::Name;
use crate::value::Value;
use std::sync::Arc;

/// Prefix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `+x`
    Plus,
    /// `-x`
    Minus,
    /// `!x`
    Not,
    /// `~x`
    BitNot,
}

/// Infix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Lt,
    Le,
    Eq,
    Ne,
    Ge,
    Gt,
    /// `=?=`, `is`
    Is,
    /// `=!=`, `isnt`
    Isnt,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    /// `>>`, keeps the sign
    Shr,
    /// `>>>`, shifts in zeros
    Ushr,
}

impl UnaryOp {
    /// The operator as written.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Plus => "+",
            UnaryOp::Minus => "-",
            UnaryOp::Not => "!",
            UnaryOp::BitNot => "~",
        }
    }
}

impl BinaryOp {
    /// The operator as the canonical text shows it (`is` for `=?=`).
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Ge => ">=",
            BinaryOp::Gt => ">",
            BinaryOp::Is => "is",
            BinaryOp::Isnt => "isnt",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Mod => "%",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::Ushr => ">>>",
        }
    }

    /// Whether this compares (`<` ... `isnt`).
    #[must_use]
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            BinaryOp::Lt
                | BinaryOp::Le
                | BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Ge
                | BinaryOp::Gt
                | BinaryOp::Is
                | BinaryOp::Isnt
        )
    }
}

/// `base.attr`
#[derive(Clone, Debug)]
pub struct Select {
    /// What is selected from; `MY` and `TARGET` are plain names here.
    pub base: Expr,
    /// The attribute.
    pub attr: Name,
}

/// A prefix operation.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Unary {
    pub op: UnaryOp,
    pub arg: Expr,
}

/// An infix operation.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Binary {
    pub op: BinaryOp,
    pub left: Expr,
    pub right: Expr,
}

/// `cond ? then : other`
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Ternary {
    pub cond: Expr,
    pub then: Expr,
    pub other: Expr,
}

/// `name(args)`
#[derive(Clone, Debug)]
pub struct Call {
    /// As written.
    pub name: Name,
    /// The function, if there is one of that name; evaluating an unknown one gives error.
    pub builtin: Option<Builtin>,
    /// The arguments.
    pub args: Box<[Expr]>,
}

/// An expression. Equality is structural, with names compared as spelled (HTCondor's `SameAs`).
#[derive(Clone, Debug)]
pub enum Expr {
    /// A constant. A relative time written as a literal evaluates to a real, as in HTCondor.
    Lit(Value),
    /// `name`
    Attr(Name),
    /// `.name`, looked up in the root ad
    AbsAttr(Name),
    /// `base.name`; `MY.x` is a selection from the bare name `MY`
    Select(Arc<Select>),
    /// `-x`
    Unary(Arc<Unary>),
    /// `x + y`
    Binary(Arc<Binary>),
    /// `c ? x : y`
    Ternary(Arc<Ternary>),
    /// `x ?: y`
    Elvis(Arc<(Expr, Expr)>),
    /// `x[y]`
    Subscript(Arc<(Expr, Expr)>),
    /// `(x)`, kept because it is printed
    Paren(Arc<Expr>),
    /// `f(x, y)`
    Call(Arc<Call>),
    /// `{ x, y }`
    List(Arc<[Expr]>),
    /// `[ a = x; b = y ]`
    Ad(Arc<Ad>),
}

/// Which ad a reference names by its scope word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// `MY.x`
    My,
    /// `TARGET.x` or `other.x`
    Target,
    /// `x` with no scope word: MY first, then (normal mode) TARGET
    Bare,
}

impl Expr {
    /// A bare attribute reference.
    #[must_use]
    pub fn attr(name: &str) -> Self {
        Expr::Attr(name.into())
    }
    /// `base.name`
    #[must_use]
    pub fn select(base: Expr, attr: Name) -> Self {
        Expr::Select(Arc::new(Select { base, attr }))
    }
    /// A prefix operation.
    #[must_use]
    pub fn unary(op: UnaryOp, arg: Expr) -> Self {
        Expr::Unary(Arc::new(Unary { op, arg }))
    }
    /// An infix operation.
    #[must_use]
    pub fn binary(op: BinaryOp, left: Expr, right: Expr) -> Self {
        Expr::Binary(Arc::new(Binary { op, left, right }))
    }
    /// `(inner)`
    #[must_use]
    pub fn paren(inner: Expr) -> Self {
        Expr::Paren(Arc::new(inner))
    }
    /// `name(args)`
    #[must_use]
    pub fn call(name: &str, args: Vec<Expr>) -> Self {
        let name = Name::from(name);
        let builtin = Builtin::find(name.as_bytes());
        Expr::Call(Arc::new(Call {
            name,
            builtin,
            args: args.into(),
        }))
    }

    /// This expression without enclosing parentheses.
    #[must_use]
    pub fn unparen(&self) -> &Expr {
        let mut e = self;
        while let Expr::Paren(inner) = e {
            e = inner;
        }
        e
    }

    /// The reference this expression is, if it is a simple one: `x`, `MY.x`, `TARGET.x` or `other.x`.
    #[must_use]
    pub fn as_reference(&self) -> Option<(Side, &Name)> {
        match self {
            Expr::Attr(name) => Some((Side::Bare, name)),
            Expr::Select(sel) => match &sel.base {
                Expr::Attr(scope) if scope.is("my") => Some((Side::My, &sel.attr)),
                Expr::Attr(scope) if scope.is("target") || scope.is("other") => {
                    Some((Side::Target, &sel.attr))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Expr::Lit(a), Expr::Lit(b)) => literal_eq(a, b),
            (Expr::Attr(a), Expr::Attr(b)) | (Expr::AbsAttr(a), Expr::AbsAttr(b)) => {
                a.same_spelling(b)
            }
            (Expr::Select(a), Expr::Select(b)) => a.attr.same_spelling(&b.attr) && a.base == b.base,
            (Expr::Unary(a), Expr::Unary(b)) => a.op == b.op && a.arg == b.arg,
            (Expr::Binary(a), Expr::Binary(b)) => {
                a.op == b.op && a.left == b.left && a.right == b.right
            }
            (Expr::Ternary(a), Expr::Ternary(b)) => {
                a.cond == b.cond && a.then == b.then && a.other == b.other
            }
            (Expr::Elvis(a), Expr::Elvis(b)) | (Expr::Subscript(a), Expr::Subscript(b)) => {
                a.0 == b.0 && a.1 == b.1
            }
            (Expr::Paren(a), Expr::Paren(b)) => a == b,
            (Expr::Call(a), Expr::Call(b)) => a.name == b.name && a.args == b.args,
            (Expr::List(a), Expr::List(b)) => a == b,
            (Expr::Ad(a), Expr::Ad(b)) => a == b,
            _ => false,
        }
    }
}

fn literal_eq(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Undefined, Value::Undefined) | (Value::Error, Value::Error) => true,
        (Value::Bool(x), Value::Bool(y)) => x == y,
        (Value::Int(x), Value::Int(y)) => x == y,
        (Value::Real(x), Value::Real(y)) | (Value::RelTime(x), Value::RelTime(y)) => {
            x.to_bits() == y.to_bits()
        }
        (Value::Str(x), Value::Str(y)) => x == y,
        (Value::AbsTime(x), Value::AbsTime(y)) => x == y,
        _ => false,
    }
}
