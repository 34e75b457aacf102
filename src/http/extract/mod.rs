//! From the bytes of a request to valid values. Every refusal names its field.

pub mod content;
pub mod cursor;
pub mod input;
pub mod parse;
pub mod query;
