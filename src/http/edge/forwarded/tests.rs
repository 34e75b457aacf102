use super::*;

fn client(lines: &[(&'static str, &str)]) -> String {
    let networks = ["10.0.0.0/8", "2001:db8:ffff::/48"].map(|net| net.parse().expect("a network"));
    let proxies = TrustedProxies::new(networks.to_vec());
    let mut headers = HeaderMap::new();
    for (name, line) in lines {
        headers.append(*name, line.parse().expect("a header"));
    }
    proxies.client("10.0.0.1".parse().expect("an address"), &headers).to_string()
}

#[test]
fn the_last_untrusted_address_is_the_clients() {
    for (line, expected) in [
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("192.0.2.7, 10.2.3.4", "192.0.2.7"),
        ("192.0.2.7, 2001:db8:ffff::2,10.2.3.4", "192.0.2.7"),
        ("1.2.3.4, 192.0.2.7, 10.2.3.4", "192.0.2.7"), // the client wrote the first one
        ("10.9.9.9, 10.2.3.4", "10.9.9.9"),
        ("192.0.2.7, nonsense, 10.2.3.4", "10.2.3.4"),
        ("192.0.2.7, unknown", "10.0.0.1"),
        ("", "10.0.0.1"),
    ] {
        assert_eq!(client(&[("x-forwarded-for", line)]), expected, "{line}");
    }
    let lines = [("x-forwarded-for", "192.0.2.7"), ("x-forwarded-for", "10.2.3.4")];
    assert_eq!(client(&lines), "192.0.2.7", "several lines are one list");
    assert_eq!(client(&[]), "10.0.0.1");
}

#[test]
fn forwarded_is_parsed_as_rfc_7239_specifies() {
    for (line, expected) in [
        ("for=192.0.2.7", "192.0.2.7"),
        ("For=\"[2001:db8::1]:4711\"", "2001:db8::1"),
        ("for=1.2.3.4, for=192.0.2.7;proto=http;by=203.0.113.43, for=10.2.3.4", "192.0.2.7"),
        ("by=\"a,b;for=1.1.1.1\";for=192.0.2.7", "192.0.2.7"),
        ("by=\"a\\\",for=1.1.1.1\";for=192.0.2.7", "192.0.2.7"),
        ("for=192.0.2.7;for=1.2.3.4", "10.0.0.1"),
        ("for=192.0.2.7, for=_hidden", "10.0.0.1"),
        ("for=192.0.2.7, for=\"_gazonk\", for=10.2.3.4", "10.2.3.4"),
        ("proto=https", "10.0.0.1"),
    ] {
        assert_eq!(client(&[("forwarded", line)]), expected, "{line}");
    }
    let both = |one, other| client(&[("forwarded", one), ("x-forwarded-for", other)]);
    assert_eq!(both("for=192.0.2.7", "192.0.2.7"), "192.0.2.7");
    let why = "the headers disagree, so the client wrote one of them";
    assert_eq!(both("for=1.2.3.4", "192.0.2.7"), "10.0.0.1", "{why}");
}

#[test]
fn the_scheme_is_the_one_that_the_last_proxy_names() {
    for (name, line, expected) in [
        ("x-forwarded-proto", "https", Some(true)),
        ("x-forwarded-proto", "HTTP", Some(false)),
        ("x-forwarded-proto", "http, https", Some(true)),
        ("x-forwarded-proto", "gopher", None),
        ("forwarded", "for=1.2.3.4;proto=http, for=10.2.3.4;proto=https", Some(true)),
        ("forwarded", "for=1.2.3.4", None),
    ] {
        let headers = HeaderMap::from_iter([(
            name.parse().expect("a name"),
            line.parse().expect("a header"),
        )]);
        assert_eq!(is_https(&headers), expected, "{line}");
    }
}
