//! Names, their addresses, and names whose addresses change.

use std::{net::SocketAddr, sync::Arc};

use guarded_client::{Allowed, Client, Failure, Options};
use tokio::{io::AsyncWriteExt, net::TcpListener, task::JoinHandle};

use crate::support::{Names, allowed, body, is_untouched, listen, loopback, post, read_request};

fn client(networks: &[&str], names: &Arc<Names>) -> Client {
    let options = Options { allowed: allowed(networks), ..loopback() };
    Client::with_resolver(options, names.clone()).expect("a client")
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect(text)
}

/// Answers one request with a text, closes the connection, and returns the request.
fn answer_once(listener: TcpListener, text: &'static str) -> JoinHandle<String> {
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.expect("accepted");
        let request = read_request(&mut tcp).await;
        let answer = format!(
            "HTTP/1.1 200 Ok\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        tcp.write_all(answer.as_bytes()).await.expect("written");
        request
    })
}

#[tokio::test]
async fn literal_addresses_are_checked() {
    let (listener, address) = listen().await;
    let port = address.port();
    let client = client(&[], &Names::new([]));
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "0", "[::ffff:127.0.0.1]", "[::1]"] {
        let failure = post(&client, &format!("http://{host}:{port}/")).await;
        assert!(
            matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("no allowed network")),
            "{failure:?}"
        );
    }
    assert!(is_untouched(&listener).await);

    let client = self::client(&["127.0.0.0/8"], &Names::new([]));
    let endpoint = answer_once(listener, "ok");
    assert_eq!(body(post(&client, &format!("http://[::ffff:127.0.0.1]:{port}/")).await), "ok");
    endpoint.await.expect("a request");
}

#[tokio::test]
async fn hosts_that_match_no_pattern_are_not_resolved() {
    let names = Names::new([]);
    let allowed = Allowed::new(Vec::new(), vec!["*.example.com".to_owned()]);
    let client =
        Client::with_resolver(Options { allowed, ..loopback() }, names.clone()).expect("a client");
    let failure = post(&client, "http://evil.test/").await;
    assert_eq!(
        failure.expect_err("refused"),
        Failure::NotSent("evil.test is not an allowed host".to_owned())
    );
    assert!(names.asked.lock().expect("locked").is_empty());
}

#[tokio::test]
async fn names_of_private_addresses_are_refused() {
    for private in [
        "10.0.0.1:80",
        "[::1]:80",
        "[::ffff:10.0.0.1]:80",
        "169.254.169.254:80",
        "[fd00::1]:80",
        "0.0.0.0:80",
    ] {
        let names = Names::new([&[address(private)]]);
        let failure = post(&client(&[], &names), "http://a.test/").await;
        // The text does not tell what the name means inside the network.
        let address = address(private).ip().to_canonical().to_string();
        assert!(
            matches!(
                failure,
                Err(Failure::NotSent(ref text))
                    if text.starts_with("the address of a.test is ") && !text.contains(&address)
            ),
            "{failure:?}"
        );
        assert_eq!(*names.asked.lock().expect("locked"), ["a.test"]);
    }
}

#[tokio::test]
async fn the_systems_resolver_is_checked_too() {
    let (listener, address) = listen().await;
    let url = format!("http://localhost:{}/", address.port());
    let failure = post(&Client::new(Options::default()).expect("a client"), &url).await;
    assert!(
        matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("loopback")),
        "{failure:?}"
    );
    assert!(is_untouched(&listener).await);

    let options = Options { allowed: allowed(&["127.0.0.0/8", "::1/128"]), ..loopback() };
    let endpoint = answer_once(listener, "ok");
    assert_eq!(body(post(&Client::new(options).expect("a client"), &url).await), "ok");
    assert!(
        endpoint
            .await
            .expect("a request")
            .contains(&format!("host: localhost:{}\r\n", address.port()))
    );
}

#[tokio::test]
async fn one_forbidden_address_refuses_the_name() {
    let (listener, good) = listen().await;
    let bad = address("10.0.0.1:80");
    for found in [[good, bad], [bad, good]] {
        let names = Names::new([&found]);
        let failure = post(&client(&["127.0.0.0/8"], &names), "http://a.test/").await;
        assert!(
            matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("private")),
            "{failure:?}"
        );
    }
    // However many are allowed.
    let mut many = vec![good; 100];
    many.push(bad);
    let names = Names::new([&many]);
    assert!(post(&client(&["127.0.0.0/8"], &names), "http://a.test/").await.is_err());
    assert!(is_untouched(&listener).await);
}

#[tokio::test]
async fn each_connection_is_checked_and_goes_to_the_checked_address() {
    let (first, first_address) = listen().await;
    let second = TcpListener::bind("127.0.0.2:0").await.expect("bound");
    let second_address = second.local_addr().expect("an address");
    let metadata = address("169.254.169.254:80");
    let names = Names::new([&[first_address], &[metadata], &[second_address]]);
    let client = client(&["127.0.0.0/8"], &names);

    let endpoint = answer_once(first, "first");
    assert_eq!(body(post(&client, "http://a.test/b").await), "first");
    assert!(endpoint.await.expect("a request").contains("host: a.test\r\n"));

    let failure = post(&client, "http://a.test/b").await;
    assert!(
        matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("metadata")),
        "{failure:?}"
    );

    let endpoint = answer_once(second, "second");
    assert_eq!(body(post(&client, "http://a.test/b").await), "second");
    endpoint.await.expect("a request");
    assert_eq!(names.asked.lock().expect("locked").len(), 3);
}

#[tokio::test]
async fn addresses_are_tried_in_turn() {
    let (gone, gone_address) = listen().await;
    drop(gone);
    let (listener, address) = listen().await;
    let names = Names::new([&[gone_address, address]]);
    let endpoint = answer_once(listener, "ok");
    assert_eq!(body(post(&client(&["127.0.0.0/8"], &names), "http://a.test/").await), "ok");
    endpoint.await.expect("a request");

    let names = Names::new([&[]]);
    let failure = post(&client(&[], &names), "http://a.test/").await;
    assert!(
        matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("no address")),
        "{failure:?}"
    );
}
