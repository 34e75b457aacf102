//! Headers: pairs of a name and a value that a put attaches to a job for its consumers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The headers of a job, in the order in which the put lists them; names keep their case. Most
/// jobs have none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(Vec<(String, String)>);

/// Maximum number of headers of a job.
pub const MAX_HEADERS: usize = 32;
/// Maximum size of all names and values of a job together, in bytes.
pub const MAX_HEADER_BYTES: usize = 8 << 10;

/// Names, in lower case, that a put must not use: a push sets these headers itself. A `*` at the
/// end matches any text.
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
    #[error("must have at most {MAX_HEADERS} headers, got {0}")]
    Count(usize),
    /// Too many bytes.
    #[error("must have at most {MAX_HEADER_BYTES} bytes of names and values together, got {0}")]
    Size(usize),
    /// A name that is not an HTTP token.
    #[error("must have names of letters, digits and !#$%&'*+-.^_`|~ (RFC 9110 tokens), got {0:?}")]
    Name(String),
    /// A name that HTTP or this queue uses itself.
    #[error("must not have the name {0:?}, which is reserved")]
    Reserved(String),
    /// Two names that differ at most in case.
    #[error("must not have the name {0:?} twice; names that differ only in case are the same")]
    Duplicate(String),
    /// A value with a character that HTTP does not allow.
    #[error("must have values of visible ASCII, spaces and tabs; the value of {0:?} has others")]
    Value(String),
    /// Stored text that does not have the form of headers.
    #[error("must be headers as this version stores them")]
    Text,
}

impl Headers {
    /// No headers.
    pub const NONE: Self = Self(Vec::new());

    /// Creates headers from the pairs that a client sent.
    ///
    /// # Errors
    /// The first rule that the pairs break.
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
            if name.is_empty() || !name.bytes().all(is_tchar) {
                return Err(HeadersError::Name(shown()));
            }
            if is_reserved(name) {
                return Err(HeadersError::Reserved(shown()));
            }
            if pairs[..index].iter().any(is_same) {
                return Err(HeadersError::Duplicate(shown()));
            }
            if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
                return Err(HeadersError::Value(shown()));
            }
        }
        Ok(Self(pairs))
    }

    /// Returns the names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns whether there are no headers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns whether a byte is allowed in a name: `tchar` of RFC 9110, section 5.6.2.
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED_NAMES.iter().any(|reserved| match reserved.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *reserved,
    })
}

/// Writes the stored form: `application/x-www-form-urlencoded`, which has no spaces and no `;`.
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
                f.write_str("an object of text values")
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
