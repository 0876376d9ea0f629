//! Trees to text: HTCondor's canonical form, its old-syntax variant, and the indented one.

use crate::ad::Ad;
use crate::expr::{BinaryOp, Expr};
use crate::number::{push_exponential, push_general};
use crate::time;
use crate::value::Value;

/// How expressions are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The old syntax: short reals, `=?=`, strings with nothing escaped but quotes.
    pub old: bool,
    /// Lists and ads over several indented lines.
    pub indent: bool,
    /// `&`, `<` and `>` as XML entities.
    pub xml: bool,
}

/// The canonical one-line text of an expression.
#[must_use]
pub fn unparse(expr: &Expr) -> Vec<u8> {
    let mut out = Vec::new();
    Printer::new(&mut out, Style::default()).expr(expr);
    out
}

/// The canonical text as a `String`; bytes that are no UTF-8 only occur in old-syntax style.
#[must_use]
pub fn unparse_text(expr: &Expr) -> String {
    String::from_utf8_lossy(&unparse(expr)).into_owned()
}

/// The canonical text of a value; relative times show as `relTime("...")`.
#[must_use]
pub fn unparse_value(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    Printer::new(&mut out, Style::default()).value(value);
    out
}

/// The text of an expression in a style.
#[must_use]
pub fn unparse_styled(expr: &Expr, style: Style) -> Vec<u8> {
    let mut out = Vec::new();
    Printer::new(&mut out, style).expr(expr);
    out
}

/// The canonical one-line text of an ad.
#[must_use]
pub fn unparse_ad(ad: &Ad) -> Vec<u8> {
    let mut out = Vec::new();
    Printer::new(&mut out, Style::default()).ad(ad);
    out
}

/// The ad over several lines, as HTCondor's pretty printer writes it.
#[must_use]
pub fn pretty_ad(ad: &Ad) -> Vec<u8> {
    let mut out = Vec::new();
    Printer::new(
        &mut out,
        Style {
            indent: true,
            ..Style::default()
        },
    )
    .ad(ad);
    out
}

/// Writes one text.
pub struct Printer<'o> {
    out: &'o mut Vec<u8>,
    style: Style,
    level: usize,
}

impl<'o> Printer<'o> {
    /// A printer at the end of `out`.
    pub fn new(out: &'o mut Vec<u8>, style: Style) -> Self {
        Self {
            out,
            style,
            level: 0,
        }
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Writes an expression.
    pub fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Lit(value) => self.value(value),
            Expr::Attr(name) => self.name(name.as_bytes()),
            Expr::AbsAttr(name) => {
                self.text(".");
                self.name(name.as_bytes());
            }
            Expr::Select(sel) => {
                self.expr(&sel.base);
                // HTCondor writes `1.a`, which is no number, and names without the quotes that they need: neither of
                // it can be read. Ads are sent and stored as texts.
                if matches!(sel.base, Expr::Lit(Value::Int(_) | Value::Real(_))) {
                    self.text(" ");
                }
                self.text(".");
                let name = sel.attr.as_bytes();
                if name.eq_ignore_ascii_case(b"parent") {
                    self.out.extend_from_slice(name);
                } else {
                    self.name(name);
                }
            }
            Expr::Unary(u) => {
                self.text(" ");
                self.text(u.op.symbol());
                self.expr(&u.arg);
            }
            Expr::Binary(_) => self.binary(expr),
            Expr::Ternary(t) => {
                self.expr(&t.cond);
                self.text(" ? ");
                self.expr(&t.then);
                self.text(" : ");
                self.expr(&t.other);
            }
            Expr::Elvis(e) => {
                self.expr(&e.0);
                self.text(" ?: ");
                self.expr(&e.1);
            }
            Expr::Subscript(s) => {
                self.expr(&s.0);
                self.text("[");
                self.expr(&s.1);
                self.text("]");
            }
            Expr::Paren(inner) => {
                self.text("(");
                self.expr(inner);
                self.text(")");
            }
            Expr::Call(call) => {
                self.out.extend_from_slice(call.name.as_bytes());
                self.text("(");
                for (i, arg) in call.args.iter().enumerate() {
                    if i > 0 {
                        self.text(",");
                    }
                    self.expr(arg);
                }
                self.text(")");
            }
            Expr::List(items) => self.list(items),
            Expr::Ad(ad) => self.ad(ad),
        }
    }

    /// A chain of operators, without recursing down its left side.
    fn binary(&mut self, expr: &Expr) {
        let mut chain = Vec::new();
        let mut left = expr;
        while let Expr::Binary(b) = left {
            chain.push(b);
            left = &b.left;
        }
        self.expr(left);
        for b in chain.into_iter().rev() {
            self.text(" ");
            match (b.op, self.style.old) {
                (BinaryOp::Is, true) => self.text("=?="),
                (BinaryOp::Isnt, true) => self.text("=!="),
                (op, _) if self.style.xml => {
                    for c in op.symbol().bytes() {
                        self.byte(c);
                    }
                }
                (op, _) => self.text(op.symbol()),
            }
            self.text(" ");
            self.expr(&b.right);
        }
    }

    fn byte(&mut self, b: u8) {
        match b {
            b'&' if self.style.xml => self.text("&amp;"),
            b'<' if self.style.xml => self.text("&lt;"),
            b'>' if self.style.xml => self.text("&gt;"),
            _ => self.out.push(b),
        }
    }

    fn line(&mut self) {
        self.out.push(b'\n');
        self.out.extend(std::iter::repeat_n(b' ', self.level));
    }

    fn list(&mut self, items: &[Expr]) {
        if self.style.indent {
            self.level += 3;
            self.line();
            self.text("{");
            self.level += 3;
        } else {
            self.text("{ ");
        }
        for (i, item) in items.iter().enumerate() {
            if self.style.indent {
                self.line();
            }
            self.expr(item);
            if i + 1 < items.len() {
                self.text(",");
            }
        }
        if self.style.indent {
            self.level -= 3;
            self.line();
            self.text("}");
            self.level -= 3;
        } else {
            self.text(" }");
        }
    }

    /// Writes an ad with its brackets.
    pub fn ad(&mut self, ad: &Ad) {
        if self.style.indent {
            self.level += 4;
            self.line();
            self.text("[");
            self.level += 4;
        } else {
            self.text("[ ");
        }
        let all = ad.sorted();
        for (i, (name, expr)) in all.iter().enumerate() {
            if self.style.indent {
                self.line();
            }
            self.name(name.as_bytes());
            self.text(" = ");
            self.expr(expr);
            if i + 1 < all.len() {
                self.text("; ");
            }
        }
        if self.style.indent {
            self.level -= 4;
            self.line();
            self.text("]");
            self.level -= 4;
        } else {
            self.text(" ]");
        }
    }

    /// Writes a value as the literal or constructor it is.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Undefined => self.text("undefined"),
            Value::Error => self.text("error"),
            Value::Bool(true) => self.text("true"),
            Value::Bool(false) => self.text("false"),
            Value::Int(i) => self.integer(*i),
            Value::Real(r) => self.real(*r),
            Value::Str(s) => self.string(s.as_bytes(), b'"'),
            Value::AbsTime(t) => {
                self.text("absTime(\"");
                time::push_abs(self.out, *t);
                self.text("\")");
            }
            Value::RelTime(r) => {
                self.text("relTime(\"");
                time::push_rel(self.out, *r);
                self.text("\")");
            }
            Value::List(list) => self.list(&list.items),
            Value::Ad(ad) => self.ad(&ad.ad),
        }
    }

    fn integer(&mut self, i: i64) {
        use std::io::Write;
        let _ = write!(self.out, "{i}");
    }

    fn real(&mut self, r: f64) {
        if r == 0.0 {
            self.text(if r.is_sign_negative() { "-0.0" } else { "0.0" });
        } else if r.is_nan() {
            self.text("real(\"NaN\")");
        } else if r.is_infinite() {
            self.text(if r > 0.0 {
                "real(\"INF\")"
            } else {
                "real(\"-INF\")"
            });
        } else if self.style.old {
            let from = self.out.len();
            push_general(self.out, r, 16, true);
            if !self.out[from..].iter().any(|b| matches!(b, b'.' | b'E')) {
                self.text(".0");
            }
        } else {
            push_exponential(self.out, r, 15);
        }
    }

    fn string(&mut self, bytes: &[u8], quote: u8) {
        self.out.push(quote);
        self.escaped(bytes, quote);
        self.out.push(quote);
    }

    /// Writes the inside of a string or quoted name.
    pub(crate) fn escaped(&mut self, bytes: &[u8], quote: u8) {
        for &b in bytes {
            if b == quote {
                self.out.extend_from_slice(&[b'\\', b]);
                continue;
            }
            if self.style.old {
                self.byte(b);
                continue;
            }
            match b {
                0x07 => self.text("\\a"),
                0x08 => self.text("\\b"),
                0x0C => self.text("\\f"),
                b'\n' => self.text("\\n"),
                b'\r' => self.text("\\r"),
                b'\t' => self.text("\\t"),
                0x0B => self.text("\\v"),
                b'\\' => self.text("\\\\"),
                b' '..=b'~' => self.byte(b),
                _ => {
                    self.out.extend_from_slice(&[
                        b'\\',
                        b'0' + (b >> 6),
                        b'0' + (b >> 3 & 7),
                        b'0' + (b & 7),
                    ]);
                }
            }
        }
    }

    /// Writes `name = value` and ends the line.
    pub fn line_of(&mut self, name: &[u8], expr: &Expr) {
        self.name(name);
        self.text(" = ");
        self.expr(expr);
        self.text("\n");
    }

    /// Writes an attribute name, quoted where it must be.
    pub fn name(&mut self, name: &[u8]) {
        if is_plain_name(name) {
            self.out.extend_from_slice(name);
        } else {
            self.string(name, b'\'');
        }
    }
}

/// Whether a name can be written without quotes.
#[must_use]
pub fn is_plain_name(name: &[u8]) -> bool {
    const RESERVED: [&str; 7] = [
        "error",
        "false",
        "is",
        "isnt",
        "parent",
        "true",
        "undefined",
    ];
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    name.first().is_some_and(|b| word(b) && !b.is_ascii_digit())
        && name.iter().all(word)
        && !RESERVED
            .iter()
            .any(|r| r.as_bytes().eq_ignore_ascii_case(name))
}
