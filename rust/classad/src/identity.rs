//! The identity of an expression: what it has in common with others that mean the same.

use crate::expr::Expr;
use crate::name::Name;
use crate::value::Value;
use rustc_hash::FxHasher;
use std::hash::Hasher;

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
