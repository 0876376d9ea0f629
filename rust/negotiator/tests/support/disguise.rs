//! The same pool with attributes that are read without being named.

use super::Case;
use classad::{Ad, Expr, Syntax, parse_expr, unparse_text};
use columns::AdTable;
use testkit::mix;

/// Knobs that hold expressions over slots and jobs.
const EXPRESSIONS: [&str; 6] = [
    "PREEMPTION_REQUIREMENTS",
    "PREEMPTION_RANK",
    "NEGOTIATOR_PRE_JOB_RANK",
    "NEGOTIATOR_POST_JOB_RANK",
    "NEGOTIATOR_SLOT_CONSTRAINT",
    "SLOT_WEIGHT",
];

/// What may be disguised.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Where {
    Slots,
    Jobs,
    Knobs,
}

/// References replaced by other ways to read the same; equal expressions by the same.
struct Disguise {
    seed: u64,
    state: u64,
}

impl Disguise {
    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(1);
        mix(self.state, 77) % below
    }

    fn reference(&mut self, scope: Option<&str>, name: &str) -> String {
        let (first, rest) = name.split_at(1);
        let spelled = match self.draw(3) {
            0 => format!("\"{name}\""),
            1 => format!("strcat(\"{first}\", \"{rest}\")"),
            // Nothing that is known before it is evaluated.
            _ => format!("strcat(\"{first}\", NoSuchAttribute ?: \"{rest}\")"),
        };
        let Some(scope) = scope else {
            return format!("eval({spelled})");
        };
        match self.draw(5) {
            0 => format!("{scope}.{name}"),
            1 => format!("{scope}[{spelled}]"),
            2 => format!("eval(strcat(\"{scope}.\", {spelled}))"),
            3 => format!("ifThenElse(NoSuchAttribute is undefined, {scope}, MY).{name}"),
            _ => format!("eval(\"{scope}\").{name}"),
        }
    }

    fn text(&mut self, expr: &Expr) -> String {
        if self.draw(4) == 0 {
            return unparse_text(expr);
        }
        if let Expr::Select(select) = expr
            && let Expr::Attr(scope) = &select.base
        {
            return self.reference(Some(&scope.to_text()), &select.attr.to_text());
        }
        match expr {
            Expr::Attr(name) if name.special().is_none() => self.reference(None, &name.to_text()),
            Expr::Paren(inner) => format!("({})", self.text(inner)),
            Expr::Binary(b) => {
                let (left, right) = (self.text(&b.left), self.text(&b.right));
                format!("({left}) {} ({right})", b.op.symbol())
            }
            Expr::Call(call) if !call.name.is("eval") => {
                let args: Vec<String> = call.args.iter().map(|arg| self.text(arg)).collect();
                format!("{}({})", call.name, args.join(", "))
            }
            other => unparse_text(other),
        }
    }

    fn expr(&mut self, expr: &Expr) -> Expr {
        self.state = self.seed ^ classad::identity::canonical_hash(expr);
        let text = self.text(expr);
        parse_expr(text.as_bytes(), Syntax::NORMAL).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn ad(&mut self, ad: &Ad, names: &[&str]) -> Ad {
        ad.iter()
            .map(|(name, expr)| {
                let known = names.iter().any(|other| name.is(other));
                let expr = match expr {
                    Expr::Lit(_) => expr.clone(),
                    expr if known => self.expr(expr),
                    expr => expr.clone(),
                };
                (name.clone(), expr)
            })
            .collect()
    }

    fn table(&mut self, table: &AdTable, names: &[&str]) -> AdTable {
        let mut out = AdTable::new();
        for row in table.rows() {
            let ad = self.ad(&table.ad(row), names);
            out.upsert(table.key(row), &ad, 0.0).expect("a good ad");
        }
        out
    }
}

impl Case {
    /// The same pool, with some references replaced by others that read the same.
    pub fn disguised(&self, seed: u64, places: &[Where]) -> Case {
        let mut disguise = Disguise { seed, state: seed };
        let mut out = self.clone();
        if places.contains(&Where::Slots) {
            out.slots = disguise.table(&self.slots, &["Requirements", "Rank", "SlotWeight"]);
        }
        if places.contains(&Where::Jobs) {
            out.jobs = disguise.table(&self.jobs, &["Requirements", "Rank"]);
        }
        if places.contains(&Where::Knobs) {
            for name in EXPRESSIONS {
                if let Some(text) = self.knobs.get(name) {
                    let expr = parse_expr(text.as_bytes(), Syntax::NORMAL).expect("a good knob");
                    let text = disguise.text(&expr);
                    out.knobs.insert(name.to_owned(), text);
                }
            }
        }
        out
    }
}
