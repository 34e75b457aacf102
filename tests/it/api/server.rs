//! A server in this process, and a client for it.

use delay_queue::{config::Flags, server};
use reqwest::{StatusCode, header::HeaderMap};
use tokio::{net::TcpListener, sync::oneshot};

use crate::api::prelude::*;
use crate::support::{events, patience::PAUSE};

pub struct Server {
    pub address: std::net::SocketAddr,
    /// URL and prefix of the store.
    pub store: (Secret, String),
    _redis: Option<Arc<Redis>>,
    client: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
    _dir: Option<tempfile::TempDir>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Asserts a problem with this status and code. Returns its JSON.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["request_id"], *self.headers["x-request-id"].to_str().expect("text"));
        for member in ["type", "title", "detail", "applied"] {
            assert!(problem[member].is_string(), "{member} is missing: {problem}");
        }
        problem
    }

    /// Asserts success with this status. Returns the JSON.
    #[track_caller]
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    #[track_caller]
    pub fn jobs(&self) -> Vec<Value> {
        let answer = self.ok(200);
        assert_eq!(self.headers["cache-control"], "no-store");
        answer["jobs"].as_array().expect("jobs").clone()
    }
}

impl Server {
    pub async fn on_file() -> Self {
        Self::on_file_with(|_| {}).await
    }

    pub async fn on_file_with(change: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut settings = defaults();
        settings.store.url = Secret(format!("file:{}", dir.path().display()));
        change(&mut settings);
        Self { _dir: Some(dir), ..Self::start(settings).await }
    }

    pub async fn on_redis() -> Self {
        Self::on_redis_with(|_| {}).await
    }

    /// Starts a server on the shared Redis, under its own prefix.
    pub async fn on_redis_with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::with(|settings| {
            settings.store.url = Secret(shared::redis().url());
            settings.store.prefix = shared::prefix();
            change(settings);
        })
        .await
    }

    pub async fn on_cluster() -> Self {
        Self::with(|settings| {
            settings.store.url = Secret(shared::cluster().url());
            settings.store.prefix = shared::prefix();
        })
        .await
    }

    /// Starts another server on the store of this one.
    pub async fn beside(&self) -> Self {
        Self::on_store(&self.store).await
    }

    pub async fn on_store(store: &(Secret, String)) -> Self {
        Self::with(|settings| {
            (settings.store.url, settings.store.prefix) = store.clone();
        })
        .await
    }

    pub async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = defaults();
        change(&mut settings);
        Self::start(settings).await
    }

    /// Starts another server on a shared Redis.
    pub async fn on(redis: Arc<Redis>) -> Self {
        Self { _redis: Some(Arc::clone(&redis)), ..Self::at(&redis).await }
    }

    /// Starts a server on a Redis that the test can stop and start.
    pub async fn at(redis: &Redis) -> Self {
        Self::with(|settings| settings.store.url = Secret(redis.url())).await
    }

    /// Starts a server without waiting until it is ready.
    pub async fn unready(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = defaults();
        change(&mut settings);
        Self::begin(settings).await
    }

    async fn start(settings: Settings) -> Self {
        let server = Self::begin(settings).await;
        server.get("/readyz").await.ok(200);
        server
    }

    async fn begin(mut settings: Settings) -> Self {
        // With 16 buckets, calls to one Redis contain jobs of several buckets too.
        if settings.store.url.0.starts_with("redis://") {
            settings.store.buckets = settings.store.buckets.or(Some(16));
        }
        let store = (settings.store.url.clone(), settings.store.prefix.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            server::run(listener, settings, shutdown).await.expect("the server starts");
        });
        let client = crate::support::http::client();
        Self {
            address,
            store,
            _redis: None,
            client,
            stop: Some(stop),
            task: Some(task),
            _dir: None,
        }
    }

    /// Stops the server as SIGTERM does, and waits until it has ended.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        self.task.take().expect("the server runs").await.expect("the server ends without a panic");
    }

    pub fn begin_to_stop(&mut self) {
        drop(self.stop.take());
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub async fn call(&self, method: Method, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.client.request(method, self.url(path)).body(body);
        Self::send(request).await
    }

    pub async fn send(request: reqwest::RequestBuilder) -> Answer {
        let answer = request.send().await.expect("an answer");
        let (status, headers) = (answer.status(), answer.headers().clone());
        Answer { status, headers, text: answer.text().await.expect("a body of text") }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, self.url(path))
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, "").await
    }

    pub async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        self.call(Method::POST, path, body).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, "").await
    }

    /// Puts a job. Panics if the server refuses it.
    pub async fn put(&self, body: &str) -> Value {
        self.post("/jobs", body.to_owned()).await.ok(201)
    }

    /// Pops jobs. Repeats a pop that was refused because the store has stalled: it popped nothing.
    pub async fn pop(&self, query: &str) -> Vec<Value> {
        let end = Instant::now() + patience();
        loop {
            let answer = self.get(&format!("/topics/{query}")).await;
            let has_stalled = answer.status == 503 && answer.json()["code"] == "store_unavailable";
            if !has_stalled || Instant::now() > end {
                return answer.jobs();
            }
            assert_eq!(answer.json()["applied"], "no", "{}", answer.text);
            pass(PAUSE).await; // no event reports that the store answers again
        }
    }

    /// Makes an access token as the holder of the token `by`. The first token needs none.
    pub async fn token(&self, by: &str, name: &str, scopes: Value) -> String {
        let token = serde_json::json!({"name": name, "scopes": scopes}).to_string();
        let request = self.request(Method::POST, "/tokens");
        let request = if by.is_empty() { request } else { request.bearer_auth(by) };
        let made = Self::send(request.body(token)).await.ok(201);
        made["token"].as_str().expect("a token").to_owned()
    }

    /// Waits until at least `count` pops search for jobs or wait for them.
    pub async fn until_pops_wait(&self, count: usize) {
        events::until_pops_wait(&self.url(""), count..).await;
    }

    /// Begins a pop, which may wait.
    pub fn begin_pop(self: &Arc<Self>, query: &'static str) -> JoinHandle<Vec<Value>> {
        let server = Arc::clone(self);
        tokio::spawn(async move { server.pop(query).await })
    }

    /// Pops one job, and waits for it if no job is ready.
    pub async fn pop_one(&self, topic: &str) -> Value {
        let mut jobs = self.pop(&format!("{topic}/pop?wait=30s")).await;
        assert_eq!(jobs.len(), 1, "no job of {topic:?} was delivered");
        jobs.remove(0)
    }
}

fn defaults() -> Settings {
    let mut settings = Settings::load(&Flags::default()).expect("the defaults are valid");
    settings.push.allowed_networks.0 = vec!["127.0.0.0/8".to_owned()];
    settings
}

/// Returns the reservation of a popped job.
pub fn reservation_of(job: &Value) -> String {
    job["reservation"].as_str().expect("a reservation").to_owned()
}

/// Sleeps. Only for tests in which time must pass, or for which no event exists.
pub async fn pass(span: Duration) {
    tokio::time::sleep(span).await;
}
