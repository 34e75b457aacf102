//! Headers: pairs of text that a put gives to the consumers of its job.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The headers of a job, in the order of its put; names keep their case. Most jobs have none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(Vec<(String, String)>);

/// Most headers of one job.
pub const MAX_HEADERS: usize = 32;
/// Most bytes of all names and values of one job together.
pub const MAX_HEADER_BYTES: usize = 8 << 10;

/// Lower-case names that HTTP delivery would need itself; a `*` at the end matches any text.
pub const RESERVED_NAMES: [&str; 16] = [
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "cookie",
    "authorization",
    "proxy-*",
    "delay-queue-*",
    "webhook-*",
];

/// Why headers are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadersError {
    /// Too many headers.
    #[error("must be at most {MAX_HEADERS} headers, got {0}")]
    Count(usize),
    /// Too many bytes.
    #[error("must be at most {MAX_HEADER_BYTES} bytes of names and values together, got {0}")]
    Size(usize),
    /// A name that is no HTTP token.
    #[error("must have names of letters, digits and !#$%&'*+-.^_`|~ (RFC 9110 tokens), got {0:?}")]
    Name(String),
    /// A name that HTTP or this queue uses itself.
    #[error("must not have the name {0:?}, which is reserved")]
    Reserved(String),
    /// Two names that differ at most in case.
    #[error("must not have the name {0:?} twice; upper and lower case are the same")]
    Twice(String),
    /// A value with a character that HTTP does not allow.
    #[error("must have values of visible ASCII, spaces and tabs; that of {0:?} has others")]
    Value(String),
    /// Stored text that this version did not write.
    #[error("must be the text of headers")]
    Text,
}

impl Headers {
    /// No headers.
    pub const NONE: Self = Self(Vec::new());

    /// Checks the headers of a client.
    ///
    /// # Errors
    /// The first rule that they break.
    pub fn new(pairs: Vec<(String, String)>) -> Result<Self, HeadersError> {
        if pairs.len() > MAX_HEADERS {
            return Err(HeadersError::Count(pairs.len()));
        }
        let bytes = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > MAX_HEADER_BYTES {
            return Err(HeadersError::Size(bytes));
        }
        for (index, (name, value)) in pairs.iter().enumerate() {
            let is_same = |(other, _): &(String, String)| other.eq_ignore_ascii_case(name);
            let shown = || name.chars().take(100).collect();
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(HeadersError::Name(shown()));
            }
            if is_reserved(name) {
                return Err(HeadersError::Reserved(shown()));
            }
            if pairs[..index].iter().any(is_same) {
                return Err(HeadersError::Twice(shown()));
            }
            if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
                return Err(HeadersError::Value(shown()));
            }
        }
        Ok(Self(pairs))
    }

    /// Returns whether there are no headers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns whether a byte is allowed in a name: `tchar` of RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED_NAMES.iter().any(|reserved| match reserved.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *reserved,
    })
}

/// Writes the form of stores: `application/x-www-form-urlencoded`, which has no blanks and no `;`.
impl fmt::Display for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = form_urlencoded::Serializer::new(String::new());
        f.write_str(&text.extend_pairs(&self.0).finish())
    }
}

impl FromStr for Headers {
    type Err = HeadersError;

    fn from_str(text: &str) -> Result<Self, HeadersError> {
        let headers = Self::new(form_urlencoded::parse(text.as_bytes()).into_owned().collect())?;
        // Decoding accepts any text, so a text that encodes differently is damaged.
        if headers.to_string() == text { Ok(headers) } else { Err(HeadersError::Text) }
    }
}

impl Serialize for Headers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Headers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Headers::new(pairs).map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests;
