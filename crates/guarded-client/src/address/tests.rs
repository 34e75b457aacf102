use super::{AddressClass, is_public};

#[test]
fn every_block_has_its_class_at_both_ends() {
    for (class, addresses) in [
        (
            AddressClass::Public,
            "1.1.1.1 9.255.255.255 11.0.0.0 126.255.255.255 128.0.0.0 172.15.255.255 172.32.0.0",
        ),
        (
            AddressClass::Public,
            "100.63.255.255 100.128.0.0 169.253.255.255 169.255.0.0 192.167.255.255 192.169.0.0",
        ),
        (
            AddressClass::Public,
            "192.0.1.0 198.17.255.255 198.20.0.0 223.255.255.255 168.63.129.15 168.63.129.17",
        ),
        (
            AddressClass::Public,
            "2606:4700::1111 2000:: 2001:200:: 2001:db9:: 2003:: 3ffe:: 3fff:1000:: 3fff:ffff::",
        ),
        (AddressClass::Public, "::ffff:8.8.8.8"),
        (AddressClass::Unspecified, "0.0.0.0 0.255.255.255 :: ::ffff:0.0.0.0"),
        (AddressClass::Loopback, "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1"),
        (
            AddressClass::Private,
            "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255",
        ),
        (AddressClass::Private, "fc00:: fdff:ffff:: fec0:: feff:ffff:: ::ffff:10.0.0.1"),
        (AddressClass::LinkLocal, "169.254.0.0 169.254.255.255 fe80:: febf:ffff::"),
        (AddressClass::Shared, "100.64.0.0 100.127.255.255"),
        (
            AddressClass::Metadata,
            "169.254.169.254 100.100.100.200 192.0.0.192 168.63.129.16 fd00:ec2::254",
        ),
        (AddressClass::Metadata, "fd20:ce::254 ::ffff:169.254.169.254"),
        (AddressClass::Multicast, "224.0.0.0 239.255.255.255 ff00:: ffff::"),
        (
            AddressClass::Documentation,
            "192.0.2.0 192.0.2.255 198.51.100.1 203.0.113.1 2001:db8:: 2001:db8:ffff::",
        ),
        (AddressClass::Documentation, "3fff:: 3fff:fff::"),
        (AddressClass::Benchmarking, "198.18.0.0 198.19.255.255 2001:2::"),
        (
            AddressClass::Translated,
            "64:ff9b::127.0.0.1 64:ff9b:1::1 64:ff9b:1:ffff:: 2002:7f00:1:: 2001::1",
        ),
        (AddressClass::Translated, "::127.0.0.1 ::8.8.8.8 192.88.99.1"),
        (AddressClass::Reserved, "240.0.0.0 255.255.255.254 255.255.255.255 192.0.0.0 192.0.0.255"),
        (
            AddressClass::Reserved,
            "100:: 100::1 5f00:: 64:ff9b::1:0:0 2001:10:: 2001:20:: 2001:1ff:: 4000:: 1fff::",
        ),
        (AddressClass::Reserved, "::1:0:0:0 ::fffe:0:0 fbff::"),
    ] {
        for address in addresses.split(' ') {
            let ip = address.parse().expect(address);
            assert_eq!(AddressClass::from_address(ip), class, "{address}");
            assert_eq!(is_public(ip), class == AddressClass::Public, "{address}");
        }
    }
}
