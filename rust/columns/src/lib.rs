//! Ads as columns: a table of ads in which an attribute is a column, and expressions run over whole
//! columns at once.
//!
//! - [`AdTable`] keeps ads by key: typed cells, equal values stored once, versions, changes since a
//!   version. [`pack`] is its wire form, [`ingest`] reads ad text straight into it.
//! - [`Matcher`] answers for a job ad which rows match it both ways and how they rank, by evaluating each
//!   clause once per distinct set of values it reads. Results are always those of [`classad::evaluate`].
//!
//! No clock, no threads, no Python.

pub mod ads;
pub mod apply;
pub mod bitmap;
mod buckets;
pub mod cell;
mod changes;
pub mod changes_text;
mod clause;
pub mod column;
mod compute;
mod computed;
mod dependencies;
pub mod error;
mod exec;
mod explain;
pub mod export;
pub mod groups;
mod hint;
pub mod ingest;
mod lists;
mod log;
mod logic;
mod lower;
pub mod matcher;
pub mod pack;
pub mod places;
mod predicate_cache;
pub mod query;
mod register;
pub mod results;
mod rows;
mod scan;
mod settings;
mod shown;
pub mod signatures;
pub mod table;
pub mod text_pool;
mod unpack;
mod verdicts;
mod view;

pub use ads::{AdDelta, diff};
pub use apply::{ApplyReport, Notes};
pub use bitmap::Bitmap;
pub use cell::{Cell, CellKind, ExprId, StrId};
pub use column::{CHUNK_ROWS, Chunk, Column};
pub use error::TableError;
pub use export::{ExportedColumn, Series};
pub use groups::Groups;
pub use ingest::{KeyRule, LoadReport, TextLoader};
pub use matcher::{EvalSettings, ExternalsRef, Matcher, Owner};
pub use pack::{PackHeader, PackWriter};
pub use places::Order;
pub use query::{Query, parse_constraint};
pub use results::{ClauseCount, Explanation, Hint, Nearest, Numbers, Relation, Truth, Values};
pub use shown::Shown;
pub use signatures::{Signatures, is_of_one_job};
pub use table::{AdTable, ColumnId, Row, RowInfo};
pub use unpack::{PackedOp, Said, Survey, split, survey, unpack};
