//! Reasons to refuse a URL.

use super::MAX_BYTES;

/// Reason why a text is not a URL to send requests to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Length in bytes.
    #[error("the URL has {0} bytes; at most {MAX_BYTES} are allowed")]
    TooLong(usize),
    /// Control character, whitespace or backslash.
    #[error("the URL contains {0:?}; percent-encode it")]
    Character(char),
    /// Even an empty one.
    #[error("the URL has a fragment; remove the # and what follows")]
    Fragment,
    /// Neither http nor https.
    #[error("the URL must start with http:// or https://")]
    Scheme,
    /// Nothing between the slashes.
    #[error("the URL has no host")]
    NoHost,
    /// Even an empty one.
    #[error("the URL contains a user name or an @ before the host; remove it")]
    UserInfo,
    /// Port 0.
    #[error("the URL has port 0")]
    Port,
    /// Name with unusual characters, an empty label (a dot at the end makes one), or over 253
    /// characters.
    #[error(
        "the host {0:?} is not a name of letters, digits, hyphens and underscores between single dots"
    )]
    Name(String),
    /// Refused by the parser.
    #[error("the URL is invalid: {0}")]
    Invalid(url::ParseError),
    /// URL of a proxy with another scheme, a path, a query or a fragment.
    #[error("the URL of a proxy must have the form http://[user:password@]host:port")]
    Proxy,
    /// Read differently by two parsers.
    #[error("the URL is ambiguous; percent-encode its special characters")]
    Ambiguous,
}
