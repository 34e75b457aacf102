use std::net::SocketAddr;

use super::{alternate, canonical};

fn addresses(text: &str) -> Vec<SocketAddr> {
    text.split_whitespace().map(|address| address.parse().expect(address)).collect()
}

#[test]
fn tries_alternate_between_families() {
    for (given, expected) in [
        ("", ""),
        ("1.1.1.1:1 1.1.1.2:1", "1.1.1.1:1 1.1.1.2:1"),
        (
            "[::1]:1 [::2]:1 1.1.1.1:1 1.1.1.2:1 [::3]:1",
            "[::1]:1 1.1.1.1:1 [::2]:1 1.1.1.2:1 [::3]:1",
        ),
        ("1.1.1.1:1 [::1]:1 [::2]:1 [::3]:1", "1.1.1.1:1 [::1]:1 [::2]:1 [::3]:1"),
        ("1.1.1.1:1 1.1.1.2:1 1.1.1.3:1 [::1]:1", "1.1.1.1:1 [::1]:1 1.1.1.2:1 1.1.1.3:1"),
    ] {
        assert_eq!(alternate(addresses(given)), addresses(expected), "{given}");
    }
}

#[test]
fn mapped_addresses_are_connected_to_as_ipv4() {
    for (given, expected) in
        [("[::ffff:1.2.3.4]:5", "1.2.3.4:5"), ("1.2.3.4:5", "1.2.3.4:5"), ("[::1]:5", "[::1]:5")]
    {
        assert_eq!(
            addresses(given).into_iter().map(canonical).collect::<Vec<_>>(),
            addresses(expected)
        );
    }
}
