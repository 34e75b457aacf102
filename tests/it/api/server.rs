//! A server in this process, and a client for it.

use std::fmt::Display;

use delay_queue::{config::Flags, server};
use tokio::{net::TcpListener, sync::oneshot};

use crate::api::prelude::*;
use crate::support::{events, patience::PAUSE};

pub struct Server {
    pub address: std::net::SocketAddr,
    /// URL and prefix of the store.
    pub store: (Secret, String),
    client: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
    _dir: Option<tempfile::TempDir>,
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

    /// Starts a server on a file and one on Redis.
    pub async fn on_each_with(change: impl Fn(&mut Settings)) -> [Self; 2] {
        [Self::on_file_with(&change).await, Self::on_redis_with(&change).await]
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

    /// Starts a server on a Redis that the test can stop and start.
    pub async fn at(redis: &Redis) -> Self {
        Self::at_with(redis, |_| {}).await
    }

    pub async fn at_with(redis: &Redis, change: impl FnOnce(&mut Settings)) -> Self {
        Self::with(|settings| {
            settings.store.url = Secret(redis.url());
            change(settings);
        })
        .await
    }

    pub async fn on_nodes_of(cluster: &Cluster) -> Self {
        Self::with(|settings| settings.store.url = Secret(cluster.url())).await
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
        Self { address, store, client, stop: Some(stop), task: Some(task), _dir: None }
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

    pub async fn call(&self, method: Method, path: &str, body: impl Display) -> Answer {
        self.call_as("", method, path, body).await
    }

    /// Makes a call with an access token, unless it is empty.
    pub async fn call_as(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: impl Display,
    ) -> Answer {
        let request = self.request(method, path).body(body.to_string());
        Self::send(if token.is_empty() { request } else { request.bearer_auth(token) }).await
    }

    pub async fn send(request: reqwest::RequestBuilder) -> Answer {
        let (client, request) = request.build_split();
        let request = request.expect("a request");
        let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
        let body = String::from_utf8_lossy(&body[..body.len().min(300)]);
        let told = format!("{} {} {body}", request.method(), request.url());
        let answer = client.execute(request).await.expect("an answer");
        let (status, headers) = (answer.status(), answer.headers().clone());
        let text = answer.text().await.expect("a body of text");
        Answer { status, headers, text, request: told }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, self.url(path))
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, "").await
    }

    pub async fn post(&self, path: &str, body: impl Display) -> Answer {
        self.call(Method::POST, path, body).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, "").await
    }

    pub async fn job(&self, id: &str) -> Value {
        self.get(&format!("/jobs/{id}")).await.ok(200)
    }

    pub async fn topic(&self, topic: &str) -> Value {
        self.get(&format!("/topics/{topic}")).await.ok(200)
    }

    pub async fn patch(&self, id: &str, change: impl Display) -> Answer {
        self.call(Method::PATCH, &format!("/jobs/{id}"), change).await
    }

    pub async fn set_topic(&self, topic: &str, defaults: impl Display) -> Answer {
        self.call(Method::PUT, &format!("/topics/{topic}"), defaults).await
    }

    pub async fn set_schedule(&self, name: &str, schedule: impl Display) -> Answer {
        self.call(Method::PUT, &format!("/schedules/{name}"), schedule).await
    }

    /// Finishes, releases, touches, buries or kicks a job.
    pub async fn act(&self, id: &str, action: &str, request: impl Display) -> Answer {
        self.post(&format!("/jobs/{id}/{action}"), request).await
    }

    /// Puts a job. Panics if the server refuses it.
    pub async fn put(&self, body: impl Display) -> Value {
        self.post("/jobs", body).await.ok(201)
    }

    /// Puts jobs in one batch. Panics if the server refuses one of them.
    pub async fn put_all(&self, jobs: impl IntoIterator<Item = Value>) {
        let jobs: Vec<Value> = jobs.into_iter().collect();
        for result in self.post("/batch/jobs", json!({ "jobs": jobs })).await.results() {
            assert_eq!(result["status"], 201, "{result}");
        }
    }

    /// Returns the entries of all pages of a list, which has the last name of the path.
    pub async fn all_pages(&self, path: &str) -> Vec<Value> {
        let list = path.split('?').next().and_then(|path| path.rsplit('/').next());
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("{path}{cursor}")).await.ok(200);
            all.extend(page[list.expect("a name")].as_array().expect("a list").clone());
            let Some(next) = page["cursor"].as_str() else { break };
            cursor = format!("{}cursor={next}", if path.contains('?') { '&' } else { '?' });
        }
        all
    }

    /// Returns the value of a series, if the metrics contain it.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        value_of(&self.get("/metrics").await.text, series)
    }

    /// Waits until a path is answered with this status. Returns the answer.
    pub async fn until_status(&self, path: &str, status: u16) -> Answer {
        until(async || self.get(path).await, |answer| answer.status == status).await
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
        self.create_token(by, json!({"name": name, "scopes": scopes})).await
    }

    pub async fn create_token(&self, by: &str, token: Value) -> String {
        let made = self.call_as(by, Method::POST, "/tokens", token).await.ok(201);
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

    /// Pops one job. Returns the request with which its consumer acts on it.
    pub async fn hold(&self, topic: &str) -> Value {
        held(&self.pop_one(topic).await)
    }

    /// Pops this number of jobs of a topic, which need several pops if they are in several buckets.
    pub async fn pop_all(&self, topic: &str, count: usize) -> Vec<Value> {
        let mut jobs = Vec::new();
        while jobs.len() < count {
            let some = self.pop(&format!("{topic}/pop?count=100&wait=30s")).await;
            assert!(!some.is_empty(), "only {} jobs were delivered", jobs.len());
            jobs.extend(some);
        }
        jobs
    }
}

fn defaults() -> Settings {
    let mut settings = Settings::load(&Flags::default()).expect("the defaults are valid");
    settings.push.allowed_networks.0 = vec!["127.0.0.0/8".to_owned()];
    settings
}

/// Sleeps. Only for tests in which time must pass, or for which no event exists.
pub async fn pass(span: Duration) {
    tokio::time::sleep(span).await;
}
