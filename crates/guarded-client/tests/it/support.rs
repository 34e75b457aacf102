//! Endpoints, resolvers and clients for the tests.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use guarded_client::{
    Allowed, Answer, Client, Failure, Limits, Options, Resolve, Resolving, TargetUrl,
};
use http::HeaderMap;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    net::TcpListener,
};

/// Resolver that gives each lookup its own answer, and records the names.
#[derive(Default)]
pub struct Names {
    answers: Mutex<VecDeque<Vec<SocketAddr>>>,
    pub asked: Mutex<Vec<String>>,
}

impl Names {
    pub fn new<const N: usize>(answers: [&[SocketAddr]; N]) -> Arc<Self> {
        let answers = answers.into_iter().map(<[SocketAddr]>::to_vec).collect();
        Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::default() })
    }
}

impl Resolve for Names {
    fn resolve(&self, host: &str, _: u16) -> Resolving {
        self.asked.lock().expect("locked").push(host.to_owned());
        let answer =
            self.answers.lock().expect("locked").pop_front().expect("no lookup was expected");
        Box::pin(async { Ok(answer) })
    }
}

pub fn allowed(networks: &[&str]) -> Allowed {
    let networks = networks.iter().map(|net| net.parse().expect(net)).collect();
    Allowed::new(networks, vec!["*".to_owned()])
}

/// Options that allow the addresses of the tests' endpoints.
pub fn loopback() -> Options {
    Options {
        allowed: allowed(&["127.0.0.0/8"]),
        connect_timeout: Duration::from_secs(10),
        ..Options::default()
    }
}

pub fn client() -> Client {
    Client::new(loopback()).expect("a client")
}

pub fn limits() -> Limits {
    Limits { timeout: Duration::from_secs(20), answer_bytes: 1000 }
}

/// Limits for tests that wait until the time runs out.
pub fn short() -> Limits {
    Limits { timeout: Duration::from_millis(300), ..limits() }
}

pub async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Returns whether no connection waits to be accepted.
pub async fn is_untouched(listener: &TcpListener) -> bool {
    tokio::select! {
        biased;
        _ = listener.accept() => false,
        () = tokio::task::yield_now() => true,
    }
}

pub async fn post(client: &Client, url: &str) -> Result<Answer, Failure> {
    post_within(client, url, limits()).await
}

pub async fn post_within(client: &Client, url: &str, limits: Limits) -> Result<Answer, Failure> {
    let url = TargetUrl::parse(url).expect(url);
    client.post(&url, HeaderMap::new(), Bytes::from_static(b"job"), limits).await
}

pub fn body(answer: Result<Answer, Failure>) -> Bytes {
    let answer = answer.expect("an answer");
    assert!(answer.is_whole, "{answer:?}");
    answer.body
}

/// Reads a request with a body of three bytes, as [`post`] sends it.
pub async fn read_request(io: &mut (impl AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\njob") {
        assert!(
            io.read_buf(&mut read).await.expect("read") > 0,
            "the client closed the connection"
        );
    }
    String::from_utf8(read).expect("text")
}

/// Reads until the peer closes or resets the connection.
pub async fn until_closed(io: &mut (impl AsyncRead + Unpin)) {
    let mut buffer = [0; 1024];
    while matches!(io.read(&mut buffer).await, Ok(1..)) {}
}
