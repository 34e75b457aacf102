//! HTTP server whose answers a test decides.

use std::sync::{Arc, Mutex};

use delay_queue_client::Queue;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

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
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Stub {
    /// Starts a server that answers each request with the result of this function, which gets
    /// the number of requests before it.
    pub async fn start(answer: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answer, shared) = (Arc::new(answer), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, requests) = (Arc::clone(&answer), Arc::clone(&shared));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(request) = read(&mut stream).await {
                        let number = {
                            let mut requests = requests.lock().unwrap();
                            requests.push(request.clone());
                            requests.len() - 1
                        };
                        match answer(number, &request) {
                            Answer::Send(status, body) => write(&mut stream, status, &body).await,
                            Answer::Close => return,
                            Answer::Hang => std::future::pending().await,
                        }
                    }
                });
            }
        });
        Stub { url, requests }
    }

    pub fn queue(&self) -> Queue {
        Queue::new(&self.url).unwrap()
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
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

async fn write(stream: &mut BufReader<TcpStream>, status: u16, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n");
    // The client may have gone.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}
