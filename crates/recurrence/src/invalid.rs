//! Refusals of fields that make no timing.

use std::fmt;

/// Reason why fields make no timing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// Name of the field to change: `cron`, `every`, `timezone`, `anchor` or `end`.
    pub field: &'static str,
    /// Rest of the sentence that begins with the field's name: the given value, what is allowed,
    /// and an example that works.
    pub message: String,
}

impl Invalid {
    pub(crate) fn new(field: &'static str, message: impl Into<String>) -> Self {
        Self { field, message: message.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.message)
    }
}

impl std::error::Error for Invalid {}

/// Longest text of a client that a message repeats, in characters.
const MAX_QUOTED: usize = 60;

/// Quotes a client's text: escaped, and cut if it is long.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}
