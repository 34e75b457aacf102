//! The client behind the reverse proxies of `server.trusted_proxies`.
//!
//! Each proxy appends the address of its caller to the header. So trusted proxies have written the
//! last addresses, up to the last untrusted one, which is the client's. The client may have written
//! the addresses before it.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::http::{HeaderMap, HeaderName, header::FORWARDED};
use ipnet::IpNet;

use crate::http::client::peer::{ClientAddress, Peer};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The networks of `server.trusted_proxies`.
#[derive(Clone, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// Trusts proxies whose address is in one of these networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks.into())
    }

    /// Returns the client of a request: the other end of its connection, or the client that a
    /// trusted proxy at this end names.
    pub fn resolve(&self, peer: &Peer, headers: &HeaderMap) -> Peer {
        match peer.address().map(ClientAddress::ip) {
            Some(proxy) if self.trust(proxy) => {
                peer.behind(self.client(proxy, headers), is_https(headers))
            }
            _ => peer.clone(),
        }
    }

    fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the client of a request that `proxy` has sent. A proxy sets one of the two headers,
    /// but may forward the other as it received it. So if both headers disagree, both are ignored.
    fn client(&self, proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
        let hops = [elements(headers, &FORWARDED), elements(headers, &X_FORWARDED_FOR)];
        let [standard, common] = hops.map(|hops| (!hops.is_empty()).then_some(hops));
        let standard = standard
            .map(|hops| self.last_untrusted(proxy, hops.iter().map(|hop| forwarded_address(hop))));
        let common =
            common.map(|hops| self.last_untrusted(proxy, hops.iter().map(|hop| address(hop))));
        match (standard, common) {
            (Some(one), Some(other)) if one != other => proxy,
            (Some(one), _) | (None, Some(one)) => one,
            (None, None) => proxy,
        }
    }

    /// Returns the last address that is not a trusted proxy's. If the search finds an unreadable
    /// address, it returns the proxy that wrote this address.
    fn last_untrusted(
        &self,
        proxy: IpAddr,
        hops: impl DoubleEndedIterator<Item = Option<IpAddr>>,
    ) -> IpAddr {
        let mut client = proxy;
        for hop in hops.rev() {
            match hop {
                Some(address) => client = address,
                None => return client,
            }
            if !self.trust(client) {
                return client;
            }
        }
        client
    }
}

/// Returns whether the proxy's client used HTTPS; `None` if the headers do not name a scheme.
fn is_https(headers: &HeaderMap) -> Option<bool> {
    let standard = elements(headers, &FORWARDED).pop().and_then(|hop| parameter(&hop, "proto"));
    let proto = standard.or_else(|| elements(headers, &X_FORWARDED_PROTO).pop())?;
    match proto.to_ascii_lowercase().as_str() {
        "https" => Some(true),
        "http" => Some(false),
        _ => None,
    }
}

/// Returns the elements of all lines of a list header. A line that is not text becomes `?`.
fn elements(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("?"));
    lines.flat_map(|line| split(line, ',')).collect()
}

/// Splits at separators outside quotes.
fn split(text: &str, separator: char) -> Vec<String> {
    let (mut parts, mut is_quoted, mut is_escaped) = (vec![String::new()], false, false);
    for c in text.chars() {
        if c == separator && !is_quoted {
            parts.push(String::new());
            continue;
        }
        if c == '"' && !is_escaped {
            is_quoted = !is_quoted;
        }
        is_escaped = is_quoted && c == '\\' && !is_escaped;
        parts.last_mut().expect("there is one").push(c);
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// Parses `for=192.0.2.60;proto=http` or `for="[2001:db8::1]:4711"`, an element of `Forwarded`.
fn forwarded_address(element: &str) -> Option<IpAddr> {
    address(&parameter(element, "for")?)
}

/// Returns a parameter of an element of `Forwarded`, or `None` if it occurs twice.
fn parameter(element: &str, name: &str) -> Option<String> {
    let mut found = split(element, ';').into_iter().filter_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"').to_owned())
    });
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

/// Parses an address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests;
