//! Loops with reqwest alone, whose CPU time the suite compares with that of the worker.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use delay_queue_client::BoxError;
use reqwest::{Client, RequestBuilder, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::reply::Failure;

#[derive(Deserialize)]
struct Popped {
    jobs: Vec<Value>,
}

#[derive(Clone)]
struct Bare {
    client: Client,
    url: String,
    token: Option<String>,
    topic: String,
    left: Arc<AtomicI64>,
}

pub async fn run(url: &str, token: Option<&str>, command: &Value) -> Result<(), Failure> {
    let failure = |error: BoxError| Failure::Usage(error.to_string());
    let bare = Bare {
        client: client().map_err(failure)?,
        url: url.trim_end_matches('/').to_owned(),
        token: token.map(str::to_owned),
        topic: command["topic"].as_str().unwrap_or_default().to_owned(),
        left: Arc::new(AtomicI64::new(command["jobs"].as_i64().unwrap_or_default())),
    };
    let mut loops = JoinSet::new();
    for _ in 0..command["concurrency"].as_u64().unwrap_or(1) {
        loops.spawn(bare.clone().pop_and_finish());
    }
    while let Some(ended) = loops.join_next().await {
        ended.map_err(|error| failure(error.into()))?.map_err(failure)?;
    }
    Ok(())
}

/// Returns a client for plain HTTP.
fn client() -> Result<Client, BoxError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Ok(Client::builder().tls_backend_preconfigured(tls).build()?)
}

impl Bare {
    async fn pop_and_finish(self) -> Result<(), BoxError> {
        let pop = format!("{}/v1/topics/{}/pop?count=1&wait=1s", self.url, self.topic);
        while self.left.load(Ordering::Relaxed) > 0 {
            let body = self.send(self.client.get(&pop)).await?.bytes().await?;
            let popped: Popped = serde_json::from_slice(&body)?;
            for job in popped.jobs {
                let id = job["id"].as_str().unwrap_or_default();
                let finish = self.client.post(format!("{}/v1/jobs/{id}/finish", self.url));
                let body = json!({"reservation": job["reservation"]}).to_string();
                self.send(finish.header("content-type", "application/json").body(body)).await?;
                self.left.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, BoxError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        Ok(request.send().await?.error_for_status()?)
    }
}
