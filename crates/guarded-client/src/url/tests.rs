use proptest::prelude::*;

use super::{TargetUrl, UrlError};
use crate::allowed::{Allowed, Refused};

fn literal(url: &str) -> Option<String> {
    TargetUrl::parse(url).expect(url).literal.map(|address| address.to_string())
}

#[test]
fn every_notation_of_an_address_is_read_and_refused() {
    for (url, address) in [
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://0177.0.0.1/", "127.0.0.1"),
        ("http://0x7f.1/", "127.0.0.1"),
        ("http://0x7F000001", "127.0.0.1"),
        ("http://017700000001", "127.0.0.1"),
        ("http://127.1", "127.0.0.1"),
        ("http://127.0.0.1./", "127.0.0.1"),
        ("http://0/", "0.0.0.0"),
        ("http://１２７.０.０.１/", "127.0.0.1"),
        ("http://127。0。0。1/", "127.0.0.1"),
        ("http://①②⑦.1/", "127.0.0.1"),
        ("http://%31%32%37.1/", "127.0.0.1"),
        ("http://[::1]/", "::1"),
        ("http://[0:0:0:0:0:0:0:1]/", "::1"),
        ("http://[::]/", "::"),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1"),
        ("http://[::ffff:7f00:1]/", "127.0.0.1"),
        ("http://[0:0:0:0:0:FFFF:7f00:0001]/", "127.0.0.1"),
        ("http://[::127.0.0.1]/", "::7f00:1"),
        ("http://[fe80::1]/", "fe80::1"),
        ("http://169.254.169.254/latest/meta-data", "169.254.169.254"),
        ("http://[fd00:ec2::254]/", "fd00:ec2::254"),
        ("http://168.63.129.16:32526/", "168.63.129.16"),
        ("http://[64:ff9b::a9fe:a9fe]/", "64:ff9b::a9fe:a9fe"),
        ("http://[2002:7f00:1::]/", "2002:7f00:1::"),
    ] {
        assert_eq!(literal(url).as_deref(), Some(address), "{url}");
        let refused = TargetUrl::parse(url).expect(url).check(&Allowed::default());
        assert!(matches!(refused, Err(Refused::Address { .. })), "{url}: {refused:?}");
    }
}

#[test]
fn hostile_urls_are_refused() {
    let refused = |url: &str| TargetUrl::parse(url).expect_err(url);
    for url in [
        "",
        "//example.com",
        "example.com",
        "ftp://example.com",
        "file:///etc/passwd",
        "gopher://a",
        "http:example.com",
        "http:/example.com",
        "https:example.com",
        "javascript:alert(1)",
        "data:,a",
        "ws://a",
        "httpx://a",
        "http//a",
        "urn:http://a",
        "jar:http://a",
        "://a",
    ] {
        assert_eq!(refused(url), UrlError::Scheme, "{url}");
    }
    for url in
        ["http://", "https://", "http:///", "http:///example.com", "http://?a", "https:////a"]
    {
        assert_eq!(refused(url), UrlError::NoHost, "{url}");
    }
    for url in [
        "http://a@b",
        "http://@b",
        "http://:@b",
        "http://a:b@c/",
        "https://a.com%2f@b",
        "http://a@b@c",
    ] {
        assert_eq!(refused(url), UrlError::UserInfo, "{url}");
    }
    for url in ["http://a/#", "http://a/#b", "http://a#@b", "http://a/?b#c"] {
        assert_eq!(refused(url), UrlError::Fragment, "{url}");
    }
    for url in [
        " http://a",
        "http://a ",
        "http://a/b c",
        "\thttp://a",
        "ht\ntp://a",
        "http://a\t.b",
        "http://a/\r\nHost: b",
        "http://a\0",
        "http://a/\u{7f}",
        "http://a/\u{a0}",
        "http://a/\u{85}",
        "http://a\u{3000}b",
        "http:\\\\a",
        "http://a\\@b",
        "http://a/\\b",
        "http://a/\u{2028}",
    ] {
        assert!(matches!(refused(url), UrlError::Character(_)), "{url:?}");
    }
    for url in ["http://a:0", "https://a:0/"] {
        assert_eq!(refused(url), UrlError::Port, "{url}");
    }
    for url in [
        "http://localhost.",
        "http://a..b",
        "http://.a",
        "http://a!b",
        "http://a;b",
        "http://*.a",
        "http://a,b",
    ] {
        assert!(matches!(refused(url), UrlError::Name(_)), "{url}");
    }
    for url in [
        "http://a:65536",
        "http://a:b",
        "http://[::1",
        "http://::1",
        "http://[::1%25eth0]",
        "http://[fe80::1%eth0]",
        "http://[127.0.0.1]",
        "http://256.0.0.1",
        "http://1.2.3.4.5",
        "http://0x100000000",
        "http://a%00b",
        "http://a%2fb",
        "http://a%40b",
        "http://a<b",
        "http://a|b",
        "http://a^b",
        "http://xn--a",
        "http://\u{ad}",
        "http://127.0.0.09",
        "http://1.0x.2.g.1",
        "http://[::1]a",
        "http://[]",
    ] {
        assert!(matches!(refused(url), UrlError::Invalid(_)), "{url}: {:?}", refused(url));
    }
}

#[test]
fn a_url_has_at_most_2048_bytes_before_and_after_normalisation() {
    let url = |bytes: usize| format!("http://a/{}", "b".repeat(bytes - 9));
    assert!(TargetUrl::parse(&url(2048)).is_ok());
    assert_eq!(TargetUrl::parse(&url(2049)), Err(UrlError::TooLong(2049)));
    let expanded = format!("http://a/{}", "é".repeat(500));
    assert_eq!(TargetUrl::parse(&expanded), Err(UrlError::TooLong(9 + 3000)));
    let name = |labels: usize| format!("http://{}b", "a.".repeat(labels));
    assert!(TargetUrl::parse(&name(126)).is_ok());
    assert!(matches!(TargetUrl::parse(&name(127)), Err(UrlError::Name(_))));
}

#[test]
fn urls_are_normalised() {
    for (url, text, target) in [
        ("https://Example.COM", "https://example.com/", "https://example.com:443"),
        ("HTTP://example.com:80/a?b=c", "http://example.com/a?b=c", "http://example.com:80"),
        (
            "http://example.com:8080?q=[{|}]^`",
            "http://example.com:8080/?q=[{|}]^`",
            "http://example.com:8080",
        ),
        ("http://a/{b}|^`[]\"é", "http://a/%7Bb%7D|^%60[]%22%C3%A9", "http://a:80"),
        (
            "https://bücher.example/ä?ö=\"",
            "https://xn--bcher-kva.example/%C3%A4?%C3%B6=%22",
            "https://xn--bcher-kva.example:443",
        ),
        ("https://a_b.example/../c/./d@e", "https://a_b.example/c/d@e", "https://a_b.example:443"),
        (
            "http://[2606:4700:0::1111]:81",
            "http://[2606:4700::1111]:81/",
            "http://[2606:4700::1111]:81",
        ),
        ("http://16843009", "http://1.1.1.1/", "http://1.1.1.1:80"),
    ] {
        let parsed = TargetUrl::parse(url).expect(url);
        assert_eq!(parsed.as_str(), text);
        assert_eq!(parsed.to_string(), text);
        assert_eq!(parsed.target().to_string(), target);
        assert_eq!(parsed.check(&Allowed::default()), Ok(()));
        assert_eq!(TargetUrl::parse(text).as_ref(), Ok(&parsed), "normal forms stay as they are");
    }
}

#[test]
fn patterns_apply_to_names_and_literal_addresses() {
    let allowed = Allowed::new(
        vec!["127.0.0.0/8".parse().expect("a network"), "::1/128".parse().expect("a network")],
        vec!["*.example.com".to_owned(), "127.0.0.*".to_owned(), "::1".to_owned()],
    );
    for url in
        ["http://A.example.com", "http://127.1", "http://[::1]:8080", "http://[::ffff:127.0.0.9]"]
    {
        assert_eq!(TargetUrl::parse(url).expect(url).check(&allowed), Ok(()), "{url}");
    }
    for url in [
        "http://example.com",
        "http://a.example.com.evil.com",
        "http://1.1.1.1",
        "http://127.0.1.1",
    ] {
        let refused = TargetUrl::parse(url).expect(url).check(&allowed);
        assert!(matches!(refused, Err(Refused::Host { .. })), "{url}");
    }
}

proptest! {
    #[test]
    fn any_text_is_refused_or_has_one_meaning(rest in prop_oneof![
        any::<String>(),
        "[0-9a-fx.:%@/?\\[\\]-]{0,40}",
        "[0-9０-９.。xX]{1,20}(:[0-9]{0,5})?",
    ]) {
        if let Ok(url) = TargetUrl::parse(&format!("http://{rest}")) {
            prop_assert_eq!(TargetUrl::parse(url.as_str()), Ok(url.clone()));
            // A name must not be an address in the eyes of the connector or of the system.
            let host = url.uri().host().expect("a host").trim_matches(['[', ']']);
            let is_address = host.parse::<std::net::IpAddr>().is_ok();
            prop_assert_eq!(is_address, url.literal.is_some());
            let _ = url.check(&Allowed::default());
        }
    }
}
