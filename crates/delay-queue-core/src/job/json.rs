//! Rules for JSON texts of jobs beyond the grammar, so that every consumer can read them: its JSON
//! reader would refuse the whole answer of a pop for one bad body.
//!
//! The grammar of JSON allows nesting of any depth, escapes of half a character, and numbers beyond
//! the range of a double. Readers commonly refuse all three.

use memchr::{memchr_iter, memchr2_iter};

/// Maximum number of levels of nested lists and objects.
pub const MAX_DEPTH: usize = 128;
/// Length up to which a number without an exponent is within a double's range.
const SURELY_FINITE: usize = 308;
/// Maximum number of characters of a JSON pointer in a problem.
const SHOWN: usize = 100;

/// A violation, and its byte offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonFault {
    /// The rule, to follow the name of a field.
    pub violation: &'static str,
    /// Offset in the text.
    pub at: usize,
}

const TOO_DEEP: &str = "must be nested at most 128 deep";
const HALF: &str = "must have whole characters, but has half of a surrogate pair";
const TOO_LARGE: &str = "must have numbers within the range of a double";

/// Returns whether the bytes alone rule out any fault. Most bodies pass, and the full check takes
/// several times as long. Brackets, escapes and digits in strings count too.
fn is_plain(bytes: &[u8]) -> bool {
    let may_be_too_deep = memchr2_iter(b'[', b'{', bytes).nth(MAX_DEPTH).is_some();
    let has_escape = memchr_iter(b'\\', bytes).any(|at| bytes.get(at + 1) == Some(&b'u'));
    let is_after_digit = |at: usize| at > 0 && bytes[at - 1].is_ascii_digit();
    let has_exponent = memchr2_iter(b'e', b'E', bytes).any(is_after_digit);
    // A number longer than `SURELY_FINITE` fills one of these parts.
    let mut parts = bytes.chunks_exact(SURELY_FINITE / 2);
    let is_digits = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.'));
    !may_be_too_deep && !has_escape && !has_exponent && !parts.any(is_digits)
}

/// Checks a text that has the grammar of JSON.
///
/// # Errors
/// The first violation.
pub fn check_json(json: &str) -> Result<(), JsonFault> {
    let bytes = json.as_bytes();
    if is_plain(bytes) {
        return Ok(());
    }
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at)?,
            b'-' | b'0'..=b'9' => at = end_of_number(json, at)?,
            b'[' | b'{' if depth == MAX_DEPTH => return Err(JsonFault { violation: TOO_DEEP, at }),
            b'[' | b'{' => (at, depth) = (at + 1, depth + 1),
            b']' | b'}' => (at, depth) = (at + 1, depth.saturating_sub(1)),
            _ => at += 1,
        }
    }
    Ok(())
}

/// Returns the end of the string that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> Result<usize, JsonFault> {
    let mut at = start + 1;
    loop {
        match bytes.get(at) {
            None => return Ok(at),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => match escaped(bytes, at) {
                None => at += 2,
                Some(0xd800..=0xdbff)
                    if matches!(escaped(bytes, at + 6), Some(0xdc00..=0xdfff)) =>
                {
                    at += 12;
                }
                Some(0xd800..=0xdfff) => return Err(JsonFault { violation: HALF, at }),
                Some(_) => at += 6,
            },
            Some(_) => at += 1,
        }
    }
}

/// Returns the 16 bits of `\uXXXX` if that is at `at`.
fn escaped(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Returns the end of the number that begins at `start`.
fn end_of_number(json: &str, start: usize) -> Result<usize, JsonFault> {
    let bytes = &json.as_bytes()[start..];
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-' | b'e' | b'E');
    let length = bytes.iter().position(|byte| !is_part(byte)).unwrap_or(bytes.len());
    let number = &bytes[..length];
    let is_finite = || {
        let double: Option<f64> = json[start..start + length].parse().ok();
        double.is_some_and(f64::is_finite)
    };
    let has_exponent = number.iter().any(|byte| matches!(byte, b'e' | b'E'));
    match (has_exponent || length > SURELY_FINITE) && !is_finite() {
        true => Err(JsonFault { violation: TOO_LARGE, at: start }),
        false => Ok(start + length),
    }
}

/// Returns the JSON pointer (RFC 6901) to the value at a byte, or to the object of that key.
pub fn json_pointer(json: &str, target: usize) -> String {
    enum Step<'a> {
        Index(usize),
        /// None until the key has been read.
        Key(Option<&'a str>),
    }
    let bytes = json.as_bytes();
    let (mut at, mut steps) = (0, Vec::new());
    while at < target {
        let mut next = at + 1;
        match (bytes[at], steps.last_mut()) {
            (b'[', _) => steps.push(Step::Index(0)),
            (b'{', _) => steps.push(Step::Key(None)),
            (b']' | b'}', _) => drop(steps.pop()),
            (b',', Some(Step::Index(index))) => *index += 1,
            (b',', Some(Step::Key(key))) => *key = None,
            (b'"', within) => {
                let Ok(behind) = end_of_string(bytes, at) else { break };
                if let Some(Step::Key(key @ None)) = within {
                    *key = json.get(at..behind);
                }
                next = behind;
            }
            _ => {}
        }
        at = next;
    }
    let mut pointer = String::new();
    for step in steps {
        match step {
            Step::Index(index) => pointer.push_str(&format!("/{index}")),
            Step::Key(Some(key)) => {
                let key: String = serde_json::from_str(key).unwrap_or_else(|_| key.to_owned());
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Step::Key(None) => {}
        }
    }
    match pointer.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &pointer[..end]),
        None => pointer,
    }
}

#[cfg(test)]
mod tests;
