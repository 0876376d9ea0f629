//! The configuration and submit description languages: macros, conditionals, templates, queue statements.
//!
//! One macro engine ([`scan`], [`expand`], [`functions`]) serves both. Configuration is read by [`reader`] in the order
//! that [`load`] lays down; [`knobs`] knows every knob, [`typed`] reads them. The crate asks a [`Source`] for files,
//! commands, environment and random numbers, and touches none of them itself.

pub mod args;
pub mod bytes;
pub mod condition;
pub mod error;
pub mod expand;
pub mod expr;
pub mod filename;
pub mod functions;
pub mod knobs;
pub mod lines;
pub mod load;
pub mod printf;
pub mod reader;
pub mod scan;
pub mod scope;
pub mod set;
pub mod source;
pub mod statement;
pub mod submit;
pub mod templates;
pub mod transform;
pub mod typed;

pub use error::{Code, ConfigError, Place};
pub use expand::Expander;
pub use load::{Request, load};
pub use reader::Reader;
pub use scope::Scope;
pub use set::{MacroSet, View};
pub use source::{Seeded, Source};
