use super::{Allowed, Refused, matches};
use crate::address::AddressClass;

#[test]
fn stars_stand_for_any_run_of_characters() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("*", "a.example.com", true),
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "a.b.example.com", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", "a.example.com.evil", false),
        ("*.example.com", "aexample.com", false),
        ("a*b*c", "abbbcbc", true),
        ("a*b*c", "ac", false),
        ("a**c", "ac", true),
        ("10.0.*", "10.0.0.1", true),
        ("", "", true),
        ("", "a", false),
        ("a", "", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn many_stars_take_little_time() {
    assert!(!matches(&"*a".repeat(1000), &"ab".repeat(999)));
}

#[test]
fn hosts_match_without_case() {
    let allowed = Allowed::new(Vec::new(), vec!["*.Example.com".to_owned()]);
    assert_eq!(allowed.check_host("A.eXample.com"), Ok(()));
    assert_eq!(allowed.check_host("evil.com"), Err(Refused::Host { host: "evil.com".to_owned() }));
    assert!(Allowed::new(Vec::new(), Vec::new()).check_host("example.com").is_err());
}

#[test]
fn networks_open_addresses_that_are_not_public() {
    let networks = "10.1.0.0/16 fd00::/16 64:ff9b::/96"
        .split(' ')
        .map(|net| net.parse().expect(net))
        .collect();
    let allowed = Allowed::new(networks, vec!["*".to_owned()]);
    for address in
        "1.1.1.1 2606:4700::1111 10.1.2.3 ::ffff:10.1.2.3 fd00::1 64:ff9b::10.9.9.9".split(' ')
    {
        assert_eq!(
            allowed.check_address("a", address.parse().expect(address)),
            Ok(()),
            "{address}"
        );
    }
    for address in "10.2.0.1 ::ffff:10.2.0.1 127.0.0.1 fd01::1 ::10.1.2.3 2002:a01:203::".split(' ')
    {
        assert!(allowed.check_address("a", address.parse().expect(address)).is_err(), "{address}");
    }
}

#[test]
fn a_refusal_names_host_address_and_class() {
    let refused = Allowed::default()
        .check_address("a.example", "::ffff:10.0.0.1".parse().expect("an address"));
    let refused = refused.expect_err("refused");
    assert!(matches!(refused, Refused::Address { class: AddressClass::Private, .. }));
    let text = "the address of a.example is private and in no allowed network";
    assert_eq!(refused.to_string(), text);
}
