//! The allow-list shared by job ids and topics.
//!
//! Both become parts of Redis keys and of URL paths, so the list is short and closed. `.` and
//! `..` are on it letter by letter but are refused whole: URL clients normalise such a path
//! segment away, so a job or topic of that name could never be reached again.

use thiserror::Error;

/// Longest job id or topic, in bytes (all allowed characters are one byte).
const MAX_LEN: usize = 128;

/// A job id or topic outside the allow-list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("must be 1 to 128 characters of {allowed}, and not \".\" or \"..\"; got {given}")]
pub struct NameError {
    allowed: &'static str,
    given: String,
}

/// Checks `text` against ASCII letters, digits and the `extra` characters; `allowed` says the
/// same to people.
pub(super) fn check(text: &str, extra: &[u8], allowed: &'static str) -> Result<(), NameError> {
    let fits = (1..=MAX_LEN).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || extra.contains(&byte))
        && text != "."
        && text != "..";
    if fits { Ok(()) } else { Err(NameError { allowed, given: describe(text) }) }
}

/// The refused text as it can be shown: escaped, and cut when long.
fn describe(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    match text.chars().count() {
        n if n > 40 => format!("{shown:?}… ({n} characters)"),
        _ => format!("{shown:?}"),
    }
}
