//! Pushes of three servers on one Redis, of which one is killed again and again, to an endpoint
//! that fails, hangs and resets.

use std::{convert::Infallible, io};

use axum::http::{Request, Response};
use delay_queue::store::Clock;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::time::sleep;

use crate::faults::prelude::*;

/// Requests at once of all servers together.
const CONCURRENCY: usize = 64;
/// Time for a request. A busy machine must not reach it with answers that are under way.
const TIMEOUT: Duration = Duration::from_secs(5);

const JOBS: usize = 3_000;
/// Time over which the jobs become due.
const SPREAD: Duration = Duration::from_secs(10);
/// Time between two kills.
const PERIOD: Duration = Duration::from_secs(3);

/// Requests as the endpoint saw them.
#[derive(Default)]
struct Seen {
    /// When each job was accepted.
    accepted: HashMap<String, Vec<Instant>>,
    early: Vec<String>,
}

type Shared = Arc<Mutex<Seen>>;

/// Accepts a request, answers 500 to a tenth, and lets each hundredth hang or end without an
/// answer.
async fn answer(request: Request<Incoming>, seen: Shared) -> Result<Response<String>, io::Error> {
    let header = |name: &str| request.headers()[name].to_str().expect("text").to_owned();
    let (id, due_at) = (header("delay-queue-id"), header("delay-queue-due-at"));
    let due_at: Timestamp = due_at.parse().expect("a time");
    let choice = rand::random_range(0..100);
    {
        let mut seen = seen.lock().expect("unpoisoned");
        if Clock::Own.now().believed.get() < due_at.as_millisecond().unsigned_abs() {
            seen.early.push(id.clone());
        }
        if choice > 11 {
            seen.accepted.entry(id).or_default().push(Instant::now());
        }
    }
    let status =
        |status| Ok(Response::builder().status(status).body(String::new()).expect("a response"));
    match choice {
        0..10 => status(StatusCode::INTERNAL_SERVER_ERROR),
        10 => std::future::pending().await,
        11 => Err(io::Error::other("reset")),
        _ => status(StatusCode::NO_CONTENT),
    }
}

async fn endpoint(seen: Shared) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let seen = Arc::clone(&seen);
            let service = service_fn(move |request| answer(request, Arc::clone(&seen)));
            tokio::spawn(async move {
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                Ok::<(), Infallible>(())
            });
        }
    });
    url
}

async fn server(port: u16, dir: &Path, redis: &Redis) -> Process {
    let mut command = program(dir, &["--store", &redis.url()]);
    command.env("DELAY_QUEUE__PUSH__ALLOWED_NETWORKS", "127.0.0.0/8");
    Process::spawn(port, command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pushed_jobs_survive_killed_servers_and_a_failing_endpoint() {
    let (redis, dir) = (Redis::start(), tempfile::tempdir().expect("a temporary folder"));
    let seen = Shared::default();
    let url = endpoint(Arc::clone(&seen)).await;
    let ports = [free_port(), free_port(), free_port()];
    let mut servers = Vec::new();
    for port in ports {
        servers.push(server(port, dir.path(), &redis).await);
    }
    let push = json!({
        "url": url, "concurrency": CONCURRENCY, "timeout": TIMEOUT.as_secs(), "backoff": ["200ms"],
    });
    assert_eq!(servers[0].put("/topics/t/push", push).await, Some(201));
    for batch in 0..JOBS / 500 {
        let job = |number: usize| {
            let delay = SPREAD.mul_f64(rand::random_range(0.0..1.0)).as_secs_f64();
            let id = format!("{batch}-{number}");
            json!({ "topic": "t", "id": id, "delay": delay, "max_attempts": 0 })
        };
        let jobs: Vec<_> = (0..500).map(job).collect();
        servers[0].post_ok("/batch/jobs", json!({ "jobs": jobs })).await;
    }
    let (began, mut kills) = (Instant::now(), Vec::new());
    while began.elapsed() < SPREAD {
        sleep(PERIOD).await; // the time between two kills is part of the test
        let victim = kills.len() % 3;
        servers[victim].kill();
        kills.push(Instant::now());
        servers[victim] = server(ports[victim], dir.path(), &redis).await;
    }
    let is_drained =
        |topic: &Value| ["delayed", "ready", "reserved"].iter().all(|state| topic[state] == 0);
    let topic = until(async || servers[0].get("/topics/t").await.1, is_drained).await;
    assert_eq!(topic["dead"], 0, "{topic}");
    let seen = seen.lock().expect("unpoisoned");
    assert_eq!(seen.accepted.len(), JOBS, "each job was accepted");
    assert_eq!(seen.early, [] as [String; 0], "jobs were early");
    let twice: Vec<&Vec<Instant>> = seen.accepted.values().filter(|at| at.len() > 1).collect();
    for times in &twice {
        let is_lost = kills.iter().any(|kill| (times[0]..=times[1]).contains(kill));
        let is_late = times[1] - times[0] >= TIMEOUT;
        assert!(is_lost || is_late, "accepted twice without a lost answer");
    }
    let most = kills.len() * CONCURRENCY;
    assert!(twice.len() <= most, "{} were accepted twice, at most {most} may", twice.len());
}
