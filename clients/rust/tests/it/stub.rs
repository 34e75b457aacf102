//! HTTP server whose answers a test decides.

use std::{
    future::Future,
    sync::{Arc, Mutex},
};

use delay_queue_client::Queue;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// Request that arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method and path with its query.
    pub line: String,
    pub body: Value,
}

/// Answer to a request.
pub enum Answer {
    /// Status and body.
    Send(u16, String),
    /// Closes the connection.
    Close,
    /// Answers never.
    Hang,
}

pub struct Stub {
    pub url: String,
    shared: Arc<Shared>,
}

type Decide = dyn Fn(usize, &Request) -> Answer + Send + Sync;

struct Shared {
    answer: Box<Decide>,
    requests: Mutex<Vec<Request>>,
}

impl Stub {
    /// Starts a server that answers each request with the result of this function, which gets
    /// the number of requests before it.
    pub async fn start(answer: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        Stub::listen("http", answer, |stream| std::future::ready(Some(stream))).await
    }

    /// The same, with TLS.
    pub async fn start_with_tls(
        tls: ServerConfig,
        answer: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let accept = move |stream| {
            let accepted = acceptor.accept(stream);
            async { accepted.await.ok() }
        };
        Stub::listen("https", answer, accept).await
    }

    async fn listen<S, F>(
        scheme: &str,
        answer: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static,
        accept: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
        F: Future<Output = Option<S>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { answer: Box::new(answer), requests: Mutex::default() });
        let server = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (accepted, server) = (accept(stream), Arc::clone(&server));
                tokio::spawn(async move {
                    if let Some(stream) = accepted.await {
                        server.serve(BufReader::new(stream)).await;
                    }
                });
            }
        });
        Stub { url, shared }
    }

    pub fn queue(&self) -> Queue {
        Queue::new(&self.url).unwrap()
    }

    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Shared {
    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, mut stream: BufReader<S>) {
        while let Some(request) = read(&mut stream).await {
            let number = {
                let mut requests = self.requests.lock().unwrap();
                requests.push(request.clone());
                requests.len() - 1
            };
            match (self.answer)(number, &request) {
                Answer::Send(status, body) => write(&mut stream, status, &body).await,
                Answer::Close => return,
                Answer::Hang => std::future::pending().await,
            }
        }
    }
}

async fn read<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> Option<Request> {
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if first.is_empty() {
            first = line.trim_end_matches(" HTTP/1.1").to_owned();
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request { line: first, body: serde_json::from_slice(&body).unwrap_or_default() })
}

async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufReader<S>,
    status: u16,
    body: &str,
) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n");
    // The client may have gone.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _ = stream.flush().await;
}
