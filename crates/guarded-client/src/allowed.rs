//! Rules on hosts and addresses.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::{AddressClass, is_public};

#[cfg(test)]
mod tests;

/// Networks and hosts that requests may reach.
///
/// Public addresses need no network. A host that matches no pattern is refused, even with a public
/// address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    networks: Vec<IpNet>,
    hosts: Vec<String>,
}

impl Default for Allowed {
    fn default() -> Self {
        Self::new(Vec::new(), vec!["*".to_owned()])
    }
}

impl Allowed {
    /// Allows the addresses in `networks` in addition to public ones, for hosts that match a
    /// pattern of `hosts`.
    ///
    /// `*` stands for any run of characters, dots included. Letters match without case. A pattern
    /// of an internationalised name has its ASCII form (`xn--…`), a pattern of an IPv6 address has
    /// no brackets. An IPv4-mapped address counts as its IPv4 address.
    pub fn new(networks: Vec<IpNet>, hosts: Vec<String>) -> Self {
        Self { networks, hosts: hosts.iter().map(|pattern| pattern.to_ascii_lowercase()).collect() }
    }

    /// Checks a name, or a literal address without brackets.
    pub(crate) fn check_host(&self, host: &str) -> Result<(), Refused> {
        let host = host.to_ascii_lowercase();
        if self.hosts.iter().any(|pattern| matches(pattern, &host)) {
            Ok(())
        } else {
            Err(Refused::Host { host })
        }
    }

    /// Checks one of the addresses of `host`.
    pub(crate) fn check_address(&self, host: &str, address: IpAddr) -> Result<(), Refused> {
        let address = address.to_canonical();
        if is_public(address) || self.networks.iter().any(|network| network.contains(&address)) {
            return Ok(());
        }
        Err(Refused::Address {
            host: host.to_owned(),
            address,
            class: AddressClass::from_address(address),
        })
    }
}

/// Refusal of a host or an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No pattern matches the host.
    #[error("{host} is not an allowed host")]
    Host {
        /// Name or literal address.
        host: String,
    },
    /// The address is neither public nor in an allowed network.
    ///
    /// The text leaves the address out: it would tell what names mean inside a private network.
    #[error("the address of {host} is {class} and in no allowed network")]
    Address {
        /// Name or literal address.
        host: String,
        /// The address, which is the host's only one or one of several.
        address: IpAddr,
        /// Class of the address.
        class: AddressClass,
    },
}

/// Returns whether the pattern matches the text, in time proportional to the product of their
/// lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Position after the last star, and where its run of characters ends for now. Earlier stars
    // need no second try: their shortest runs leave the most text.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                star = Some((p, t));
            }
            Some(byte) if *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after, end)) = star else { return false };
                star = Some((after, end + 1));
                (p, t) = (after, end + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}
