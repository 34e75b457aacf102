//! Connections that are kept for later requests.

use std::{net::SocketAddr, time::Duration};

use guarded_client::{Client, Failure};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    time::{advance, pause, resume},
};

use crate::support::{body, client, is_untouched, listen, post, read_request, until_closed};

const OK: &[u8] = b"HTTP/1.1 200 Ok\r\nContent-Length: 2\r\n\r\nok";

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.expect("accepted").0
}

/// Reads a request and writes these bytes.
async fn answer(tcp: &mut TcpStream, bytes: &[u8]) {
    read_request(tcp).await;
    tcp.write_all(bytes).await.expect("written");
}

/// Sends a request to an address and checks its answer. Asserts inside, since a failed request
/// would leave the endpoint waiting.
async fn succeed(client: &Client, address: SocketAddr) {
    assert_eq!(body(post(client, &format!("http://{address}/")).await), "ok");
}

/// Sends a request that a new connection gets, and returns the connection.
async fn on_new(
    client: &Client,
    (listener, address): &(TcpListener, SocketAddr),
    bytes: &[u8],
) -> TcpStream {
    let ((), tcp) = tokio::join!(succeed(client, *address), async {
        let mut tcp = accept(listener).await;
        answer(&mut tcp, bytes).await;
        tcp
    });
    tcp
}

/// Lets time pass for the client.
async fn wait(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

#[tokio::test]
async fn connections_are_kept_for_later_requests() {
    let endpoint = listen().await;
    let client = client();
    let mut tcp = on_new(&client, &endpoint, OK).await;
    for _ in 0..3 {
        tokio::join!(succeed(&client, endpoint.1), answer(&mut tcp, OK));
    }
    assert!(is_untouched(&endpoint.0).await);
}

#[tokio::test]
async fn each_request_at_once_has_a_connection_of_its_own() {
    let (listener, address) = listen().await;
    let client = client();
    let requests = (0..8).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { succeed(&client, address).await })
    });
    let requests: Vec<_> = requests.collect();
    let mut open = Vec::new();
    // No request has an answer before all have arrived.
    for _ in 0..8 {
        let mut tcp = accept(&listener).await;
        read_request(&mut tcp).await;
        open.push(tcp);
    }
    for tcp in &mut open {
        tcp.write_all(OK).await.expect("written");
    }
    for request in requests {
        request.await.expect("an answer");
    }
}

#[tokio::test]
async fn a_request_on_a_closed_kept_connection_goes_to_a_new_one() {
    let endpoint = listen().await;
    let client = client();
    for _ in 0..20 {
        drop(on_new(&client, &endpoint, OK).await);
        // A round trip over other sockets lets the runtime see the end of the kept connection.
        let (other, other_address) = listen().await;
        let (_, connected) = tokio::join!(accept(&other), TcpStream::connect(other_address));
        connected.expect("connected");
    }
}

#[tokio::test]
async fn a_request_that_a_kept_connection_swallowed_is_repeated() {
    let endpoint = listen().await;
    let client = client();
    for is_reset in [false, true] {
        let mut tcp = on_new(&client, &endpoint, OK).await;
        let ((), tcp) = tokio::join!(succeed(&client, endpoint.1), async {
            read_request(&mut tcp).await;
            if is_reset {
                tcp.set_zero_linger().expect("set");
            }
            drop(tcp);
            let mut tcp = accept(&endpoint.0).await;
            answer(&mut tcp, OK).await;
            tcp
        });
        drop(tcp);
        wait(Duration::from_secs(4)).await;
    }
}

#[tokio::test]
async fn a_request_is_repeated_only_once() {
    let endpoint = listen().await;
    let client = client();
    let mut tcp = on_new(&client, &endpoint, OK).await;
    let url = format!("http://{}/", endpoint.1);
    let (failure, ()) = tokio::join!(post(&client, &url), async {
        read_request(&mut tcp).await;
        drop(tcp);
        read_request(&mut accept(&endpoint.0).await).await;
    });
    assert!(matches!(failure, Err(Failure::Lost(_))), "{failure:?}");
    assert!(is_untouched(&endpoint.0).await);
}

#[tokio::test]
async fn a_request_with_the_begin_of_an_answer_is_not_repeated() {
    let endpoint = listen().await;
    let client = client();
    let mut tcp = on_new(&client, &endpoint, OK).await;
    let url = format!("http://{}/", endpoint.1);
    let (failure, ()) = tokio::join!(post(&client, &url), async {
        answer(&mut tcp, b"H").await;
        drop(tcp);
    });
    assert!(matches!(failure, Err(Failure::Lost(_))), "{failure:?}");
    assert!(is_untouched(&endpoint.0).await);
}

#[tokio::test]
async fn idle_connections_are_closed_before_the_endpoint_would() {
    let endpoint = listen().await;
    let client = client();
    let limited = b"HTTP/1.1 200 Ok\r\nKeep-Alive: timeout=3\r\nContent-Length: 2\r\n\r\nok";
    for (bytes, seconds) in [(OK, 4), (limited, 2)] {
        let mut tcp = on_new(&client, &endpoint, bytes).await;
        wait(Duration::from_millis(seconds * 500)).await;
        tokio::join!(succeed(&client, endpoint.1), answer(&mut tcp, bytes));
        wait(Duration::from_secs(seconds)).await;
        until_closed(&mut tcp).await;
    }
    let unkept = b"HTTP/1.1 200 Ok\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok";
    until_closed(&mut on_new(&client, &endpoint, unkept).await).await;
    let unkept = b"HTTP/1.1 200 Ok\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    until_closed(&mut on_new(&client, &endpoint, unkept).await).await;
}

#[tokio::test]
async fn a_busy_connection_is_replaced_after_half_a_minute() {
    let endpoint = listen().await;
    let client = client();
    let mut tcp = on_new(&client, &endpoint, OK).await;
    for _ in 0..9 {
        wait(Duration::from_secs(3)).await;
        tokio::join!(succeed(&client, endpoint.1), answer(&mut tcp, OK));
    }
    wait(Duration::from_secs(3)).await;
    on_new(&client, &endpoint, OK).await;
    until_closed(&mut tcp).await;
}
