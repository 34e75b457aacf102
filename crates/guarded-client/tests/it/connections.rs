//! Connections that fail or break.

use std::{sync::Arc, time::Duration};

use guarded_client::{Client, Failure, Limits, Options, Resolve, Resolving};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::support::{
    body, client, is_untouched, listen, loopback, post, post_within, read_request, short,
};

const OK: &[u8] = b"HTTP/1.1 200 Ok\r\nContent-Length: 2\r\n\r\nok";

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.expect("accepted").0
}

#[tokio::test]
async fn a_refused_connection_sends_nothing() {
    let (listener, address) = listen().await;
    drop(listener);
    let failure = post(&client(), &format!("http://{address}/")).await;
    assert!(
        matches!(failure, Err(Failure::NotSent(ref text)) if text.contains(&address.to_string())),
        "{failure:?}"
    );
}

#[tokio::test]
async fn a_reset_after_the_request_loses_it() {
    let (listener, address) = listen().await;
    let endpoint = tokio::spawn(async move {
        let mut tcp = accept(&listener).await;
        read_request(&mut tcp).await;
        tcp.set_zero_linger().expect("set");
        drop(tcp);
        listener
    });
    let failure = post(&client(), &format!("http://{address}/")).await;
    assert!(
        matches!(failure, Err(Failure::Lost(ref text)) if text.contains(&address.to_string())),
        "{failure:?}"
    );
    assert!(
        is_untouched(&endpoint.await.expect("a listener")).await,
        "a lost request is not repeated"
    );
}

#[tokio::test]
async fn an_endpoint_that_accepts_and_stays_silent_times_out() {
    let (_listener, address) = listen().await;
    let failure = post_within(&client(), &format!("http://{address}/"), short()).await;
    assert!(matches!(failure, Err(Failure::TimedOut(_))), "{failure:?}");
}

#[tokio::test]
async fn a_handshake_without_end_sends_nothing() {
    let (_listener, address) = listen().await;
    let url = format!("https://{address}/");
    let failure = post_within(&client(), &url, short()).await;
    assert!(
        matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("no connection")),
        "{failure:?}"
    );

    let client = Client::new(Options { connect_timeout: Duration::from_millis(200), ..loopback() })
        .expect("a client");
    let failure = post(&client, &url).await;
    assert!(
        matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("could not connect")),
        "{failure:?}"
    );
}

struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _: &str, _: u16) -> Resolving {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_resolution_without_end_sends_nothing() {
    let options = Options { connect_timeout: Duration::from_millis(200), ..loopback() };
    let client = Client::with_resolver(options, Arc::new(Silent)).expect("a client");
    let failure = post(&client, "http://a.test/").await;
    assert!(
        matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("a.test")),
        "{failure:?}"
    );
}

#[tokio::test]
async fn extreme_limits_do_no_harm() {
    let (listener, address) = listen().await;
    let url = format!("http://{address}/");
    let longest = Limits { timeout: Duration::MAX, answer_bytes: usize::MAX };
    let client_with =
        |connect_timeout| Client::new(Options { connect_timeout, ..loopback() }).expect("a client");
    // A connection may still succeed at its first poll; no answer does.
    post_within(&client_with(Duration::ZERO), &url, short()).await.expect_err("no answer");
    let shortest = Limits { timeout: Duration::ZERO, answer_bytes: 0 };
    post_within(&client(), &url, shortest).await.expect_err("no answer");

    // The attempts above may have left connections.
    let endpoint = tokio::spawn(async move {
        loop {
            let mut tcp = accept(&listener).await;
            tokio::spawn(async move {
                let mut read = Vec::new();
                while !read.ends_with(b"job")
                    && tcp.read_buf(&mut read).await.is_ok_and(|bytes| bytes > 0)
                {}
                tcp.write_all(OK).await
            });
        }
    });
    assert_eq!(body(post_within(&client_with(Duration::MAX), &url, longest).await), "ok");
    let without_body = Limits { answer_bytes: 0, ..longest };
    let answer = post_within(&client(), &url, without_body).await.expect("an answer");
    assert!(answer.body.is_empty() && !answer.is_whole);
    endpoint.abort();
}
