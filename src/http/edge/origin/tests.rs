use axum::body::Body;

use super::*;

fn check(exposure: Exposure, headers: &[(&str, &str)], body: &str) -> Result<(), u16> {
    let hosts = ["queue.test".to_owned()];
    check_of(exposure, &hosts, "/jobs", headers, body)
}

fn check_of(
    exposure: Exposure,
    hosts: &[String],
    uri: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<(), u16> {
    let origins = Origins::new(exposure, hosts, &["https://app.test".to_owned()]);
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if body.is_empty() { Body::empty() } else { Body::from(body.to_owned()) };
    let request = request.body(body).expect("a request");
    let checked = origins.check_host(&request, false).and_then(|()| origins.check(&request));
    checked.map_err(|problem| problem.code.status().as_u16())
}

#[test]
fn the_host_must_be_a_local_or_configured_name() {
    for host in [
        "localhost",
        "LOCALHOST:9277",
        "a.localhost.:1",
        "127.0.0.1:9277",
        "127.9.9.9",
        "[::1]:9277",
        "queue.test:80",
    ] {
        assert_eq!(check(Exposure::Local, &[("host", host)], ""), Ok(()), "{host}");
    }
    for host in [
        "evil.test",
        "localhost.evil.test:9277",
        "evil-localhost",
        "192.168.0.1",
        "[::2]",
        "",
        "127.0.0.1.evil.test",
    ] {
        let header = [("host", host)];
        assert_eq!(check(Exposure::Local, &header, ""), Err(403), "{host}");
        assert_eq!(check(Exposure::Network, &header, ""), Err(403), "{host}: hosts are set");
        let open = check_of(Exposure::Network, &[], "/jobs", &header, "");
        assert_eq!(open, Ok(()), "{host}: none is set");
        assert_eq!(check_of(Exposure::Local, &[], "/jobs", &header, ""), Err(403), "{host}");
    }
    let two = [("host", "localhost"), ("host", "evil.test")];
    assert_eq!(check(Exposure::Local, &two, ""), Err(403));
    assert_eq!(check(Exposure::Local, &[], ""), Ok(()), "no browser");
}

#[test]
fn a_foreign_web_page_may_not_call() {
    let host = ("host", "localhost:9277");
    for exposure in [Exposure::Local, Exposure::Network] {
        for (name, value, expected) in [
            ("origin", "http://localhost:9277", Ok(())),
            ("origin", "https://app.test", Ok(())),
            ("origin", "http://localhost:3000", Err(403)),
            ("origin", "http://localhost", Err(403)),
            ("origin", "https://evil.test", Err(403)),
            ("origin", "https://app.test.evil.test", Err(403)),
            ("origin", "null", Err(403)),
            ("origin", "", Err(403)),
            ("sec-fetch-site", "cross-site", Err(403)),
            ("sec-fetch-site", "same-site", Err(403)),
            ("sec-fetch-site", "same-origin", Ok(())),
            ("sec-fetch-site", "none", Ok(())),
        ] {
            assert_eq!(check(exposure, &[host, (name, value)], ""), expected, "{value}");
        }
    }
    let both = [host, ("origin", "https://app.test"), ("sec-fetch-site", "cross-site")];
    assert_eq!(check(Exposure::Local, &both, ""), Ok(()));
}

#[test]
fn a_popping_get_is_refused_to_foreign_pages() {
    let host = ("host", "localhost:9277");
    let pop = |headers: &[(&str, &str)]| {
        let headers = [&[host], headers].concat();
        [Exposure::Local, Exposure::Network].map(|exposure| {
            let read = check_of(exposure, &[], "/topics/t", &headers, "");
            (check_of(exposure, &[], "/v1/topics/t/pop", &headers, ""), read)
        })
    };
    let own = ("sec-fetch-site", "same-origin");
    let foreign = [("origin", "https://app.test"), ("sec-fetch-site", "cross-site")];
    for headers in [
        &[][..],
        &[own],
        &[own, ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")],
        &[("sec-fetch-mode", "cors")], // as Node's fetch does
        &[foreign[0], foreign[1], ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")],
    ] {
        assert_eq!(pop(headers), [(Ok(()), Ok(())); 2], "{headers:?}");
    }
    for headers in [
        &[("sec-fetch-site", "none")][..], // a typed address, a bookmark or speculation rules
        &[("sec-purpose", "prefetch")],
        &[own, ("sec-purpose", "prefetch;prerender")],
        &[own, ("purpose", "prefetch")],
        &[own, ("sec-fetch-mode", "navigate")],
        &[own, ("sec-fetch-dest", "document")],
        &[own, ("sec-fetch-dest", "iframe")],
        &[own, ("sec-fetch-dest", "image")],
        &[foreign[0], foreign[1], ("sec-fetch-mode", "navigate")],
    ] {
        assert_eq!(pop(headers), [(Err(403), Ok(())); 2], "{headers:?}");
    }
}

#[test]
fn a_body_must_have_a_type_that_needs_a_cors_preflight() {
    let host = ("host", "localhost:9277");
    let origin = ("origin", "http://localhost:9277");
    for (kind, without, with) in [
        ("application/json", Ok(()), Ok(())),
        ("Application/JSON; charset=utf-8", Ok(()), Ok(())),
        ("application/x-www-form-urlencoded", Ok(()), Err(415)),
        ("text/plain", Err(415), Err(415)),
        ("text/plain; application/json", Err(415), Err(415)),
        ("multipart/form-data; boundary=x", Err(415), Err(415)),
    ] {
        let kind = ("content-type", kind);
        assert_eq!(check(Exposure::Local, &[host, kind], "{}"), without, "{kind:?}");
        assert_eq!(check(Exposure::Local, &[host, origin, kind], "{}"), with, "{kind:?}");
        assert_eq!(check(Exposure::Local, &[host, kind], ""), Ok(()), "without a body");
    }
    assert_eq!(check(Exposure::Local, &[host], "{}"), Ok(()));
    assert_eq!(check(Exposure::Local, &[host, origin], "{}"), Err(415));
}
