//! Ads in their text formats: old (one attribute a line), new, JSON, XML.

pub mod old;
