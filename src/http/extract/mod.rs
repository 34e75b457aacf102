//! Parses requests into valid values. Every refusal names its field.

pub mod content;
pub mod cursor;
pub mod filter;
pub mod input;
pub mod parse;
pub mod query;
