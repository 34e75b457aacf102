//! Connections through a proxy.

use std::{sync::Arc, time::Duration};

use guarded_client::{Client, Failure, Options, ProxyUrl};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::support::{Names, allowed, is_untouched, listen, loopback, post, read_request};

/// Client of a proxy, with only public addresses allowed.
fn client(proxy: &str, names: &Arc<Names>) -> Client {
    let proxy = Some(ProxyUrl::parse(proxy).expect(proxy));
    let options = Options {
        allowed: allowed(&[]),
        proxy,
        connect_timeout: Duration::from_millis(500),
        ..loopback()
    };
    Client::with_resolver(options, names.clone()).expect("a client")
}

/// Accepts a connection, and reads the head of its first request.
async fn accept(listener: &TcpListener) -> (TcpStream, String) {
    let (mut tcp, _) = listener.accept().await.expect("accepted");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert!(tcp.read_buf(&mut head).await.expect("read") > 0);
    }
    (tcp, String::from_utf8(head).expect("text"))
}

#[tokio::test]
async fn the_proxy_connects_to_the_checked_address() {
    let (listener, address) = listen().await;
    let endpoint = tokio::spawn(async move {
        let (mut tcp, connect) = accept(&listener).await;
        tcp.write_all(b"HTTP/1.1 200 Ok\r\n\r\n").await.expect("written");
        let request = read_request(&mut tcp).await;
        tcp.write_all(b"HTTP/1.1 204 Ok\r\n\r\n").await.expect("written");
        (connect, request)
    });
    let names = Names::new([&["1.2.3.4:80".parse().expect("an address")]]);
    let client = client(&format!("http://user:secret@{address}"), &names);
    let answer = post(&client, "http://a.test/b").await.expect("an answer");
    assert_eq!((answer.status.as_u16(), answer.is_public), (204, true));
    let (connect, request) = endpoint.await.expect("a request");
    // user:secret
    let credentials = "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=";
    assert_eq!(
        connect,
        format!("CONNECT 1.2.3.4:80 HTTP/1.1\r\nHost: 1.2.3.4:80\r\n{credentials}\r\n\r\n")
    );
    assert!(
        request.starts_with("POST /b HTTP/1.1\r\n") && request.contains("host: a.test\r\n"),
        "{request}"
    );
    assert!(!request.to_lowercase().contains("proxy"), "{request}");
    assert_eq!(*names.asked.lock().expect("locked"), ["a.test"]);
}

#[tokio::test]
async fn forbidden_addresses_do_not_reach_the_proxy() {
    let (listener, address) = listen().await;
    let names = Names::new([&["10.0.0.1:80".parse().expect("an address")]]);
    let client = client(&format!("http://{address}"), &names);
    for url in ["http://a.test/", "http://127.0.0.1/", "http://[::1]/"] {
        let failure = post(&client, url).await;
        assert!(
            matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("no allowed")),
            "{failure:?}"
        );
    }
    assert!(is_untouched(&listener).await);
}

#[tokio::test]
async fn a_refusing_silent_or_absent_proxy_sends_nothing() {
    let (listener, address) = listen().await;
    let url = format!("http://user:secret@{address}");
    let endpoint = tokio::spawn(async move {
        let (mut tcp, _) = accept(&listener).await;
        tcp.write_all(b"HTTP/1.1 403 No\r\n\r\n").await.expect("written");
        listener
    });
    let client = client(&url, &Names::new([]));
    let failure = post(&client, "http://1.2.3.4/").await.expect_err("no answer");
    let expected =
        format!("could not connect to 1.2.3.4 at 1.2.3.4:80 through the proxy http://{address}: ");
    assert_eq!(failure, Failure::NotSent(expected.clone() + "it answered CONNECT with 403"));

    let listener = endpoint.await.expect("a listener");
    let failure = post(&client, "http://1.2.3.4/").await.expect_err("no answer");
    assert!(matches!(failure, Failure::NotSent(_)), "{failure:?}");

    drop(listener);
    let failure = post(&client, "http://1.2.3.4/").await.expect_err("no answer");
    assert!(
        matches!(failure, Failure::NotSent(ref text) if text.starts_with(&expected)),
        "{failure:?}"
    );
    assert!(!format!("{failure} {client:?}").contains("secret"));
}

#[tokio::test]
async fn the_proxy_itself_may_have_a_name_and_a_private_address() {
    let (listener, address) = listen().await;
    let endpoint = tokio::spawn(async move {
        let (mut tcp, connect) = accept(&listener).await;
        tcp.write_all(b"HTTP/1.1 200 Ok\r\n\r\n").await.expect("written");
        read_request(&mut tcp).await;
        tcp.write_all(b"HTTP/1.1 204 Ok\r\n\r\n").await.expect("written");
        connect
    });
    let names = Names::new([&[address]]);
    let client = client("http://proxy.test:3128", &names);
    post(&client, "http://[2606:4700::1111]:8080/").await.expect("an answer");
    assert!(
        endpoint
            .await
            .expect("a request")
            .starts_with("CONNECT [2606:4700::1111]:8080 HTTP/1.1\r\n")
    );
    assert_eq!(*names.asked.lock().expect("locked"), ["proxy.test"]);
}
