//! Expressions lowered to programs over columns.
//!
//! A [`Program`] computes one expression for many tuples of column values at once: a list of operations on
//! numbered registers, each register a vector with one value a tuple. The job's attributes are constants;
//! attributes whose definition is an expression are put in place of their names. What depends on nothing
//! but constants is computed here, by the same code that runs later.
//!
//! Only what is certain to mean the same is lowered; for everything else `lower` gives none, and the plain
//! evaluator takes over.

use classad::builtins::{Body, Builtin};
use classad::{Ad, BinaryOp, Expr, Name, Side, UnaryOp, Value};

use crate::cell::ExprId;
use crate::matcher::Owner;
use crate::table::{AdTable, ColumnId};
use crate::word::{Val, apply_binary, apply_call, apply_unary, elvis, select};

/// Registers of a program; more than this is left to the plain evaluator.
const REGISTERS_MAX: usize = 200;
/// Half of the nesting that the plain evaluator bears: below it, nothing breaks off.
const DEPTH_MAX: u32 = 180;

/// A register or a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Const(Val),
    Reg(u16),
}

/// One step; it writes the register with its own number.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// The value in a column of the tuple.
    Load(u16),
    /// The same, or the operand where the attribute is missing.
    LoadOr(u16, Operand),
    Unary(UnaryOp, Operand),
    Binary(BinaryOp, Operand, Operand),
    /// `a ? b : c`
    Select(Operand, Operand, Operand),
    /// `a ?: b`
    Elvis(Operand, Operand),
    Call(Builtin, Box<[Operand]>),
}

/// See the module text.
#[derive(Debug)]
pub(crate) struct Program {
    pub ops: Vec<Op>,
    /// Values that are no plain words: strings that no ad of the table has.
    pub others: Vec<Value>,
    pub result: Operand,
}

/// For whom an expression is lowered.
pub(crate) struct Lowering<'a> {
    pub table: &'a AdTable,
    pub job: Option<&'a Ad>,
    pub strict: bool,
    /// The columns of a tuple, in order.
    pub columns: &'a [ColumnId],
    /// The definition of each column's attribute, where it is an expression.
    pub definitions: &'a [Option<ExprId>],
}

struct Builder<'a> {
    given: &'a Lowering<'a>,
    program: Program,
    /// Definitions being put in place: a name that leads back to one is left to the evaluator.
    open: Vec<(Owner, Name)>,
    depth: u32,
}

impl Lowering<'_> {
    /// The program of an expression of `owner`'s ad.
    pub fn lower(&self, expr: &Expr, owner: Owner) -> Option<Program> {
        let mut builder = Builder {
            given: self,
            program: Program {
                ops: Vec::new(),
                others: Vec::new(),
                result: Operand::Const(Val::Undefined),
            },
            open: Vec::new(),
            depth: 0,
        };
        builder.program.result = builder.expr(expr, owner)?;
        Some(builder.program)
    }
}

/// Functions that evaluate their arguments themselves, yet only once each and without looking at how
/// they are written: they can be called with values.
const BY_VALUE: [&str; 4] = ["strcat", "ifThenElse", "quantize", "stringListsIntersect"];

/// Whether a function may be called with values.
fn callable(builtin: Builtin) -> bool {
    let spec = builtin.spec();
    spec.steady && (matches!(spec.body, Body::Pure(_)) || BY_VALUE.contains(&spec.name))
}

impl Builder<'_> {
    fn expr(&mut self, expr: &Expr, owner: Owner) -> Option<Operand> {
        self.depth += 1;
        let lowered = if self.depth > DEPTH_MAX {
            None
        } else {
            self.node(expr, owner)
        };
        self.depth -= 1;
        lowered
    }

    fn node(&mut self, expr: &Expr, owner: Owner) -> Option<Operand> {
        match expr {
            Expr::Lit(value) => self.literal(value),
            Expr::Paren(inner) => self.expr(inner, owner),
            Expr::Attr(_) | Expr::Select(_) => {
                let (side, name) = expr.as_reference()?;
                self.reference(side, name, owner)
            }
            Expr::Unary(unary) => {
                let arg = self.expr(&unary.arg, owner)?;
                if let Operand::Const(value) = arg {
                    let made =
                        apply_unary(self.given.table, &mut self.program.others, unary.op, value)?;
                    return Some(Operand::Const(made));
                }
                self.push(Op::Unary(unary.op, arg))
            }
            Expr::Binary(binary) => {
                let left = self.expr(&binary.left, owner)?;
                let right = self.expr(&binary.right, owner)?;
                if let (Operand::Const(a), Operand::Const(b)) = (left, right) {
                    let made =
                        apply_binary(self.given.table, &mut self.program.others, binary.op, a, b)?;
                    return Some(Operand::Const(made));
                }
                if let (BinaryOp::And | BinaryOp::Or, Operand::Const(a)) = (binary.op, left)
                    && a.decides(binary.op)
                {
                    return Some(left.as_decided(binary.op));
                }
                self.push(Op::Binary(binary.op, left, right))
            }
            Expr::Ternary(ternary) => {
                let cond = self.expr(&ternary.cond, owner)?;
                if let Operand::Const(cond) = cond {
                    return match cond.truth() {
                        Some(true) => self.expr(&ternary.then, owner),
                        Some(false) => self.expr(&ternary.other, owner),
                        None => Some(Operand::Const(select(cond, Val::Undefined, Val::Undefined))),
                    };
                }
                let then = self.expr(&ternary.then, owner)?;
                let other = self.expr(&ternary.other, owner)?;
                self.push(Op::Select(cond, then, other))
            }
            Expr::Elvis(pair) => {
                let first = self.expr(&pair.0, owner)?;
                match first {
                    Operand::Const(Val::Undefined) => self.expr(&pair.1, owner),
                    Operand::Const(value) => Some(Operand::Const(elvis(value, Val::Undefined))),
                    Operand::Reg(_) => {
                        let second = self.expr(&pair.1, owner)?;
                        self.push(Op::Elvis(first, second))
                    }
                }
            }
            Expr::Call(call) => {
                let builtin = call.builtin.filter(|builtin| callable(*builtin))?;
                if !builtin.takes(call.args.len()) {
                    return Some(Operand::Const(Val::Error));
                }
                let args: Option<Vec<Operand>> =
                    call.args.iter().map(|arg| self.expr(arg, owner)).collect();
                let args = args?;
                let known: Option<Vec<Val>> = args
                    .iter()
                    .map(|arg| match arg {
                        Operand::Const(value) => Some(*value),
                        Operand::Reg(_) => None,
                    })
                    .collect();
                if let Some(known) = known {
                    let made =
                        apply_call(self.given.table, &mut self.program.others, builtin, &known)?;
                    return Some(Operand::Const(made));
                }
                self.push(Op::Call(builtin, args.into()))
            }
            Expr::AbsAttr(_) | Expr::Subscript(_) | Expr::List(_) | Expr::Ad(_) => None,
        }
    }

    fn push(&mut self, op: Op) -> Option<Operand> {
        if self.program.ops.len() >= REGISTERS_MAX {
            return None;
        }
        self.program.ops.push(op);
        Some(Operand::Reg((self.program.ops.len() - 1) as u16))
    }

    fn literal(&mut self, value: &Value) -> Option<Operand> {
        Val::of(self.given.table, &mut self.program.others, value).map(Operand::Const)
    }

    fn reference(&mut self, side: Side, name: &Name, owner: Owner) -> Option<Operand> {
        if name.special().is_some() || (side != Side::Bare && self.shadowed(side, owner)) {
            return None;
        }
        let other = match owner {
            Owner::Job => Owner::Slot,
            Owner::Slot => Owner::Job,
        };
        match side {
            Side::My => self.attribute(owner, name, None),
            Side::Target => self.attribute(other, name, None),
            Side::Bare => {
                let strict = self.given.strict || self.given.job.is_none();
                self.attribute(owner, name, (!strict).then_some(other))
            }
        }
    }

    /// Whether the scope word may be an attribute's name here, or mean nothing.
    fn shadowed(&self, side: Side, owner: Owner) -> bool {
        let words: &[&str] = if side == Side::My {
            &["MY"]
        } else {
            &["TARGET", "other"]
        };
        let Some(job) = self.given.job else {
            return true;
        };
        words.iter().any(|word| match owner {
            Owner::Job => job.get_str(word).is_some(),
            Owner::Slot => self.given.table.column_named(word).is_some(),
        })
    }

    /// The attribute of one ad, or of the ad `then` where it is missing.
    fn attribute(&mut self, owner: Owner, name: &Name, then: Option<Owner>) -> Option<Operand> {
        match owner {
            Owner::Job => match self.given.job.and_then(|job| job.get(name)) {
                Some(Expr::Lit(value)) => self.literal(value),
                Some(expr) => self.in_place(Owner::Job, name, &expr.clone()),
                None => self.elsewhere(name, then),
            },
            Owner::Slot => {
                let column = self.given.table.column_id(name);
                let place =
                    column.and_then(|id| self.given.columns.iter().position(|known| *known == id));
                let Some(place) = place else {
                    // A column that is not among those that count: no row has the attribute.
                    return if column.is_none() {
                        self.elsewhere(name, then)
                    } else {
                        None
                    };
                };
                if let Some(id) = self.given.definitions[place] {
                    return self.in_place(
                        Owner::Slot,
                        name,
                        &self.given.table.exprs().get(id).clone(),
                    );
                }
                match self.elsewhere(name, then)? {
                    Operand::Const(Val::Undefined) => self.push(Op::Load(place as u16)),
                    other => self.push(Op::LoadOr(place as u16, other)),
                }
            }
        }
    }

    fn elsewhere(&mut self, name: &Name, then: Option<Owner>) -> Option<Operand> {
        match then {
            Some(owner) => self.attribute(owner, name, None),
            None => Some(Operand::Const(Val::Undefined)),
        }
    }

    /// A definition in place of its name.
    fn in_place(&mut self, owner: Owner, name: &Name, expr: &Expr) -> Option<Operand> {
        let key = (owner, name.clone());
        if self.open.contains(&key) {
            return None;
        }
        self.open.push(key);
        let lowered = self.expr(expr, owner);
        self.open.pop();
        lowered
    }
}

impl Operand {
    /// The result of `&&` or `||` that its left side decides.
    fn as_decided(self, op: BinaryOp) -> Operand {
        match self {
            Operand::Const(Val::Error) => self,
            _ => Operand::Const(Val::Bool(op == BinaryOp::Or)),
        }
    }
}
