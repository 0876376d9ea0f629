//! Expressions lowered to programs over columns.
//!
//! A [`Program`] computes one expression for many groups of rows at once: a list of operations on numbered
//! registers, each register a vector with one value a group. The job's attributes and columns that have one
//! value in all groups asked for are constants; attributes whose definition is an expression are put in place of
//! their names. What depends on nothing but constants is computed here, by the same code that runs later, and
//! what a constant decides away is not looked at.
//!
//! Operators and functions of values are computed by the program. Everything else, and calls that read few
//! columns where there are many groups, is a *residue*: a part of the expression that the plain evaluator
//! evaluates, once for each distinct combination of the values that this part reads, and only where the rest asks
//! for it.
//!
//! A part may be taken out only if nothing around it can tell: it must not draw random numbers, not change where
//! its neighbours' names are looked up, not lead back to a definition it is in, and not be so deep that the plain
//! evaluator would break off. Where no part around it can be taken out either, `lower` gives none, and the plain
//! evaluator takes the whole.

use std::sync::Arc;

use classad::builtins::Builtin;
use classad::name::Special;
use classad::{Ad, BinaryOp, Expr, Name, Side, UnaryOp, Value, allowance};

use crate::cell::CellKind;
use crate::clause::Clause;
use crate::compute::Plain;
use crate::dependencies::Dependencies;
use crate::groups::Groups;
use crate::logic::Ask;
use crate::matcher::{DEPTH_MAX as PLAIN_DEPTH_MAX, Matcher, Owner};
use crate::register::{
    Val, apply_binary, apply_call, apply_unary, by_value, elvis, is_literal, list_of, select,
    subscript,
};
use crate::table::AdTable;

/// Registers of a program; more than this is left to the plain evaluator.
const REGISTERS_MAX: usize = 200;
/// Half of the nesting that the plain evaluator bears: below it, nothing breaks off.
const DEPTH_MAX: u32 = 180;
/// Nodes that are looked at for one program; definitions that use each other several times would make more of them than
/// anybody can wait for.
const NODES_MAX: u32 = 20_000;
/// How many times fewer distinct arguments a call must have to be computed for those alone.
const HOIST_FACTOR: usize = 4;

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
    /// `{ a, b }` as the argument of a function of its items
    List(Box<[Operand]>),
    /// `a[b]`
    Subscript(Operand, Operand),
    /// A part left to the plain evaluator, by its place in the program's list, where these conditions hold.
    Residue(u16, Box<[Guard]>),
}

/// What must be so for a part to be asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guard {
    /// The operand does not decide `&&` or `||` from the left.
    Open(BinaryOp, Operand),
    /// The operand is true (false), or is not a truth value at all.
    Chosen(bool, Operand),
    /// The operand is undefined.
    Undefined(Operand),
}

/// See [`Op::Residue`].
#[derive(Debug)]
pub(crate) struct Residue {
    pub clause: Arc<Clause>,
    pub owner: Owner,
    pub dependencies: Arc<Dependencies>,
}

/// See the module text.
#[derive(Debug)]
pub(crate) struct Program {
    pub ops: Vec<Op>,
    /// Values that are no plain words: strings that no ad of the table has, lists, times.
    pub others: Vec<Value>,
    pub residues: Vec<Residue>,
    pub result: Operand,
}

/// For whom an expression is lowered.
pub(crate) struct Lowering<'a> {
    pub matcher: &'a Matcher,
    pub table: &'a AdTable,
    pub job: Option<&'a Ad>,
    /// The groups that the program is for, ...
    pub groups: &'a Groups,
    /// ... how many of them, ...
    pub members: usize,
    /// ... and by column the value that all of those have.
    pub fixed: &'a [Option<crate::cell::Cell>],
}

struct Builder<'a> {
    given: &'a Lowering<'a>,
    program: Program,
    /// Definitions being put in place: a name that leads back to one is left to the evaluator.
    open: Vec<(Owner, Name)>,
    guards: Vec<Guard>,
    depth: u32,
    nodes: u32,
}

impl Lowering<'_> {
    /// The program of an expression of `owner`'s ad.
    pub fn lower(&self, expr: &Expr, owner: Owner) -> Option<Program> {
        let mut builder = Builder {
            given: self,
            program: Program {
                ops: Vec::new(),
                others: Vec::new(),
                residues: Vec::new(),
                result: Operand::Const(Val::Undefined),
            },
            open: Vec::new(),
            guards: Vec::new(),
            depth: 0,
            nodes: 0,
        };
        let result = builder.body(expr, owner);
        allowance::charge(i64::from(builder.nodes));
        builder.program.result = result?;
        Some(builder.program)
    }
}

/// Functions of the items of a list, whatever the list is: one that is written may be given by the values of its
/// items.
const OF_ITEMS: [&str; 9] = [
    "member",
    "identicalMember",
    "sum",
    "avg",
    "min",
    "max",
    "anyCompare",
    "allCompare",
    "regexpMember",
];

impl Builder<'_> {
    /// A whole definition, or the whole expression.
    fn body(&mut self, expr: &Expr, owner: Owner) -> Option<Operand> {
        if self.moves(expr, owner) {
            return None;
        }
        self.expr(expr, owner)
    }

    fn moves(&self, expr: &Expr, owner: Owner) -> bool {
        let matcher = self.given.matcher;
        let ask = Ask {
            table: self.given.table,
            owner,
            job: self.given.job,
        };
        !matches!(expr, Expr::Lit(_) | Expr::Attr(_))
            && matcher.moves(ask, &matcher.clauses.whole(expr))
    }

    fn expr(&mut self, expr: &Expr, owner: Owner) -> Option<Operand> {
        self.depth += 1;
        self.nodes += 1;
        let before = (
            self.program.ops.len(),
            self.program.others.len(),
            self.program.residues.len(),
        );
        let mut lowered = if self.depth > DEPTH_MAX || self.nodes > NODES_MAX {
            None
        } else {
            self.node(expr, owner)
        };
        if lowered.is_none() && self.nodes <= NODES_MAX {
            self.program.ops.truncate(before.0);
            self.program.others.truncate(before.1);
            self.program.residues.truncate(before.2);
            lowered = self.residue(expr, owner);
        }
        self.depth -= 1;
        lowered
    }

    fn guarded(&mut self, guard: Guard, expr: &Expr, owner: Owner) -> Option<Operand> {
        self.guards.push(guard);
        let lowered = self.expr(expr, owner);
        self.guards.pop();
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
                        apply_unary(self.given.table, &mut self.program.others, unary.op, value);
                    return known(made);
                }
                self.push(Op::Unary(unary.op, arg))
            }
            Expr::Binary(binary) => {
                let left = self.expr(&binary.left, owner)?;
                let right = if matches!(binary.op, BinaryOp::And | BinaryOp::Or) {
                    if let Operand::Const(a) = left
                        && a.decides(binary.op)
                    {
                        return Some(left.as_decided(binary.op));
                    }
                    self.guarded(Guard::Open(binary.op, left), &binary.right, owner)?
                } else {
                    self.expr(&binary.right, owner)?
                };
                if let (Operand::Const(a), Operand::Const(b)) = (left, right) {
                    let made =
                        apply_binary(self.given.table, &mut self.program.others, binary.op, a, b);
                    return known(made);
                }
                self.push(Op::Binary(binary.op, left, right))
            }
            Expr::Ternary(ternary) => {
                self.choice(&ternary.cond, &ternary.then, &ternary.other, owner)
            }
            Expr::Elvis(pair) => {
                let first = self.expr(&pair.0, owner)?;
                match first {
                    Operand::Const(Val::Undefined) => self.expr(&pair.1, owner),
                    Operand::Const(value) => Some(Operand::Const(elvis(value, Val::Undefined))),
                    Operand::Reg(_) => {
                        let second = self.guarded(Guard::Undefined(first), &pair.1, owner)?;
                        self.push(Op::Elvis(first, second))
                    }
                }
            }
            Expr::Call(call) => self.call(expr, call, owner),
            Expr::Subscript(pair) => {
                if let Some(side) = scope_word(&pair.0) {
                    return self.named(side, &pair.1, owner);
                }
                let base = self.expr(&pair.0, owner)?;
                let index = self.expr(&pair.1, owner)?;
                if let (Operand::Const(base), Operand::Const(index)) = (base, index) {
                    let made = subscript(self.given.table, &mut self.program.others, base, index);
                    return known(made);
                }
                self.push(Op::Subscript(base, index))
            }
            Expr::List(items) => {
                items.iter().all(is_literal).then_some(())?;
                self.literal(&Value::list(items.clone()))
            }
            Expr::AbsAttr(_) | Expr::Ad(_) => None,
        }
    }

    fn choice(&mut self, cond: &Expr, then: &Expr, other: &Expr, owner: Owner) -> Option<Operand> {
        let cond = self.expr(cond, owner)?;
        if let Operand::Const(cond) = cond {
            match cond.truth() {
                Some(true) => return self.expr(then, owner),
                Some(false) => return self.expr(other, owner),
                None if matches!(cond, Val::Undefined | Val::Error) => {
                    return Some(Operand::Const(cond));
                }
                None => {}
            }
        }
        let then = self.guarded(Guard::Chosen(true, cond), then, owner)?;
        let other = self.guarded(Guard::Chosen(false, cond), other, owner)?;
        if let (Operand::Const(cond), Operand::Const(then), Operand::Const(other)) =
            (cond, then, other)
        {
            return known(Some(select(cond, then, other)));
        }
        self.push(Op::Select(cond, then, other))
    }

    fn call(&mut self, expr: &Expr, call: &classad::expr::Call, owner: Owner) -> Option<Operand> {
        let Some(builtin) = call.builtin else {
            return Some(Operand::Const(Val::Error));
        };
        if !builtin.takes(call.args.len()) {
            return Some(Operand::Const(Val::Error));
        }
        if let [cond, then, other] = &*call.args
            && call.name.is("ifThenElse")
        {
            // Unlike `?:` it looks at neither value where the condition is not a truth value; both give error.
            return self.choice(cond, then, other, owner);
        }
        if let [text] = &*call.args
            && call.name.is("eval")
        {
            return self.eval(text, owner);
        }
        if !by_value(builtin) || self.worth_hoisting(expr, owner) {
            return None;
        }
        let of_items = OF_ITEMS.contains(&builtin.spec().name);
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(match arg {
                Expr::List(items) if of_items => self.list(items, owner)?,
                arg => self.expr(arg, owner)?,
            });
        }
        if let Some(known_args) = constants(&args) {
            let settings = self.given.matcher.settings();
            let table = self.given.table;
            let others = &mut self.program.others;
            return known(apply_call(table, others, builtin, &known_args, &settings));
        }
        self.push(Op::Call(builtin, args.into()))
    }

    /// `TARGET["name"]`
    fn named(&mut self, side: Side, index: &Expr, owner: Owner) -> Option<Operand> {
        let text = self.constant_text(index, owner)?;
        self.reference(side, &Name::new(&text), owner)
    }

    /// `eval("text")`: what the text says stands in its place.
    fn eval(&mut self, text: &Expr, owner: Owner) -> Option<Operand> {
        let text = self.constant_text(text, owner)?;
        let syntax = classad::Syntax {
            strict: self.given.matcher.settings().strict,
            ..classad::Syntax::NORMAL
        };
        match classad::parse_computed(&text, syntax) {
            Ok(expr) => self.expr(&expr, owner),
            Err(_) => Some(Operand::Const(Val::Error)),
        }
    }

    /// The text that an expression is in all groups.
    fn constant_text(&mut self, expr: &Expr, owner: Owner) -> Option<Vec<u8>> {
        let Operand::Const(value) = self.expr(expr, owner)? else {
            return None;
        };
        let value = value.value(self.given.table, &self.program.others);
        value.as_str().map(<[u8]>::to_vec)
    }

    /// A written list by the values of its items.
    fn list(&mut self, items: &[Expr], owner: Owner) -> Option<Operand> {
        let items: Option<Vec<Operand>> = items.iter().map(|item| self.expr(item, owner)).collect();
        let items = items?;
        if let Some(values) = constants(&items) {
            return known(list_of(self.given.table, &mut self.program.others, &values));
        }
        self.push(Op::List(items.into()))
    }

    /// Whether a call has so few distinct arguments that it should be computed for those alone.
    fn worth_hoisting(&self, expr: &Expr, owner: Owner) -> bool {
        if self.given.members < self.given.matcher.tuning.hoist_from {
            return false;
        }
        let (matcher, table) = (self.given.matcher, self.given.table);
        let clause = matcher.clauses.whole(expr);
        let dependencies = matcher.dependencies(table, &clause, owner, self.given.job);
        let varies = |id: &&u32| {
            self.place(**id)
                .is_some_and(|at| self.given.fixed[at].is_none())
        };
        let varying = dependencies.columns.iter().filter(varies).count();
        let all = self
            .given
            .fixed
            .iter()
            .filter(|cell| cell.is_none())
            .count();
        varying > 0
            && varying < all
            && matcher
                .predicates
                .groups(table, &dependencies.columns)
                .count()
                * HOIST_FACTOR
                <= self.given.members
    }

    fn place(&self, column: u32) -> Option<usize> {
        let columns = self.given.groups.columns();
        columns.iter().position(|known| *known == column)
    }

    /// Whether a derived column among those that count tells rows apart that this one does.
    fn is_refined(&self, column: u32) -> bool {
        let columns = self.given.groups.columns();
        let predicates = &self.given.matcher.predicates;
        columns
            .iter()
            .any(|known| predicates.refines(*known, column))
    }

    /// The expression by the plain evaluator.
    fn residue(&mut self, expr: &Expr, owner: Owner) -> Option<Operand> {
        let (matcher, table) = (self.given.matcher, self.given.table);
        if self.moves(expr, owner) {
            return None;
        }
        let clause = matcher.clauses.whole(expr);
        let dependencies = matcher.dependencies(table, &clause, owner, self.given.job);
        if dependencies.unbounded
            || dependencies.random
            || self.depth + dependencies.depth > PLAIN_DEPTH_MAX
        {
            return None;
        }
        let leads_back = self.open.iter().any(|(owner, name)| match owner {
            Owner::Slot => {
                let column = table.column_id(name);
                column
                    .is_some_and(|column| dependencies.may_read(table, &matcher.predicates, column))
            }
            Owner::Job => dependencies.job_names.contains(name),
        });
        if leads_back {
            return None;
        }
        let mut fixed = true;
        for column in &dependencies.columns {
            match self.place(*column) {
                Some(at) => fixed &= self.given.fixed[at].is_some(),
                // A column that is not among those that count: something else is not as it should be.
                None if !self.is_refined(*column) => return None,
                None => fixed = false,
            }
        }
        if fixed {
            let cell = |column: u32| {
                let at = self.place(column);
                at.and_then(|at| self.given.fixed[at])
                    .unwrap_or(crate::cell::Cell::MISSING)
            };
            let tuple: Vec<_> = dependencies
                .columns
                .iter()
                .map(|column| cell(*column))
                .collect();
            let mut plain = Plain::new(matcher, table, owner, self.given.job);
            let value = plain.part(expr, &dependencies.columns, &tuple)?;
            return known(Val::of(table, &mut self.program.others, &value));
        }
        let number = self.program.residues.len() as u16;
        self.program.residues.push(Residue {
            clause,
            owner,
            dependencies,
        });
        let guards = self.guards.clone().into();
        self.push(Op::Residue(number, guards))
    }

    fn push(&mut self, op: Op) -> Option<Operand> {
        // Columns are often named several times.
        if let Op::Load(column) = op {
            let known = |known: &Op| matches!(known, Op::Load(other) if *other == column);
            if let Some(at) = self.program.ops.iter().position(known) {
                return Some(Operand::Reg(at as u16));
            }
        }
        if self.program.ops.len() >= REGISTERS_MAX {
            return None;
        }
        self.program.ops.push(op);
        Some(Operand::Reg((self.program.ops.len() - 1) as u16))
    }

    fn literal(&mut self, value: &Value) -> Option<Operand> {
        if let Value::RelTime(seconds) = value {
            // A written relative time is a real once evaluated.
            return Some(Operand::Const(Val::Real(*seconds)));
        }
        Val::of(self.given.table, &mut self.program.others, value).map(Operand::Const)
    }

    fn reference(&mut self, side: Side, name: &Name, owner: Owner) -> Option<Operand> {
        if side == Side::Bare && name.special() == Some(Special::CurrentTime) {
            return self.current_time(name, owner);
        }
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
                let strict = self.given.matcher.settings().strict || self.given.job.is_none();
                self.attribute(owner, name, (!strict).then_some(other))
            }
        }
    }

    /// The time, unless there is an attribute of that name.
    fn current_time(&self, name: &Name, owner: Owner) -> Option<Operand> {
        let settings = self.given.matcher.settings();
        let here = match owner {
            Owner::Job => self.given.job.is_some_and(|job| job.contains(name)),
            Owner::Slot => self.given.table.column_id(name).is_some(),
        };
        (!here && !settings.strict).then_some(Operand::Const(Val::Int(settings.now)))
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
                let table = self.given.table;
                let Some(column) = table.column_id(name) else {
                    return self.elsewhere(name, then);
                };
                let place = self.place(column)?;
                if let Some(cell) = self.given.fixed[place] {
                    return match cell.kind() {
                        CellKind::Missing => self.elsewhere(name, then),
                        CellKind::Expr(id) => {
                            self.in_place(Owner::Slot, name, &table.exprs().get(id).clone())
                        }
                        _ => Some(Operand::Const(Val::of_cell(table, cell))),
                    };
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
        let lowered = self.body(expr, owner);
        self.open.pop();
        lowered
    }
}

/// The ad that an expression is, if it is one's scope word.
fn scope_word(expr: &Expr) -> Option<Side> {
    match expr.unparen() {
        Expr::Attr(word) if word.is("MY") => Some(Side::My),
        Expr::Attr(word) if word.is("TARGET") || word.is("other") => Some(Side::Target),
        _ => None,
    }
}

/// A constant, unless only the plain evaluator knows it.
fn known(made: Option<Val>) -> Option<Operand> {
    made.filter(|value| *value != Val::Unknown)
        .map(Operand::Const)
}

/// The values of operands that are all constants.
fn constants(operands: &[Operand]) -> Option<Vec<Val>> {
    operands
        .iter()
        .map(|operand| match operand {
            Operand::Const(value) => Some(*value),
            Operand::Reg(_) => None,
        })
        .collect()
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
