//! URLs that are checked once, when they arrive.

use std::{fmt, net::IpAddr};

use http::Uri;
use url::{Host, Url};

use crate::allowed::{Allowed, Refused};

mod error;
#[cfg(test)]
mod tests;

pub use self::error::UrlError;

/// Greatest length of a URL in bytes, as written and as normalised.
const MAX_BYTES: usize = 2048;

/// Checked URL, normalised as browsers do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUrl {
    text: String,
    uri: Uri,
    target: Target,
    literal: Option<IpAddr>,
}

/// Scheme, host and port of a URL. Requests to the same target share a fate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub(crate) is_https: bool,
    /// Name, or literal address (in brackets if it is one of IPv6).
    host: String,
    pub(crate) port: u16,
}

impl Target {
    /// Returns the name, or the literal address without brackets.
    pub(crate) fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_https, host, port } = self;
        write!(f, "{}://{host}:{port}", if *is_https { "https" } else { "http" })
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TargetUrl {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// Fails for every form that parsers are known to read differently, with a text that says
    /// which.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        check_text(text)?;
        let url = Url::parse(text).map_err(UrlError::Invalid)?;
        let literal = match url.host().ok_or(UrlError::NoHost)? {
            Host::Domain(name) => {
                check_name(name)?;
                None
            }
            Host::Ipv4(address) => Some(IpAddr::V4(address).to_canonical()),
            Host::Ipv6(address) => Some(IpAddr::V6(address).to_canonical()),
        };
        let host = url.host_str().ok_or(UrlError::NoHost)?.to_owned();
        let port = url.port_or_known_default().filter(|port| *port > 0).ok_or(UrlError::Port)?;
        let target = Target { is_https: url.scheme() == "https", host, port };
        let text = String::from(url);
        if text.len() > MAX_BYTES {
            return Err(UrlError::TooLong(text.len()));
        }
        let uri: Uri = text.parse().map_err(|_| UrlError::Ambiguous)?;
        // The connector sees the URI: both parsers must agree on its target.
        let default_port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        if uri.host() != Some(&target.host)
            || uri.port_u16().unwrap_or(default_port) != target.port
            || (uri.scheme_str() == Some("https")) != target.is_https
        {
            return Err(UrlError::Ambiguous);
        }
        Ok(Self { text, uri, target, literal })
    }

    /// Returns the normalised URL.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the scheme, host and port.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Checks the host, and the address if the host is one. Names are resolved and checked at each
    /// connection.
    ///
    /// # Errors
    ///
    /// Fails if no pattern matches the host, or if a literal address is neither public nor in an
    /// allowed network.
    pub fn check(&self, allowed: &Allowed) -> Result<(), Refused> {
        match self.literal {
            None => allowed.check_host(&self.target.host),
            Some(address) => {
                let host = address.to_string();
                allowed.check_host(&host)?;
                allowed.check_address(&host, address)
            }
        }
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }
}

/// Refuses text before a parser could repair it.
fn check_text(text: &str) -> Result<(), UrlError> {
    if text.len() > MAX_BYTES {
        return Err(UrlError::TooLong(text.len()));
    }
    if let Some(found) = text.chars().find(|c| c.is_control() || c.is_whitespace() || *c == '\\') {
        return Err(UrlError::Character(found));
    }
    if text.contains('#') {
        return Err(UrlError::Fragment);
    }
    let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(UrlError::Scheme);
    }
    match rest.split(['/', '?']).next() {
        None | Some("") => Err(UrlError::NoHost),
        Some(authority) if authority.contains('@') => Err(UrlError::UserInfo),
        Some(_) => Ok(()),
    }
}

/// Checks a name in its ASCII form. A dot at its end is refused, since `a.` and `a` would be two
/// targets.
fn check_name(name: &str) -> Result<(), UrlError> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if name.len() <= 253 && name.split('.').all(is_label) {
        Ok(())
    } else {
        Err(UrlError::Name(name.to_owned()))
    }
}
