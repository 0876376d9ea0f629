//! Ads in their text formats: old (one attribute a line), new, JSON, XML.

pub mod json;
pub mod old;
pub mod place;
pub mod stream;
pub mod xml;
mod xml_token;
mod xml_write;
