//! Classes of addresses, from the special-purpose registries of IANA.
//!
//! IPv4 addresses are public unless a table lists them. IPv6 addresses are public only in
//! `2000::/3`, the one block that IANA assigns for global unicast.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::{Ipv4Net, Ipv6Net};

#[cfg(test)]
mod tests;

/// Purpose of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressClass {
    /// Reachable over the Internet.
    Public,
    /// `0.0.0.0/8` and `::`: many systems connect them to the host itself.
    Unspecified,
    /// The host itself.
    Loopback,
    /// Private and unique local networks, and the former site-local ones.
    Private,
    /// The local link.
    LinkLocal,
    /// Between a provider's customers and its address translation (`100.64.0.0/10`).
    Shared,
    /// Service of a cloud provider that hands out credentials or configuration.
    Metadata,
    /// Group of hosts.
    Multicast,
    /// Examples in documentation.
    Documentation,
    /// Benchmarks of network devices.
    Benchmarking,
    /// An IPv4 address that a gateway or tunnel unpacks: NAT64, 6to4, Teredo, IPv4-compatible.
    Translated,
    /// Reserved, or not assigned for global unicast.
    Reserved,
}

impl AddressClass {
    /// Returns the class of an address. An IPv4-mapped address has the class of its IPv4 address.
    pub fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => V4
                .iter()
                .find(|(network, _)| network.contains(&v4))
                .map_or(Self::Public, |(_, class)| *class),
            IpAddr::V6(v6) => V6
                .iter()
                .find(|(network, _)| network.contains(&v6))
                .map_or(Self::Reserved, |(_, class)| *class),
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Shared => "shared by a provider's customers",
            Self::Metadata => "a cloud metadata service",
            Self::Multicast => "multicast",
            Self::Documentation => "reserved for documentation",
            Self::Benchmarking => "reserved for benchmarks",
            Self::Translated => "a translated IPv4 address",
            Self::Reserved => "reserved",
        })
    }
}

/// Returns whether an address is reachable over the Internet and has no special purpose.
pub fn is_public(address: IpAddr) -> bool {
    AddressClass::from_address(address) == AddressClass::Public
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(segments: [u16; 8], prefix: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}

/// The first network that contains an address decides.
const V4: &[(Ipv4Net, AddressClass)] = &[
    (v4(169, 254, 169, 254, 32), AddressClass::Metadata),
    (v4(100, 100, 100, 200, 32), AddressClass::Metadata),
    (v4(192, 0, 0, 192, 32), AddressClass::Metadata),
    // Azure's wire server: its block is public.
    (v4(168, 63, 129, 16, 32), AddressClass::Metadata),
    (v4(0, 0, 0, 0, 8), AddressClass::Unspecified),
    (v4(127, 0, 0, 0, 8), AddressClass::Loopback),
    (v4(10, 0, 0, 0, 8), AddressClass::Private),
    (v4(172, 16, 0, 0, 12), AddressClass::Private),
    (v4(192, 168, 0, 0, 16), AddressClass::Private),
    (v4(169, 254, 0, 0, 16), AddressClass::LinkLocal),
    (v4(100, 64, 0, 0, 10), AddressClass::Shared),
    (v4(224, 0, 0, 0, 4), AddressClass::Multicast),
    (v4(240, 0, 0, 0, 4), AddressClass::Reserved),
    (v4(192, 0, 0, 0, 24), AddressClass::Reserved),
    (v4(192, 0, 2, 0, 24), AddressClass::Documentation),
    (v4(198, 51, 100, 0, 24), AddressClass::Documentation),
    (v4(203, 0, 113, 0, 24), AddressClass::Documentation),
    (v4(198, 18, 0, 0, 15), AddressClass::Benchmarking),
    // Former relays of 6to4.
    (v4(192, 88, 99, 0, 24), AddressClass::Translated),
];

/// The first network that contains an address decides. Addresses in none are reserved.
const V6: &[(Ipv6Net, AddressClass)] = &[
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), AddressClass::Metadata),
    // Google's.
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), AddressClass::Metadata),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), AddressClass::Unspecified),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), AddressClass::Loopback),
    // IPv4-compatible.
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), AddressClass::Translated),
    // NAT64.
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), AddressClass::Translated),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), AddressClass::Translated),
    // 6to4 and Teredo.
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), AddressClass::Translated),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), AddressClass::Translated),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), AddressClass::Benchmarking),
    // Protocol assignments, ORCHID among them.
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), AddressClass::Reserved),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), AddressClass::Documentation),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), AddressClass::Documentation),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), AddressClass::Private),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), AddressClass::LinkLocal),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), AddressClass::Private),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), AddressClass::Multicast),
    (v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), AddressClass::Public),
];
