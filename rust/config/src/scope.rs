//! Where macro references get their values.

use std::borrow::Cow;

use crate::source::Source;

/// Where macros get their values.
pub trait Scope {
    /// The raw value of a name, defaults included.
    fn raw(&self, name: &str) -> Option<Cow<'_, str>>;
    /// The world, for `$ENV` and random choices.
    fn source(&self) -> &dyn Source;
    /// A reference without a default named something that has no value at all; it expands to nothing.
    fn missing(&self, _name: &str) {}
    /// The directory that `$Ff(...)` makes names absolute with.
    fn cwd(&self) -> Option<&str> {
        None
    }
    /// Whether what functions give is data: what looks like a macro in it is not one.
    fn results_are_data(&self) -> bool {
        false
    }
    /// The truth of a condition that is more than a number, a truth value or `defined`; `None` where such conditions
    /// are not supported, or when it has no truth.
    fn condition(&self, _text: &str) -> Option<bool> {
        None
    }
    /// Takes so many bytes of work from what all expansions of a description may do together; whether there was so much.
    fn spend(&self, _bytes: usize) -> bool {
        true
    }
    /// The value of an expression as text, for `$EVAL`; `None` when it is not one.
    fn evaluated(&self, text: &str) -> Option<String> {
        crate::expr::evaluated(text, self.source().now())
    }
}
