//! Hostile and ordinary answers.

use std::time::Duration;

use bytes::Bytes;
use guarded_client::{Answer, Failure, Limits, TargetUrl};
use http::HeaderMap;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::support::{
    body, client, is_untouched, limits, listen, post_within, read_request, short, until_closed,
};

/// Posts to an endpoint that answers with these bytes, and then closes if told to.
async fn answered(bytes: Vec<u8>, closes: bool) -> Result<Answer, Failure> {
    let (listener, address) = listen().await;
    let endpoint = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.expect("accepted");
        read_request(&mut tcp).await;
        // The client may refuse the rest.
        let _ = tcp.write_all(&bytes).await;
        if !closes {
            until_closed(&mut tcp).await;
        }
    });
    let answer = post_within(&client(), &format!("http://{address}/"), limits()).await;
    endpoint.await.expect("an endpoint without failures");
    answer
}

async fn answered_in_full(text: &str) -> Result<Answer, Failure> {
    answered(text.as_bytes().to_vec(), true).await
}

/// Starts an endpoint that repeats bytes after its head until the client closes the connection.
fn endless(
    listener: TcpListener,
    head: &'static str,
    repeated: Vec<u8>,
    every: Duration,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.expect("accepted");
        read_request(&mut tcp).await;
        tcp.write_all(head.as_bytes()).await.expect("written");
        while repeat(&mut tcp, &repeated).await {
            tokio::time::sleep(every).await;
        }
    })
}

async fn repeat(tcp: &mut TcpStream, bytes: &[u8]) -> bool {
    tcp.write_all(bytes).await.is_ok()
}

#[tokio::test]
async fn an_answer_has_status_headers_and_body() {
    let answer =
        answered_in_full("HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nhi").await;
    let answer = answer.expect("an answer");
    assert_eq!(
        (answer.status.as_u16(), answer.headers["retry-after"].as_bytes()),
        (503, b"7".as_slice())
    );
    assert_eq!((&answer.body[..], answer.is_whole), (b"hi".as_slice(), true));
    assert!(!answer.is_public);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (elsewhere, address) = listen().await;
    for status in [301, 302, 303, 307, 308] {
        let text = format!(
            "HTTP/1.1 {status} Moved\r\nLocation: http://{address}/\r\nContent-Length: 0\r\n\r\n"
        );
        let answer = answered_in_full(&text).await.expect("an answer");
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!((answer.body, answer.is_whole), (Bytes::new(), true));
    }
    assert!(is_untouched(&elsewhere).await);
}

#[tokio::test]
async fn a_request_has_only_the_clients_own_framing_headers() {
    let (listener, address) = listen().await;
    let endpoint = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.expect("accepted");
        let request = read_request(&mut tcp).await;
        tcp.write_all(b"HTTP/1.1 204 Ok\r\n\r\n").await.expect("written");
        request
    });
    let mut headers = HeaderMap::new();
    for name in [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "accept-encoding",
        "te",
        "upgrade",
        "expect",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "trailer",
    ] {
        headers.append(name, "1".parse().expect("a value"));
        headers.append(name, "2".parse().expect("a value"));
    }
    headers.append("x-job", "7".parse().expect("a value"));
    let url = TargetUrl::parse(&format!("http://{address}/a?b")).expect("a URL");
    client().post(&url, headers, Bytes::from_static(b"job"), limits()).await.expect("an answer");
    let request = endpoint.await.expect("a request");
    let mut lines: Vec<_> = request.split("\r\n").collect();
    lines.sort_unstable();
    let host = format!("host: {address}");
    assert_eq!(
        lines,
        ["", "POST /a?b HTTP/1.1", "content-length: 3", host.as_str(), "job", "x-job: 7"]
    );
}

#[tokio::test]
async fn a_body_may_have_as_many_bytes_as_allowed() {
    let (full, longer) = ("a".repeat(1000), "a".repeat(1001));
    for (text, is_whole) in [
        (format!("HTTP/1.1 200 Ok\r\nContent-Length: 1000\r\n\r\n{full}"), true),
        (format!("HTTP/1.1 200 Ok\r\nContent-Length: 1001\r\n\r\n{longer}"), false),
        (format!("HTTP/1.1 200 Ok\r\n\r\n{full}"), true),
        (format!("HTTP/1.1 200 Ok\r\n\r\n{longer}"), false),
        (
            format!(
                "HTTP/1.1 200 Ok\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n{full}\r\n0\r\nA: b\r\n\r\n"
            ),
            true,
        ),
        (
            format!(
                "HTTP/1.1 200 Ok\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n{full}\r\n1\r\na\r\n0\r\n\r\n"
            ),
            false,
        ),
    ] {
        let answer = answered_in_full(&text).await.expect("an answer");
        assert_eq!((&answer.body[..], answer.is_whole), (full.as_bytes(), is_whole), "{text}");
    }
}

#[tokio::test]
async fn an_endless_body_ends_the_connection() {
    for head in [
        "HTTP/1.1 200 Ok\r\n\r\n",
        "HTTP/1.1 200 Ok\r\nContent-Length: 18446744073709551613\r\n\r\n",
    ] {
        let (listener, address) = listen().await;
        let endpoint = endless(listener, head, vec![b'a'; 65_536], Duration::ZERO);
        let client = client();
        let answer =
            post_within(&client, &format!("http://{address}/"), limits()).await.expect("an answer");
        assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 1000));
        assert!(!answer.is_whole);
        endpoint.await.expect("closed by the client");
    }
}

#[tokio::test]
async fn the_timeout_bounds_the_whole_exchange() {
    for head in [
        // The status line, the headers and the body arrive in drops.
        "",
        "HTTP/1.1 200 ",
        "HTTP/1.1 200 Ok\r\nA: ",
        "HTTP/1.1 200 Ok\r\nContent-Length: 900\r\n\r\n",
    ] {
        let (listener, address) = listen().await;
        let drops =
            if head.is_empty() { b"HTTP/1.1 100 Continue\r\n\r\n".to_vec() } else { b"a".to_vec() };
        let endpoint = endless(listener, head, drops, Duration::from_millis(20));
        let client = client();
        let url = format!("http://{address}/");
        let failure = post_within(&client, &url, Limits { answer_bytes: 10_000, ..short() }).await;
        assert!(
            matches!(failure, Err(Failure::TimedOut(ref text)) if text.contains("127.0.0.1")),
            "{failure:?}"
        );
        endpoint.await.expect("closed by the client");
    }
}

#[tokio::test]
async fn oversized_headers_are_refused() {
    let large =
        [b"HTTP/1.1 200 Ok\r\nA: ".to_vec(), vec![b'a'; 1 << 20], b"\r\n\r\n".to_vec()].concat();
    let many =
        [b"HTTP/1.1 200 Ok\r\n".to_vec(), b"A: b\r\n".repeat(1000), b"\r\n".to_vec()].concat();
    let endless_line = vec![b'a'; 1 << 20];
    for bytes in [large, many, endless_line] {
        let failure = answered(bytes, false).await;
        assert!(
            matches!(failure, Err(Failure::Lost(ref text)) if text.contains("127.0.0.1")),
            "{failure:?}"
        );
    }
}

#[tokio::test]
async fn compressed_answers_are_refused() {
    for coding in
        ["gzip", "br", "GZIP", "identity, gzip", "identity\r\nContent-Encoding: zstd", "\u{e9}"]
    {
        let text =
            format!("HTTP/1.1 200 Ok\r\nContent-Encoding: {coding}\r\nContent-Length: 1\r\n\r\na");
        let failure = answered_in_full(&text).await;
        assert!(matches!(failure, Err(Failure::Compressed(_))), "{coding}: {failure:?}");
    }
    for coding in ["identity", "Identity", "", "identity, identity"] {
        let text =
            format!("HTTP/1.1 200 Ok\r\nContent-Encoding: {coding}\r\nContent-Length: 1\r\n\r\na");
        assert_eq!(body(answered_in_full(&text).await), "a", "{coding}");
    }
}

#[tokio::test]
async fn a_broken_body_leaves_the_status() {
    for text in [
        "HTTP/1.1 202 Ok\r\nContent-Length: 9\r\n\r\nabc",
        "HTTP/1.1 202 Ok\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 202 Ok\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ] {
        let answer = answered_in_full(text).await.expect("an answer");
        assert_eq!((answer.status.as_u16(), answer.is_whole), (202, false), "{text}");
    }
}

#[tokio::test]
async fn malformed_answers_are_lost() {
    for text in [
        "",
        "HTTP/1.1",
        "HTTP/0.9 200\r\n\r\n",
        "hello\r\n\r\n",
        "HTTP/1.1 99\r\n\r\n",
        "HTTP/2.0 200 Ok\r\n\r\n",
    ] {
        let failure = answered_in_full(text).await;
        assert!(matches!(failure, Err(Failure::Lost(_))), "{text}: {failure:?}");
    }
}
