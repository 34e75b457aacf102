//! Polls of servers while no client makes a request.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use delay_queue::{job::Millis, store::redis::Secret};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::patience::patience;
use crate::{
    api::server::{Server, pass},
    support::{
        Redis,
        proxy::{Mode, Proxy},
        resp::Connection,
    },
};

/// Commands that a Redis received since this value was made.
struct Commands(Arc<Mutex<Vec<String>>>);

impl Commands {
    fn of(redis: &Redis) -> Self {
        let mut monitor = Connection::to(redis.port()).expect("connected");
        monitor.ask(&["MONITOR"]).expect("an answer");
        let all: Arc<Mutex<Vec<String>>> = Arc::default();
        let of_thread = Arc::clone(&all);
        // The thread ends with the Redis, which is the test's own.
        std::thread::spawn(move || {
            while let Some(line) = monitor.next() {
                let mut all = of_thread.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(line.text().to_owned());
            }
        });
        Self(all)
    }

    /// Returns the number of ready lists in each command that names any; commands inside scripts do
    /// not count.
    fn asking_for_ready(&self) -> Vec<usize> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = all.iter().filter(|line| !line.contains("lua]"));
        lists.map(|line| line.matches("}:ready:").count()).filter(|&lists| lists > 0).collect()
    }

    async fn asked_for_ready(&self, count: usize) {
        eventually!(
            self.asking_for_ready().len() >= count,
            "{:?} and no more",
            self.asking_for_ready()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_without_waiting_consumers_are_not_polled_for() {
    const TOPICS: usize = 300;
    let redis = Arc::new(Redis::start());
    let (one, other) = (Server::on(Arc::clone(&redis)).await, Server::on(Arc::clone(&redis)).await);
    let jobs: Vec<Value> = (0..2 * TOPICS)
        .map(|n| json!({"topic": format!("t{}", n % TOPICS), "id": format!("job:{n}")}))
        .collect();
    one.post("/batch/jobs", json!({"jobs": jobs}).to_string()).await.ok(200);
    // Each topic is popped from at both servers, and drained at the second.
    for server in [&one, &other] {
        for topic in 0..TOPICS {
            assert_eq!(server.pop(&format!("t{topic}/pop")).await.len(), 1);
        }
    }
    let commands = Commands::of(&redis);
    let begin = Instant::now();
    loop {
        let before = commands.asking_for_ready().len();
        pass(Duration::from_secs(2)).await; // time itself is measured
        let calls = commands.asking_for_ready().len() - before;
        if calls == 0 {
            break;
        }
        assert!(begin.elapsed() < patience(), "{calls} commands in 2 s for nothing");
    }
    // The next pop finds the jobs put meanwhile.
    other.put(r#"{"topic":"t7","id":"later"}"#).await;
    assert_eq!(one.pop("t7/pop").await[0]["id"], "later");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_for_a_hundred_topics_costs_a_command_a_bucket() {
    let redis = Arc::new(Redis::start());
    let server = Arc::new(Server::on(Arc::clone(&redis)).await);
    let topics: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
    // Each topic has jobs in every bucket, none of them due.
    for topic in &topics {
        let jobs = vec![json!({"topic": topic, "delay": "1h"}); 64];
        server.post("/batch/jobs", json!({"jobs": jobs}).to_string()).await.ok(200);
    }
    let commands = Commands::of(&redis);
    let waiting = tokio::spawn({
        let (server, path) = (Arc::clone(&server), format!("{}/pop?wait=60s", topics.join(",")));
        async move { server.pop(&path).await }
    });
    // The pop itself asks for 1,600 lists, and so does each poll.
    commands.asked_for_ready(2 * 13).await;
    let asked = commands.asking_for_ready();
    let lists: usize = asked.iter().sum();
    assert!(lists >= 100 * asked.len(), "{lists} lists by {} commands", asked.len());
    server.put(r#"{"topic":"t99","id":"now"}"#).await;
    assert_eq!(waiting.await.expect("joined")[0]["id"], "now");
}

#[tokio::test(flavor = "multi_thread")]
async fn pops_share_only_a_look_that_began_after_them() {
    const POPS: usize = 8;
    let redis = Arc::new(Redis::start());
    // Only pops make the server behind the proxy ask: it hears no hints, and does not poll within
    // this test.
    redis.command("ACL SETUSER deaf on >secret ~* &* +@all -ssubscribe").expect("an answer");
    let proxy = Proxy::start(redis.port()).await;
    let url = format!("redis://deaf:secret@127.0.0.1:{}/", proxy.port);
    let server = Server::with(|settings| {
        settings.store.url = Secret(url);
        settings.timer.poll_interval = Millis::new(60_000);
    });
    let (server, beside) = (server.await, Server::on(Arc::clone(&redis)).await);
    server.get("/metrics").await; // so that the next scrape need not count jobs first
    let commands = Commands::of(&redis);
    proxy.set(Mode::Hold);
    let early = server.pop("t/pop");
    let late = async {
        commands.asked_for_ready(1).await;
        // The answer to the first pop is on its way, and says that there is no job.
        beside.put(r#"{"topic":"t","id":"a"}"#).await;
        let pops = join_all((0..POPS).map(|_| server.pop("t/pop")));
        let pass_on = async {
            server.until_pops_wait(1 + POPS).await;
            proxy.set(Mode::Pass);
        };
        futures::join!(pops, pass_on).0
    };
    let (early, late) = futures::join!(early, late);
    assert_eq!(early, [Value::Null; 0], "it asked before the job was there");
    let got: Vec<Value> = late.into_iter().flatten().collect();
    assert_eq!(got.iter().map(|job| &job["id"]).collect::<Vec<_>>(), ["a"]);
    // One command for the first pop, and for all others together two steps: which lists have jobs,
    // and how many, in each of the 16 buckets.
    assert_eq!(commands.asking_for_ready().len(), 1 + 1 + 16, "looks of {POPS} pops");
}
