use std::{io, net::SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{MAX_HEAD, ProxyUrl};

#[test]
fn user_and_password_are_decoded_and_hidden() {
    let proxy = ProxyUrl::parse("http://us%65r:p%40ss@proxy.example:3128").expect("a proxy");
    assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.example", 3128));
    // user:p@ss
    assert_eq!(proxy.credentials.as_deref(), Some("dXNlcjpwQHNz"));
    assert_eq!(
        format!("{proxy} {proxy:?}"),
        "http://proxy.example:3128 ProxyUrl(http://proxy.example:3128)"
    );

    let proxy = ProxyUrl::parse("http://[::1]/").expect("a proxy");
    assert_eq!((proxy.host.as_str(), proxy.port, proxy.credentials.as_deref()), ("::1", 80, None));
    assert_eq!(proxy.to_string(), "http://[::1]:80");
}

#[test]
fn other_urls_are_no_proxies() {
    for url in [
        "",
        "proxy:3128",
        "https://proxy",
        "socks5://proxy",
        "http://",
        "http://proxy/a",
        "http://proxy?a",
        "http://proxy#a",
        "http://proxy:0",
        "http://pro xy",
        "http://proxy\r\nA: b",
    ] {
        assert!(ProxyUrl::parse(url).is_err(), "{url}");
    }
}

/// Opens a tunnel through a proxy that answers with these bytes, and returns the result and the
/// request.
async fn opened(answer: &[u8]) -> (io::Result<()>, String) {
    let (mut client, mut proxy) = tokio::io::duplex(1 << 20);
    proxy.write_all(answer).await.expect("written");
    let url = ProxyUrl::parse("http://proxy").expect("a proxy");
    let to: SocketAddr = "[2606:4700::1111]:443".parse().expect("an address");
    proxy.shutdown().await.expect("shut down");
    let result = url.open(&mut client, to).await;
    drop(client);
    let mut request = String::new();
    proxy.read_to_string(&mut request).await.expect("read");
    (result, request)
}

#[tokio::test]
async fn only_a_complete_and_exact_answer_opens_a_tunnel() {
    let (result, request) = opened(b"HTTP/1.1 200 Connection established\r\nA: b\r\n\r\n").await;
    result.expect("opened");
    assert_eq!(
        request,
        "CONNECT [2606:4700::1111]:443 HTTP/1.1\r\nHost: [2606:4700::1111]:443\r\n\r\n"
    );
    opened(b"HTTP/1.0 299\r\n\r\n").await.0.expect("opened");

    let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "a".repeat(MAX_HEAD));
    for (answer, reason) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "with 407"),
        ("HTTP/1.1 200 OK\r\n\r\nX", "before the tunnel"),
        ("HTTP/1.1 200 OK\r\n", "closed the connection"),
        ("", "closed the connection"),
        ("HTTP/2 200\r\n\r\n", "other than HTTP/1"),
        ("HTTP/1.1 2000\r\n\r\n", "other than HTTP/1"),
        ("HTTP/1.1 20\r\n\r\n", "other than HTTP/1"),
        ("\r\n\r\n", "other than HTTP/1"),
        (&long, "too long"),
    ] {
        let error = opened(answer.as_bytes()).await.0.expect_err(answer);
        assert!(error.to_string().contains(reason), "{answer}: {error}");
    }
}
