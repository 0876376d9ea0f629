//! What is known of an expression without evaluating it: which attributes it reads, and its identity.

use crate::ad::Ad;
use crate::expr::{Expr, Side};
use crate::name::{Name, Special};
use crate::parser::{Syntax, parse_computed};
use crate::value::Value;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// The attributes an expression reads, in the order first met.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// Those of the ad the expression belongs to.
    pub my: Vec<Name>,
    /// Those of the other ad.
    pub target: Vec<Name>,
    /// Names without a scope word, looked up in MY first and then (normal mode) in TARGET. Empty when
    /// the ad is known: then each was put where it is found.
    pub bare: Vec<Name>,
    /// It also reads what cannot be told from its text: `eval` of something computed.
    pub opaque: bool,
}

fn note(names: &mut Vec<Name>, name: &Name) -> bool {
    if names.contains(name) {
        return false;
    }
    names.push(name.clone());
    true
}

struct Walk<'a> {
    reads: Reads,
    my: Option<&'a Ad>,
    /// Names that nested ads around define.
    inner: Vec<&'a Ad>,
    depth: usize,
}

/// The attributes `expr` itself names.
#[must_use]
pub fn reads(expr: &Expr) -> Reads {
    let mut walk = Walk {
        reads: Reads::default(),
        my: None,
        inner: Vec::new(),
        depth: 0,
    };
    walk.visit(expr);
    walk.reads
}

/// The attributes `expr` reads when it belongs to `my`, those of the definitions it uses included. A name
/// without scope word that `my` lacks counts as TARGET's.
#[must_use]
pub fn reads_in(expr: &Expr, my: &Ad) -> Reads {
    let mut walk = Walk {
        reads: Reads::default(),
        my: Some(my),
        inner: Vec::new(),
        depth: 0,
    };
    walk.visit(expr);
    walk.reads
}

/// How deep definitions are followed.
const MAX_DEPTH: usize = 400;

impl Walk<'_> {
    fn visit(&mut self, expr: &Expr) {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            self.step(expr);
        } else {
            self.reads.opaque = true;
        }
        self.depth -= 1;
    }

    fn my_name(&mut self, name: &Name) {
        if note(&mut self.reads.my, name)
            && let Some(definition) = self.my.and_then(|my| my.get(name))
        {
            let inner = std::mem::take(&mut self.inner);
            self.visit(definition);
            self.inner = inner;
        }
    }

    fn bare_name(&mut self, name: &Name) {
        let scope_word = name.special().is_some_and(|s| s != Special::Ad);
        if scope_word || self.inner.iter().any(|ad| ad.contains(name)) {
            return;
        }
        match self.my {
            None => {
                note(&mut self.reads.bare, name);
            }
            Some(my) if my.contains(name) => self.my_name(name),
            Some(_) => {
                note(&mut self.reads.target, name);
            }
        }
    }

    fn step(&mut self, expr: &Expr) {
        match expr {
            Expr::Lit(_) | Expr::AbsAttr(_) => {}
            Expr::Attr(name) => self.bare_name(name),
            Expr::Select(sel) => match expr.as_reference() {
                Some((Side::My, name)) => self.my_name(name),
                Some((Side::Target, name)) => {
                    note(&mut self.reads.target, name);
                }
                _ => self.visit(&sel.base),
            },
            Expr::Unary(u) => self.visit(&u.arg),
            Expr::Binary(_) => {
                // Long chains lean to the left; go down them without recursing.
                let mut left = expr;
                let mut rights = Vec::new();
                while let Expr::Binary(b) = left {
                    rights.push(&b.right);
                    left = &b.left;
                }
                self.visit(left);
                for right in rights.into_iter().rev() {
                    self.visit(right);
                }
            }
            Expr::Ternary(t) => {
                self.visit(&t.cond);
                self.visit(&t.then);
                self.visit(&t.other);
            }
            Expr::Elvis(pair) | Expr::Subscript(pair) => {
                self.visit(&pair.0);
                self.visit(&pair.1);
            }
            Expr::Paren(inner) => self.visit(inner),
            Expr::Call(call) => {
                if call.name.is("eval") {
                    self.text_argument(call.args.first());
                }
                for arg in &call.args {
                    self.visit(arg);
                }
            }
            Expr::List(items) => items.iter().for_each(|item| self.visit(item)),
            Expr::Ad(ad) => self.nested(ad),
        }
    }

    fn nested(&mut self, ad: &Ad) {
        let mut walk = Walk {
            reads: std::mem::take(&mut self.reads),
            my: self.my,
            inner: self.inner.clone(),
            depth: self.depth,
        };
        walk.inner.push(ad);
        for (_, expr) in ad {
            walk.visit(expr);
        }
        self.reads = walk.reads;
    }

    fn text_argument(&mut self, arg: Option<&Expr>) {
        match arg.map(Expr::unparen) {
            Some(Expr::Lit(Value::Str(text))) => {
                if let Ok(expr) = parse_computed(text.as_bytes(), Syntax::NORMAL) {
                    self.visit(&expr);
                }
            }
            _ => self.reads.opaque = true,
        }
    }
}

/// A hash that expressions share which differ only in the case of names and in parentheses. The same in
/// every process and on every machine.
#[must_use]
pub fn canonical_hash(expr: &Expr) -> u64 {
    let mut hasher = FxHasher::default();
    hash_into(expr, &mut hasher);
    hasher.finish()
}

fn hash_name(name: &Name, h: &mut FxHasher) {
    for b in name.as_bytes() {
        h.write_u8(b.to_ascii_lowercase());
    }
    h.write_u8(0xFF);
}

fn hash_value(value: &Value, h: &mut FxHasher) {
    h.write_u8(value.kind() as u8);
    match value {
        Value::Bool(b) => h.write_u8(u8::from(*b)),
        Value::Int(i) => h.write_u64(*i as u64),
        Value::Real(r) | Value::RelTime(r) => h.write_u64(r.to_bits()),
        Value::Str(s) => {
            h.write_u64(s.as_bytes().len() as u64);
            for b in s.as_bytes() {
                h.write_u8(*b);
            }
        }
        Value::AbsTime(t) => {
            h.write_u64(t.secs as u64);
            h.write_u32(t.offset_s as u32);
        }
        _ => {}
    }
}

fn hash_into(expr: &Expr, h: &mut FxHasher) {
    let expr = expr.unparen();
    let tag = |h: &mut FxHasher, t: u8, n: usize| {
        h.write_u8(t);
        h.write_u64(n as u64);
    };
    match expr {
        Expr::Lit(value) => hash_value(value, h),
        Expr::Attr(name) => {
            tag(h, 20, 0);
            hash_name(name, h);
        }
        Expr::AbsAttr(name) => {
            tag(h, 21, 0);
            hash_name(name, h);
        }
        Expr::Select(sel) => {
            tag(h, 22, 0);
            hash_into(&sel.base, h);
            hash_name(&sel.attr, h);
        }
        Expr::Unary(u) => {
            tag(h, 23, u.op as usize);
            hash_into(&u.arg, h);
        }
        Expr::Binary(b) => {
            tag(h, 24, b.op as usize);
            hash_into(&b.left, h);
            hash_into(&b.right, h);
        }
        Expr::Ternary(t) => {
            tag(h, 25, 3);
            for part in [&t.cond, &t.then, &t.other] {
                hash_into(part, h);
            }
        }
        Expr::Elvis(pair) | Expr::Subscript(pair) => {
            tag(
                h,
                if matches!(expr, Expr::Elvis(_)) {
                    26
                } else {
                    27
                },
                2,
            );
            hash_into(&pair.0, h);
            hash_into(&pair.1, h);
        }
        Expr::Call(call) => {
            tag(h, 28, call.args.len());
            hash_name(&call.name, h);
            call.args.iter().for_each(|arg| hash_into(arg, h));
        }
        Expr::List(items) => {
            tag(h, 29, items.len());
            items.iter().for_each(|item| hash_into(item, h));
        }
        Expr::Ad(ad) => {
            tag(h, 30, ad.len());
            for (name, expr) in ad.sorted() {
                hash_name(name, h);
                hash_into(expr, h);
            }
        }
        Expr::Paren(_) => {}
    }
}
