//! An HTTP endpoint that receives the requests of pushes.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::{Mutex, mpsc},
    task::JoinHandle,
    time::timeout,
};

use super::{patience::patience, serve::serve};

/// A request as the endpoint received it.
#[derive(Debug, Clone)]
pub struct Received {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }
}

type Answer = dyn Fn(&Received) -> Response + Send + Sync;

/// A running endpoint; it ends when it is dropped.
pub struct Endpoint {
    pub address: SocketAddr,
    received: Mutex<mpsc::UnboundedReceiver<Received>>,
    task: JoinHandle<()>,
}

struct Shared {
    answer: Box<Answer>,
    received: mpsc::UnboundedSender<Received>,
}

impl Endpoint {
    /// Starts an endpoint that answers each request by `answer`.
    pub async fn start<R: IntoResponse>(
        answer: impl Fn(&Received) -> R + Send + Sync + 'static,
    ) -> Self {
        Self::at("127.0.0.1:0", answer).await
    }

    /// Starts an endpoint at an address.
    pub async fn at<R: IntoResponse>(
        address: &str,
        answer: impl Fn(&Received) -> R + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let (sender, received) = mpsc::unbounded_channel();
        let answer = Box::new(move |received: &Received| answer(received).into_response());
        let shared = Arc::new(Shared { answer, received: sender });
        let app = Router::new().fallback(handle).with_state(shared);
        let task = tokio::spawn(async move {
            serve(listener, app).await.expect("the endpoint runs");
        });
        Self { address, received: Mutex::new(received), task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Waits for the next request.
    pub async fn next(&self) -> Received {
        let mut received = self.received.lock().await;
        let next = timeout(patience(), received.recv()).await;
        next.expect("the endpoint receives a request").expect("the endpoint runs")
    }

    /// Returns the requests that have arrived and were not yet returned.
    pub async fn arrived(&self) -> Vec<Received> {
        let mut received = self.received.lock().await;
        std::iter::from_fn(|| received.try_recv().ok()).collect()
    }
}

async fn handle(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let received = Received { headers, body };
    let answer = (shared.answer)(&received);
    // The test that received the requests may have ended.
    let _ = shared.received.send(received);
    answer
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer without a body.
pub fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("a status")
}
