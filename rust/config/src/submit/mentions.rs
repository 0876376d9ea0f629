//! Which attributes an expression mentions of its own ad and of the other one.

use classad::{Expr, Side};
use rustc_hash::FxHashSet;

/// Lower-case names.
#[derive(Debug, Default)]
pub struct Mentions {
    /// `MY.x`.
    pub my: FxHashSet<String>,
    /// `TARGET.x`, and bare names that the own ad does not have.
    pub target: FxHashSet<String>,
}

impl Mentions {
    /// Whether the other ad's attribute is mentioned.
    #[must_use]
    pub fn of_target(&self, name: &str) -> bool {
        self.target.contains(&name.to_ascii_lowercase())
    }
}

/// Walks an expression. `own` are names (lower case) that count as the own ad's when bare.
#[must_use]
pub fn of(expr: &Expr, own: &[&str]) -> Mentions {
    let mut found = Mentions::default();
    walk(expr, own, &mut found);
    found
}

fn walk(expr: &Expr, own: &[&str], found: &mut Mentions) {
    if let Some((side, name)) = expr.as_reference() {
        let name = name.to_text().to_ascii_lowercase();
        match side {
            Side::My => found.my.insert(name),
            Side::Target => found.target.insert(name),
            Side::Bare if own.contains(&name.as_str()) => found.my.insert(name),
            Side::Bare => found.target.insert(name),
        };
        return;
    }
    match expr {
        Expr::Lit(_) | Expr::Attr(_) | Expr::AbsAttr(_) => {}
        Expr::Select(select) => walk(&select.base, own, found),
        Expr::Unary(unary) => walk(&unary.arg, own, found),
        Expr::Binary(binary) => {
            walk(&binary.left, own, found);
            walk(&binary.right, own, found);
        }
        Expr::Ternary(ternary) => {
            walk(&ternary.cond, own, found);
            walk(&ternary.then, own, found);
            walk(&ternary.other, own, found);
        }
        Expr::Elvis(pair) | Expr::Subscript(pair) => {
            walk(&pair.0, own, found);
            walk(&pair.1, own, found);
        }
        Expr::Paren(inner) => walk(inner, own, found),
        Expr::Call(call) => call.args.iter().for_each(|arg| walk(arg, own, found)),
        Expr::List(items) => items.iter().for_each(|item| walk(item, own, found)),
        Expr::Ad(ad) => ad.iter().for_each(|(_, value)| walk(value, own, found)),
    }
}
