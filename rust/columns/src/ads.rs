//! Ads in and out of the table.

use classad::{Ad, Expr, Name, Value};

use crate::cell::{Cell, CellKind};
use crate::error::TableError;
use crate::table::{AdTable, ColumnId, Row};

/// The canonical text of an expression, by which the table knows it.
pub fn canonical_text(expr: &Expr) -> Vec<u8> {
    classad::print::unparse(expr)
}

/// What `diff` found: attributes to set and names to take out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AdDelta {
    /// New or changed attributes.
    pub changed: Ad,
    /// Attributes that are gone.
    pub removed: Vec<Name>,
}

impl AdDelta {
    /// Whether both ads were the same.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// What must be sent to somebody who has `old` so that it has `new`.
pub fn diff(old: &Ad, new: &Ad) -> AdDelta {
    let mut delta = AdDelta::default();
    for (at, (name, expr)) in new.iter().enumerate() {
        // Ads of one sender usually keep their order: look at the same place first.
        let known = match old.at(at) {
            Some((other, known)) if other.same_spelling(name) => Some(known),
            _ => old.get(name),
        };
        if known != Some(expr) {
            delta.changed.insert(name.clone(), expr.clone());
        }
    }
    if old.len() + delta.changed.len() > new.len() {
        let gone = old.iter().filter(|(name, _)| !new.contains(name));
        delta.removed = gone.map(|(name, _)| name.clone()).collect();
    }
    delta
}

impl AdTable {
    /// An expression as a cell of this table: literals as themselves, the rest by canonical text.
    pub fn expr_cell(&mut self, expr: &Expr) -> Cell {
        match expr {
            Expr::Lit(Value::Undefined) => Cell::UNDEFINED,
            Expr::Lit(Value::Error) => Cell::ERROR,
            Expr::Lit(Value::Bool(value)) => Cell::bool(*value),
            Expr::Lit(Value::Int(value)) => self.int_cell(*value),
            Expr::Lit(Value::Real(value)) => Cell::real(*value),
            Expr::Lit(Value::Str(text)) => self.str_cell(text.as_bytes()),
            other => {
                let text = canonical_text(other);
                Cell::expr(self.exprs.put(&text, other.clone()))
            }
        }
    }

    /// The cell of an expression given as canonical text; parsed only when it is new here.
    ///
    /// # Errors
    /// [`TableError::BadExpression`] when it does not parse.
    pub(crate) fn text_cell(&mut self, text: &[u8]) -> Result<Cell, TableError> {
        if let Some(id) = self.exprs.texts.find(text)
            && self
                .exprs
                .exprs
                .get(id as usize)
                .is_some_and(Option::is_some)
        {
            return Ok(Cell::expr(id));
        }
        let expr = parse_canonical(text)?;
        Ok(self.expr_cell(&expr))
    }

    /// A cell as an expression; none if the attribute is missing.
    pub fn cell_expr(&self, cell: Cell) -> Option<Expr> {
        Some(match cell.kind() {
            CellKind::Missing => return None,
            CellKind::Expr(id) => self.exprs.get(id).clone(),
            _ => Expr::Lit(self.cell_value(cell)),
        })
    }

    /// The value of a cell that holds a literal; undefined for missing cells and expressions.
    pub fn cell_value(&self, cell: Cell) -> Value {
        match cell.kind() {
            CellKind::Missing | CellKind::Undefined | CellKind::Expr(_) => Value::Undefined,
            CellKind::Error => Value::Error,
            CellKind::Bool(value) => Value::Bool(value),
            CellKind::Int(value) => Value::Int(value),
            CellKind::BigInt(id) => Value::Int(self.big(id)),
            CellKind::Real(value) => Value::Real(value),
            CellKind::Str(id) => Value::Str(self.strings.get(id).into()),
        }
    }

    /// Replaces (or makes) the ad of `key`. `heard_at` is when it was received. Returns the row.
    ///
    /// # Errors
    /// [`TableError::TooManyAttributes`].
    pub fn upsert(&mut self, key: &[u8], ad: &Ad, heard_at: f64) -> Result<Row, TableError> {
        let cells = self.ad_cells(ad)?;
        let row = self.put_row(key, &cells, heard_at).0;
        self.spell_all(row, ad, &cells);
        Ok(row)
    }

    /// Sets the attributes of `delta` and takes out `removed` in the ad of `key`; none if there is
    /// no such ad.
    ///
    /// # Errors
    /// [`TableError::TooManyAttributes`].
    pub fn update(
        &mut self,
        key: &[u8],
        delta: &Ad,
        removed: &[Name],
        heard_at: f64,
    ) -> Result<Option<Row>, TableError> {
        let Some(row) = self.row_of(key) else {
            return Ok(None);
        };
        let mut cells = self.ad_cells(delta)?;
        for name in removed {
            if let Some(id) = self.column_id(name) {
                cells.push((id, Cell::MISSING));
            }
        }
        self.patch_row(row, &cells, heard_at);
        self.spell_all(row, delta, &cells);
        Ok(Some(row))
    }

    /// The ads of a cluster: every key gets `template`, then its own delta (empty, or one a key).
    ///
    /// # Errors
    /// [`TableError::TooManyAttributes`].
    pub fn insert_from_template(
        &mut self,
        template: &Ad,
        keys: &[&[u8]],
        deltas: &[Ad],
        heard_at: f64,
    ) -> Result<Vec<Row>, TableError> {
        let base = self.ad_cells(template)?;
        let rows = self.put_copies(keys, &base, heard_at);
        let respelled = base
            .iter()
            .zip(template.iter())
            .any(|((id, _), (name, _))| !self.names[*id as usize].same_spelling(name));
        if respelled {
            for row in &rows {
                self.spell_all(*row, template, &base);
            }
        }
        for (row, delta) in rows.iter().zip(deltas) {
            let cells = self.ad_cells(delta)?;
            self.write_cells(*row, &cells);
            self.spell_all(*row, delta, &cells);
        }
        Ok(rows)
    }

    /// As [`AdTable::insert_from_template`], with the deltas as a batch in the order of the keys.
    ///
    /// # Errors
    /// [`TableError::BadPack`] also when the batch has not as many deltas as there are keys; what was
    /// inserted is taken out again.
    pub fn insert_from_pack(
        &mut self,
        template: &Ad,
        keys: &[&[u8]],
        deltas: &[u8],
        heard_at: f64,
    ) -> Result<Vec<Row>, TableError> {
        let rows = self.insert_from_template(template, keys, &[], heard_at)?;
        if let Err(error) = self.apply_in_order(&rows, deltas) {
            for key in keys {
                self.remove(key);
            }
            return Err(error);
        }
        Ok(rows)
    }

    /// Sets one literal attribute of rows that were just made from a template.
    ///
    /// # Errors
    /// [`TableError::TooManyAttributes`].
    pub fn set_column(
        &mut self,
        name: &Name,
        rows: &[Row],
        values: &[Expr],
    ) -> Result<(), TableError> {
        let id = self.ensure_column(name)?;
        for (row, value) in rows.iter().zip(values) {
            let cell = self.expr_cell(value);
            self.write_cells(*row, &[(id, cell)]);
        }
        Ok(())
    }

    /// The cells of an ad, columns made as needed.
    pub(crate) fn ad_cells(&mut self, ad: &Ad) -> Result<Vec<(ColumnId, Cell)>, TableError> {
        let mut cells = Vec::with_capacity(ad.len());
        for (name, expr) in ad.iter() {
            cells.push((self.ensure_column(name)?, self.expr_cell(expr)));
        }
        Ok(cells)
    }

    fn spell_all(&mut self, row: Row, ad: &Ad, cells: &[(ColumnId, Cell)]) {
        for ((name, _), (id, _)) in ad.iter().zip(cells) {
            if !self.respelled.is_empty() || !self.names[*id as usize].same_spelling(name) {
                self.spell(row, *id, name);
            }
        }
    }

    /// The ad of a row, attributes in the order of the table's columns.
    pub fn ad(&self, row: Row) -> Ad {
        let mut ad = Ad::with_capacity(64);
        self.for_each_cell(row, |id, cell| {
            if let Some(expr) = self.cell_expr(cell) {
                ad.insert(self.spelling(row, id).clone(), expr);
            }
        });
        ad
    }

    /// The ad of a key.
    pub fn get(&self, key: &[u8]) -> Option<Ad> {
        self.row_of(key).map(|row| self.ad(row))
    }

    /// The attribute of a row as an expression.
    pub fn expr_at(&self, row: Row, id: ColumnId) -> Option<Expr> {
        self.cell_expr(self.cell(row, id))
    }
}

/// Parses canonical text as the wire and the pools hold it.
pub(crate) fn parse_canonical(text: &[u8]) -> Result<Expr, TableError> {
    classad::parse_expr(text, classad::Syntax::NORMAL).map_err(|error| TableError::BadExpression {
        name: String::new(),
        error: error.to_string(),
    })
}
