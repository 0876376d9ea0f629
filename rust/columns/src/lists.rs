//! Lists of names, followed row by row.
//!
//! HTCondor advertises each GPU as an attribute that is named after the device, and `AvailableGPUs` as the list of those
//! names. Such an attribute has another definition in every ad, and together they lead to more attributes than anything
//! else in the table, each of which one ad has. So an expression that reads it is not taken to read all of them: of each
//! row only what that row's own definition leads to counts ([`Listed`]). A [`Derived`] column numbers the rows by that,
//! and stands among the columns that an expression reads like any other; its cells are such numbers.
//!
//! Where an expression uses the list only to evaluate something in each of its ads (`countMatches(RequireGPUs,
//! AvailableGPUs)`), what the devices are called and what nobody asks of them (their ids) makes no difference. Rows then
//! have one number if their devices agree in what is asked: the names are replaced by numbers in order, and the ads hold
//! only what may be read of them. Names that somebody else may mean are not touched: see [`Following::derived`].

use std::ops::Range;
use std::sync::Arc;

use classad::analysis::Reads;
use classad::{Ad, Expr, Name, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cell::{Cell, CellKind, ExprId};
use crate::clause::{Clause, ClauseCache};
use crate::dependencies::evaluation_depth;
use crate::groups::Cells;
use crate::predicate_cache::PredicateCache;
use crate::table::{AdTable, ColumnId, Row};

/// The first number of a derived column.
pub(crate) const FIRST_DERIVED: ColumnId = 1 << 31;
/// Names that the lists of an attribute must mention for them to be followed row by row.
const NAMES_FROM: usize = 32;

/// How an expression uses names, besides what it reads.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// Names used otherwise than as the list of contexts of `countMatches` and `evalInEachContext`.
    valued: FxHashSet<Name>,
    /// Attributes of ads written in it.
    written: FxHashSet<Name>,
    /// It may use names that it does not show (`eval`, subscripts).
    hidden: bool,
}

impl Uses {
    /// The uses of an expression.
    pub fn of(expr: &Expr) -> Self {
        let mut uses = Uses::default();
        uses.walk(expr);
        uses
    }

    fn walk(&mut self, expr: &Expr) {
        match expr {
            Expr::Lit(Value::List(_) | Value::Ad(_)) => self.hidden = true,
            Expr::Lit(_) => {}
            Expr::Attr(name) | Expr::AbsAttr(name) => {
                self.valued.insert(name.clone());
            }
            Expr::Select(select) => {
                self.valued.insert(select.attr.clone());
                self.walk(&select.base);
            }
            Expr::Unary(unary) => self.walk(&unary.arg),
            Expr::Binary(binary) => {
                self.walk(&binary.left);
                self.walk(&binary.right);
            }
            Expr::Ternary(ternary) => {
                self.walk(&ternary.cond);
                self.walk(&ternary.then);
                self.walk(&ternary.other);
            }
            Expr::Elvis(pair) => {
                self.walk(&pair.0);
                self.walk(&pair.1);
            }
            Expr::Subscript(_) => self.hidden = true,
            Expr::Paren(inner) => self.walk(inner),
            Expr::Call(call) => {
                self.hidden |= call.name.is("eval");
                let contexts = call.name.is("countMatches") || call.name.is("evalInEachContext");
                match &*call.args {
                    [each, list] if contexts && list.as_reference().is_some() => self.walk(each),
                    args => args.iter().for_each(|arg| self.walk(arg)),
                }
            }
            Expr::List(items) => items.iter().for_each(|item| self.walk(item)),
            Expr::Ad(ad) => {
                for (name, expr) in ad.iter() {
                    self.written.insert(name.clone());
                    self.walk(expr);
                }
            }
        }
    }
}

/// What the definitions of one attribute lead to, row by row.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    column: ColumnId,
    /// The attribute and those it leads to, as far as the row has them.
    rows: Vec<Box<[(ColumnId, Cell)]>>,
    /// Every name met on the way, had by a row or not; some may not be met any more.
    names: FxHashSet<Name>,
    /// Attributes of the nested ads that it leads to.
    items: FxHashSet<Name>,
    /// What evaluating them means besides reading.
    flags: Reads,
    /// Those of the names whose definition may be taken rather than their value.
    dereferenced: FxHashSet<Name>,
    /// How deep evaluation can go at most.
    pub depth: u32,
    /// Names when all rows were last looked at.
    built_names: usize,
}

/// The names in an ad that holds nothing but literals.
fn literal_ad(expr: &Expr) -> Option<&Ad> {
    let Expr::Ad(ad) = expr else { return None };
    let literal = |(_, expr): &(Name, Expr)| matches!(expr, Expr::Lit(_));
    ad.iter().all(literal).then_some(ad)
}

impl Listed {
    fn new(table: &AdTable, column: ColumnId, clauses: &ClauseCache) -> Self {
        let mut listed = Listed {
            column,
            rows: Vec::new(),
            names: FxHashSet::default(),
            items: FxHashSet::default(),
            flags: Reads::default(),
            dereferenced: FxHashSet::default(),
            depth: 0,
            built_names: 0,
        };
        listed.rows.resize(table.row_end(), Box::default());
        for row in table.rows() {
            listed.follow(table, row, clauses);
        }
        listed.built_names = listed.names.len();
        listed
    }

    /// Looks at a row again.
    fn follow(&mut self, table: &AdTable, row: Row, clauses: &ClauseCache) {
        let mut found = Vec::new();
        let start = table.cell(row, self.column);
        if !start.is_missing() {
            found.push((self.column, start));
        }
        let mut seen: FxHashSet<ColumnId> = FxHashSet::default();
        seen.insert(self.column);
        let (mut at, mut depth, mut deepest_ad) = (0, 0u32, 0);
        while let Some((_, cell)) = found.get(at).copied() {
            at += 1;
            let Some(id) = cell.expr_id() else { continue };
            if let Some(ad) = literal_ad(table.exprs().get(id)) {
                for (name, _) in ad.iter() {
                    if !self.items.contains(name) {
                        self.items.insert(name.clone());
                    }
                }
                // Ads of literals do not use each other.
                deepest_ad = 8;
                continue;
            }
            let clause = clauses.pooled(table, id);
            depth = depth.saturating_add(evaluation_depth(&clause));
            let reads = &clause.reads;
            self.flags.unbounded |= reads.unbounded;
            self.flags.volatile |= reads.volatile;
            self.flags.random |= reads.random;
            self.flags.moves |= reads.moves;
            self.dereferenced.extend(reads.dereferenced.iter().cloned());
            for name in reads.names().chain(&reads.scope_words) {
                if !self.names.contains(name) {
                    self.names.insert(name.clone());
                }
                let Some(column) = table.column_id(name) else {
                    continue;
                };
                if !seen.insert(column) {
                    continue;
                }
                let cell = table.cell(row, column);
                if !cell.is_missing() {
                    found.push((column, cell));
                }
            }
        }
        self.depth = self.depth.max(depth.saturating_add(deepest_ad));
        self.rows[row as usize] = found.into();
    }

    /// Whether the attribute with this name may be read on the way.
    pub fn reads(&self, name: &Name) -> bool {
        self.names.contains(name)
    }

    /// The attributes of a job that may be read on the way.
    fn names_in(&self, job: Option<&Ad>) -> Vec<Name> {
        let names = job.into_iter().flat_map(Ad::iter).map(|(name, _)| name);
        names
            .filter(|name| self.names.contains(*name))
            .cloned()
            .collect()
    }

    /// Whether what is read on the way depends on which attributes a job has.
    pub fn touches(&self, job: Option<&Ad>) -> bool {
        let mut names = job.into_iter().flat_map(Ad::iter);
        names.any(|(name, _)| self.names.contains(name) || is_number(name))
    }

    /// What an expression mentions by using the attribute.
    pub fn as_reads(&self, job: Option<&Ad>) -> Reads {
        let either = self.names_in(job);
        let taken = |name: &&Name| self.dereferenced.contains(*name);
        Reads {
            dereferenced: either.iter().filter(taken).cloned().collect(),
            either,
            ..self.flags.clone()
        }
    }

    /// Takes in changed cells; gives the rows that lead to something else now.
    fn refresh(
        &mut self,
        table: &AdTable,
        changed: &[(Row, ColumnId)],
        whole_row: ColumnId,
        clauses: &ClauseCache,
    ) -> Vec<Row> {
        self.rows.resize(table.row_end(), Box::default());
        let mut rows: Vec<Row> = Vec::new();
        for (row, column) in changed {
            let concerned = *column == whole_row
                || *column == self.column
                || self.names.contains(table.column_name(*column));
            if concerned && table.live().get(*row as usize) {
                rows.push(*row);
            }
        }
        rows.sort_unstable();
        rows.dedup();
        rows.retain(|row| {
            let before = std::mem::take(&mut self.rows[*row as usize]);
            self.follow(table, *row, clauses);
            self.rows[*row as usize] != before
        });
        rows
    }
}

/// How a derived column tells rows apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Telling {
    /// The attribute that is followed.
    listed: ColumnId,
    /// The attributes of its ads that count, ascending, if it is used for their sake alone; all that it leads to, names
    /// included, without.
    kept: Option<Box<[Name]>>,
    /// Names that mean something else besides.
    meant: Box<[Name]>,
}

impl Telling {
    /// Whether rows that agree in this agree in the other.
    pub fn refines(&self, other: &Telling) -> bool {
        let kept = match (&self.kept, &other.kept) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(theirs)) => theirs.iter().all(|name| mine.contains(name)),
        };
        self.listed == other.listed && kept && (self.kept.is_none() || self.meant == other.meant)
    }
}

/// What tells a row's content from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ContentKey {
    Cells(Box<[(ColumnId, Cell)]>),
    /// Kinds of ads, in the order of the list.
    Kinds(Box<[u32]>),
}

/// Rows numbered by what an attribute leads to in them. See the module text.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    telling: Telling,
    codes: Vec<u32>,
    contents: Vec<Arc<[(Name, Expr)]>>,
    index: FxHashMap<ContentKey, u32>,
    /// Kinds of nested ads by expression, and by what is kept of them.
    kind_of: FxHashMap<ExprId, Option<u32>>,
    kinds: FxHashMap<Box<[u8]>, u32>,
    kind_ads: Vec<Expr>,
}

impl Derived {
    pub fn new(table: &AdTable, listed: &Listed, telling: Telling) -> Self {
        let mut made = Derived {
            telling,
            codes: vec![0; listed.rows.len()],
            contents: Vec::new(),
            index: FxHashMap::default(),
            kind_of: FxHashMap::default(),
            kinds: FxHashMap::default(),
            kind_ads: Vec::new(),
        };
        // Rows without an ad, and those without the attribute, have number 0.
        made.contents.push(Arc::new([]));
        made.index.insert(ContentKey::Cells(Box::default()), 0);
        for row in table.rows() {
            made.codes[row as usize] = made.number(table, listed, row);
        }
        made
    }

    /// Number of contents so far.
    pub fn count(&self) -> usize {
        self.contents.len()
    }

    /// The number of each row's content.
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// The number of a row's content as a cell.
    pub fn cell(&self, row: usize) -> Cell {
        Self::cell_of(self.codes.get(row).copied().unwrap_or(0))
    }

    /// A number as a cell.
    pub fn cell_of(number: u32) -> Cell {
        Cell::big(number)
    }

    /// The attributes that a cell stands for.
    pub fn content(&self, cell: Cell) -> &[(Name, Expr)] {
        match cell.kind() {
            CellKind::BigInt(number) => self.contents.get(number as usize).map_or(&[], |all| all),
            _ => &[],
        }
    }

    /// Numbers rows anew; gives those that have another number now. None if starting anew is better.
    fn refresh(&mut self, table: &AdTable, listed: &Listed, rows: &[Row]) -> Option<Vec<Row>> {
        if self.contents.len() > table.row_end() * 2 + 4096 {
            return None;
        }
        self.codes.resize(listed.rows.len(), 0);
        let mut moved = Vec::new();
        for row in rows {
            let number = self.number(table, listed, *row);
            if std::mem::replace(&mut self.codes[*row as usize], number) != number {
                moved.push(*row);
            }
        }
        Some(moved)
    }

    fn number(&mut self, table: &AdTable, listed: &Listed, row: Row) -> u32 {
        let cells = &listed.rows[row as usize];
        let kinds = self.row_kinds(table, listed, cells);
        let key = match &kinds {
            Some(kinds) => ContentKey::Kinds(kinds.clone()),
            None => ContentKey::Cells(cells.clone()),
        };
        if let Some(number) = self.index.get(&key) {
            return *number;
        }
        let content = match kinds {
            Some(kinds) => self.renamed(table, &kinds),
            None => cells
                .iter()
                .filter_map(|(column, cell)| {
                    let expr = table.cell_expr(*cell)?;
                    Some((table.column_name(*column).clone(), expr))
                })
                .collect(),
        };
        let number = self.contents.len() as u32;
        self.contents.push(content);
        self.index.insert(key, number);
        number
    }

    /// The kinds of the ads in a row's list, if the list is nothing but names of such ads and only these count.
    fn row_kinds(
        &mut self,
        table: &AdTable,
        listed: &Listed,
        cells: &[(ColumnId, Cell)],
    ) -> Option<Box<[u32]>> {
        self.telling.kept.as_ref()?;
        let (_, list) = cells.first()?;
        let Expr::List(items) = table.exprs().get(list.expr_id()?) else {
            return None;
        };
        // In the order of the list, each name once.
        let rest = &cells[1..];
        if rest.len() != items.len() {
            return None;
        }
        let mut kinds = Vec::with_capacity(rest.len());
        for (item, (column, cell)) in items.iter().zip(rest) {
            let Expr::Attr(name) = item else { return None };
            let known = table.column_name(*column);
            if name != known || name.special().is_some() || self.telling.meant.contains(name) {
                return None;
            }
            // Within one of the ads the list would lead to that.
            if listed.items.contains(name) {
                return None;
            }
            kinds.push(self.kind(table, cell.expr_id()?)?);
        }
        Some(kinds.into())
    }

    /// The number of what is kept of a nested ad.
    fn kind(&mut self, table: &AdTable, id: ExprId) -> Option<u32> {
        if let Some(known) = self.kind_of.get(&id) {
            return *known;
        }
        let made = self.new_kind(table.exprs().get(id));
        self.kind_of.insert(id, made);
        made
    }

    fn new_kind(&mut self, expr: &Expr) -> Option<u32> {
        let ad = literal_ad(expr)?;
        let mut left = Ad::new();
        let mut key = Vec::new();
        for (at, name) in self.telling.kept.as_ref()?.iter().enumerate() {
            let Some(expr) = ad.get(name) else { continue };
            key.extend_from_slice(&(at as u32).to_le_bytes());
            match expr {
                Expr::Lit(Value::Undefined) => key.push(0),
                Expr::Lit(Value::Error) => key.push(1),
                Expr::Lit(Value::Bool(value)) => key.push(2 + u8::from(*value)),
                Expr::Lit(Value::Int(value)) => {
                    key.push(4);
                    key.extend_from_slice(&value.to_le_bytes());
                }
                Expr::Lit(Value::Real(value)) => {
                    key.push(5);
                    key.extend_from_slice(&value.to_bits().to_le_bytes());
                }
                Expr::Lit(Value::Str(text)) => {
                    key.push(6);
                    key.extend_from_slice(&(text.as_bytes().len() as u64).to_le_bytes());
                    key.extend_from_slice(text.as_bytes());
                }
                _ => return None,
            }
            left.insert(name.clone(), expr.clone());
        }
        if let Some(known) = self.kinds.get(&*key) {
            return Some(*known);
        }
        let number = self.kind_ads.len() as u32;
        self.kinds.insert(key.into(), number);
        self.kind_ads.push(Expr::Ad(Arc::new(left)));
        Some(number)
    }

    /// The list with numbers for names, and what is kept of the ads under these.
    fn renamed(&self, table: &AdTable, kinds: &[u32]) -> Arc<[(Name, Expr)]> {
        let column = self.telling.listed;
        let name = |place: usize| number_name(column, place);
        let items: Vec<Expr> = (0..kinds.len())
            .map(|place| Expr::Attr(name(place)))
            .collect();
        let list = Expr::List(items.into());
        let ads = kinds.iter().enumerate().map(|(place, kind)| {
            let ad = self.kind_ads[*kind as usize].clone();
            (name(place), ad)
        });
        std::iter::once((table.column_name(column).clone(), list))
            .chain(ads)
            .collect()
    }
}

/// The byte that the names of numbers begin with.
const NUMBER: u8 = 1;

/// The name that stands for a name in a list.
fn number_name(column: ColumnId, place: usize) -> Name {
    Name::new(format!("\u{1}{column}.{place}").as_bytes())
}

/// Whether a name could be that of a number.
fn is_number(name: &Name) -> bool {
    name.as_bytes().first() == Some(&NUMBER)
}

/// The lists that following an expression led to, and what speaks against forgetting their names.
#[derive(Default)]
pub(crate) struct Following {
    /// Attributes that are followed row by row.
    pub columns: Vec<ColumnId>,
    /// What was followed on the way.
    clauses: Vec<Arc<Clause>>,
}

impl Following {
    /// Notes a definition that the expression uses.
    pub fn used(&mut self, clause: &Arc<Clause>) {
        self.clauses.push(clause.clone());
    }

    /// How rows are told apart for an expression that reads `names`.
    ///
    /// Names of devices may be forgotten if the expression, and all that it uses, has the attribute only as the list of
    /// contexts, no list leads back to it, nobody else means one of the names, and nothing is hidden.
    pub fn tellings(
        &self,
        table: &AdTable,
        predicates: &PredicateCache,
        clause: &Clause,
        job: Option<&Ad>,
        names: &FxHashSet<&Name>,
    ) -> Vec<Telling> {
        let used = || {
            let definitions = self.clauses.iter().map(|clause| clause.uses());
            definitions.chain([clause.uses()])
        };
        let numbers = names.iter().any(|name| is_number(name))
            || job.is_some_and(|job| job.iter().any(|(name, _)| is_number(name)));
        let hidden = numbers || used().any(|uses| uses.hidden);
        let known = |column: &ColumnId| predicates.known_list(*column);
        let lists: Vec<Arc<Listed>> = self.columns.iter().filter_map(known).collect();
        lists
            .iter()
            .map(|listed| {
                let name = table.column_name(listed.column);
                let apart = !hidden
                    && !used().any(|uses| {
                        uses.valued.contains(name)
                            || uses.written.iter().any(|name| listed.names.contains(name))
                    })
                    && !lists.iter().any(|other| other.names.contains(name));
                let kept = apart.then(|| {
                    let mut kept: Vec<Name> = names
                        .iter()
                        .filter(|name| listed.items.contains(**name))
                        .map(|name| (*name).clone())
                        .collect();
                    kept.sort_unstable_by(|a, b| a.print_cmp(b));
                    kept.into()
                });
                let mut meant = if apart {
                    listed.names_in(job)
                } else {
                    Vec::new()
                };
                meant.sort_unstable_by(|a, b| a.print_cmp(b));
                Telling {
                    listed: listed.column,
                    kept,
                    meant: meant.into(),
                }
            })
            .collect()
    }
}

/// Lists and derived columns of a table. Numbers of derived columns stay.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// By column what it leads to, or nothing where it is not followed row by row.
    known: FxHashMap<ColumnId, Option<Arc<Listed>>>,
    tellings: Vec<Telling>,
    numbers: FxHashMap<Telling, ColumnId>,
    derived: Vec<Option<Arc<Derived>>>,
}

impl Lists {
    /// What a column leads to, if it is followed row by row. `exprs` are its definitions.
    pub fn get(
        &mut self,
        table: &AdTable,
        column: ColumnId,
        names_from: usize,
        exprs: impl FnOnce() -> Arc<[ExprId]>,
        clauses: &ClauseCache,
    ) -> Option<Arc<Listed>> {
        if let Some(known) = self.known.get(&column) {
            return known.clone();
        }
        let from = if names_from == 0 {
            NAMES_FROM
        } else {
            names_from
        };
        let made = mostly_names(table, &exprs(), from)
            .then(|| Arc::new(Listed::new(table, column, clauses)));
        self.known.insert(column, made.clone());
        made
    }

    /// What a column leads to, if that is known.
    pub fn known(&self, column: ColumnId) -> Option<Arc<Listed>> {
        self.known.get(&column).cloned().flatten()
    }

    /// The derived column that tells rows apart so.
    pub fn number(&mut self, telling: Telling) -> ColumnId {
        if let Some(number) = self.numbers.get(&telling) {
            return *number;
        }
        let number = FIRST_DERIVED + self.tellings.len() as ColumnId;
        self.tellings.push(telling.clone());
        self.derived.push(None);
        self.numbers.insert(telling, number);
        number
    }

    /// How a derived column tells rows apart.
    pub fn telling(&self, column: ColumnId) -> Option<&Telling> {
        let place = column.checked_sub(FIRST_DERIVED)?;
        self.tellings.get(place as usize)
    }

    /// A derived column.
    pub fn derived(&mut self, table: &AdTable, column: ColumnId) -> Option<Arc<Derived>> {
        let place = column.checked_sub(FIRST_DERIVED)? as usize;
        let telling = self.tellings.get(place)?;
        if self.derived[place].is_none() {
            let listed = self.known(telling.listed)?;
            let made = Derived::new(table, &listed, telling.clone());
            self.derived[place] = Some(Arc::new(made));
        }
        self.derived[place].clone()
    }

    /// Takes changed cells into account; `needed` are the derived columns that groups are made of, others are made
    /// again when they are asked for. Calls `moved` with the rows of a derived column that have another number, or with
    /// none if all have.
    pub fn refresh(
        &mut self,
        table: &AdTable,
        changed: &[(Row, ColumnId)],
        whole_row: ColumnId,
        clauses: &ClauseCache,
        needed: &FxHashSet<ColumnId>,
        mut moved: impl FnMut(ColumnId, Option<Vec<Row>>),
    ) {
        for (place, derived) in self.derived.iter_mut().enumerate() {
            if !needed.contains(&(FIRST_DERIVED + place as ColumnId)) {
                *derived = None;
            }
        }
        self.known.retain(|_, known| known.is_some());
        for (column, known) in &mut self.known {
            let Some(listed) = known else { continue };
            let listed = Arc::make_mut(listed);
            let mut rows = listed.refresh(table, changed, whole_row, clauses);
            if listed.names.len() > listed.built_names * 2 + 4096 {
                *listed = Listed::new(table, *column, clauses);
                rows = table.rows().collect();
            }
            for (place, derived) in self.derived.iter_mut().enumerate() {
                let Some(derived) = derived else { continue };
                if derived.telling.listed != *column {
                    continue;
                }
                let of = FIRST_DERIVED + place as ColumnId;
                match Arc::make_mut(derived).refresh(table, listed, &rows) {
                    Some(rows) => moved(of, Some(rows)),
                    None => {
                        let made = Derived::new(table, listed, derived.telling.clone());
                        *derived = Arc::new(made);
                        moved(of, None);
                    }
                }
            }
        }
    }
}

/// Whether definitions are mostly lists that mention many names together.
fn mostly_names(table: &AdTable, exprs: &[ExprId], from: usize) -> bool {
    let mut names: FxHashSet<&Name> = FxHashSet::default();
    let mut lists = 0;
    for id in exprs {
        let Expr::List(items) = table.exprs().get(*id) else {
            continue;
        };
        lists += 1;
        names.extend(items.iter().filter_map(|item| match item {
            Expr::Attr(name) => Some(name),
            _ => None,
        }));
    }
    names.len() >= from && lists * 2 >= exprs.len()
}

/// The cells of some columns, derived ones among them.
pub(crate) fn cells_of<'a>(
    table: &'a AdTable,
    rows: Option<&Range<usize>>,
    columns: &[ColumnId],
    mut derived: impl FnMut(ColumnId) -> Option<Arc<Derived>>,
) -> Cells<'a> {
    let found = columns
        .iter()
        .filter(|column| **column >= FIRST_DERIVED)
        .filter_map(|column| Some((*column, derived(*column)?)));
    Cells::new(table, rows, found.collect())
}
