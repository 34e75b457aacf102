//! An HTTP proxy in front of a real server. It sometimes breaks one promise, to prove that the
//! judge detects this.

mod lies;
mod tests;

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, Uri, header},
    response::{IntoResponse, Response},
};
use tokio::task::JoinHandle;

use crate::faults::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    None,
    /// Acknowledges one put in a thousand without making it.
    LosesJobs,
    /// Makes jobs due 50 ms early, and reports the promised times.
    Early,
    /// Delivers a reserved job to the next consumer too, with the same reservation.
    TwoHolders,
    /// Acknowledges finishes without making them.
    ForgetsFinishes,
    /// Reports one attempt too many.
    MiscountsAttempts,
    /// Acknowledges pauses without making them.
    ForgetsPauses,
    /// Delivers jobs that have expired, and reports when they should have.
    DeliversExpired,
    /// Counts attempts that should not count.
    CountsUncounted,
    /// Keeps the body of a job that should get another one.
    KeepsBodies,
    /// Delivers a job that has moved from its first topic, too.
    LeavesMoved,
    /// Acknowledges where the jobs of a topic go when they die, and keeps them there.
    ForgetsDeadTo,
}

pub struct Liar {
    pub base: String,
    proxy: Arc<Proxy>,
    task: JoinHandle<std::io::Result<()>>,
}

struct Proxy {
    lie: Lie,
    /// Whether the proxy has stopped lying.
    is_honest: AtomicBool,
    /// Number of lies so far.
    lies: AtomicUsize,
    /// Number of opportunities to lie so far.
    seen: AtomicU64,
    memory: Mutex<Memory>,
    server: String,
    http: reqwest::Client,
}

#[derive(Default)]
struct Memory {
    /// Jobs that are due earlier than their clients believe.
    early: HashSet<String>,
    /// Milliseconds after their due times for which jobs should live.
    lives: HashMap<String, i64>,
    /// A job to deliver again to the next consumer, by the path of the pop.
    twice: HashMap<String, Value>,
    /// Jobs as the topic of the jobs that shall die delivered them.
    dying: HashMap<String, Value>,
    /// Ids of all jobs that were lied about.
    lied_about: HashSet<String>,
}

impl Liar {
    /// Starts a proxy in front of the server at this address.
    pub async fn in_front_of(server: &str, lie: Lie) -> Self {
        let proxy = Arc::new(Proxy {
            lie,
            is_honest: AtomicBool::new(false),
            lies: AtomicUsize::new(0),
            seen: AtomicU64::new(0),
            memory: Mutex::default(),
            server: server.to_owned(),
            http: crate::support::http::client(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let routes = Router::new().fallback(serve).with_state(Arc::clone(&proxy));
        let task = tokio::spawn(crate::support::serve::serve(listener, routes));
        Self { base, proxy, task }
    }

    pub fn lie_count(&self) -> usize {
        self.proxy.lie_count()
    }

    /// Returns whether a lie explains an objection: the objection is about the forgotten pause or
    /// target, or about a job that was lied about. The rules that such a job breaks also depend on
    /// its consumers.
    pub fn explains(&self, objection: &Objection) -> bool {
        match self.proxy.lie {
            Lie::ForgetsPauses => return objection.rule == Rule::Paused,
            Lie::ForgetsDeadTo => return objection.rule == Rule::NotMoved,
            _ => {}
        }
        // The objection begins with the id, or has it in a list.
        let is_of = |id: &str| {
            let rest = objection.what.strip_prefix(id);
            rest.is_some_and(|rest| rest.starts_with(": "))
                || objection.what.contains(&format!("{id:?}"))
        };
        self.proxy.memory().lied_about.iter().any(|id| is_of(id))
    }

    /// Stops telling new lies. Still hides earlier lies from clients.
    pub fn stop_lying(&self) {
        self.proxy.is_honest.store(true, Ordering::Relaxed);
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    State(proxy): State<Arc<Proxy>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path().to_owned();
    let asked = serde_json::from_slice(&body).unwrap_or_default();
    let (asked, made_up) = match proxy.request(&path, asked) {
        Decision::Forward(asked, made_up) => (asked, made_up),
        Decision::Answer(status, answer) => return respond(status, &headers, &answer),
    };
    let target = format!("{}{}", proxy.server, uri.path_and_query().expect("a path"));
    let body = if asked.is_null() { String::new() } else { asked.to_string() };
    let sent = proxy.http.request(method, target).body(body).send().await;
    let Ok(response) = sent else { return StatusCode::BAD_GATEWAY.into_response() };
    let (status, headers) = (response.status(), response.headers().clone());
    let Ok(text) = response.text().await else { return StatusCode::BAD_GATEWAY.into_response() };
    let mut answer: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() {
        proxy.change(&path, &mut answer);
        merge(&mut answer, made_up);
    }
    respond(status, &headers, &answer)
}

/// The proxy's decision on a request.
enum Decision {
    /// Forwards the request without the items of a batch that have made-up results.
    Forward(Value, Vec<Option<Value>>),
    /// Answers the request without the server.
    Answer(StatusCode, Value),
}

/// Inserts made-up results at their positions among the results of a batch.
fn merge(answer: &mut Value, made_up: Vec<Option<Value>>) {
    if let Some(Value::Array(results)) = answer.get_mut("results") {
        let mut true_ones = std::mem::take(results).into_iter();
        results.extend(made_up.into_iter().filter_map(|lie| lie.or_else(|| true_ones.next())));
        results.extend(true_ones);
    }
}

fn respond(status: StatusCode, headers: &HeaderMap, answer: &Value) -> Response {
    let text = if answer.is_null() { String::new() } else { answer.to_string() };
    let mut response = (status, text).into_response();
    if let Some(after) = headers.get(header::RETRY_AFTER) {
        response.headers_mut().insert(header::RETRY_AFTER, after.clone());
    }
    response
}

impl Proxy {
    fn note(&self, id: &str) {
        self.memory().lied_about.insert(id.to_owned());
    }

    /// Decides whether to lie this time, at about every `nth` opportunity.
    fn should_lie(&self, lie: Lie, nth: u64) -> bool {
        if self.lie != lie || self.is_honest.load(Ordering::Relaxed) {
            return false;
        }
        let is_lie = (self.seen.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(nth);
        self.lies.fetch_add(usize::from(is_lie), Ordering::Relaxed);
        is_lie
    }

    fn lie_count(&self) -> usize {
        self.lies.load(Ordering::Relaxed)
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
