//! Polls of servers while no client makes a request.

use std::sync::{Mutex, PoisonError};

use crate::api::prelude::*;
use crate::support::resp::Connection;

/// Commands that a Redis has received since this value was created.
struct Commands(Arc<Mutex<Vec<String>>>);

impl Commands {
    fn of(redis: &Redis) -> Self {
        let mut monitor = Connection::to(redis.port()).expect("connected");
        monitor.ask(&["MONITOR"]).expect("an answer");
        let all: Arc<Mutex<Vec<String>>> = Arc::default();
        let of_thread = Arc::clone(&all);
        // The thread ends when the test stops its Redis.
        std::thread::spawn(move || {
            while let Some(line) = monitor.next() {
                let mut all = of_thread.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(line.text().to_owned());
            }
        });
        Self(all)
    }

    /// Returns the number of ready lists in each command that names at least one. Leaves out
    /// commands inside scripts.
    fn ready_list_counts(&self) -> Vec<usize> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = all.iter().filter(|line| !line.contains("lua]"));
        lists.map(|line| line.matches("}:ready:").count()).filter(|&lists| lists > 0).collect()
    }

    async fn wait_for_ready_reads(&self, count: usize) {
        eventually!(
            self.ready_list_counts().len() >= count,
            "only these reads of ready lists: {:?}",
            self.ready_list_counts()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_without_waiting_consumers_are_not_polled() {
    const TOPICS: usize = 300;
    let redis = Redis::start();
    let (one, other) = (Server::at(&redis).await, Server::at(&redis).await);
    let job = |n| json!({"topic": format!("t{}", n % TOPICS), "id": format!("job:{n}")});
    one.put_all((0..2 * TOPICS).map(job)).await;
    // Consumers pop from each topic through both servers, and drain it through the second one.
    for server in [&one, &other] {
        for topic in 0..TOPICS {
            assert_eq!(server.pop(&format!("t{topic}/pop")).await.len(), 1);
        }
    }
    let commands = Commands::of(&redis);
    let begin = Instant::now();
    loop {
        let before = commands.ready_list_counts().len();
        pass(Duration::from_secs(2)).await; // counts commands during this time
        let calls = commands.ready_list_counts().len() - before;
        if calls == 0 {
            break;
        }
        assert!(begin.elapsed() < patience(), "{calls} commands in 2 s without any request");
    }
    // The next pop finds the jobs put meanwhile.
    other.put(r#"{"topic":"t7","id":"later"}"#).await;
    assert_eq!(one.pop("t7/pop").await[0]["id"], "later");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_hundred_topics_costs_a_command_per_bucket() {
    let redis = Redis::start();
    let server = Arc::new(Server::at(&redis).await);
    let topics: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
    // Each topic has jobs in every bucket, but none of them is due.
    for topic in &topics {
        server.put_all(vec![json!({"topic": topic, "delay": "1h"}); 64]).await;
    }
    let commands = Commands::of(&redis);
    let waiting = tokio::spawn({
        let (server, path) = (Arc::clone(&server), format!("{}/pop?wait=60s", topics.join(",")));
        async move { server.pop(&path).await }
    });
    // The pop reads 1,600 lists, and so does each poll.
    commands.wait_for_ready_reads(2 * 13).await;
    let asked = commands.ready_list_counts();
    let lists: usize = asked.iter().sum();
    assert!(lists >= 100 * asked.len(), "{lists} lists by {} commands", asked.len());
    server.put(r#"{"topic":"t99","id":"now"}"#).await;
    assert_eq!(waiting.await.expect("joined")[0]["id"], "now");
}

#[tokio::test(flavor = "multi_thread")]
async fn pops_share_only_a_read_that_began_after_them() {
    const POPS: usize = 8;
    let redis = Redis::start();
    // The server behind the proxy reads lists only for pops: it gets no hints, and does not poll
    // during this test.
    redis.command("ACL SETUSER deaf on >secret ~* &* +@all -ssubscribe").expect("an answer");
    let proxy = Proxy::start(redis.port()).await;
    let url = format!("redis://deaf:secret@127.0.0.1:{}/", proxy.port);
    let server = Server::with(|settings| {
        settings.store.url = Secret(url);
        settings.timer.poll_interval = Millis::new(60_000);
    });
    let (server, beside) = (server.await, Server::at(&redis).await);
    server.get("/metrics").await; // counts the jobs, so that the next scrape is fast
    let commands = Commands::of(&redis);
    proxy.set(Mode::Hold);
    let early = server.pop("t/pop");
    let late = async {
        commands.wait_for_ready_reads(1).await;
        // The proxy holds the answer to the first pop, which says that there is no job.
        beside.put(r#"{"topic":"t","id":"a"}"#).await;
        let pops = join_all((0..POPS).map(|_| server.pop("t/pop")));
        let pass_on = async {
            server.until_pops_wait(1 + POPS).await;
            proxy.set(Mode::Pass);
        };
        futures::join!(pops, pass_on).0
    };
    let (early, late) = futures::join!(early, late);
    assert_eq!(
        early,
        [Value::Null; 0],
        "a pop has got a job although it read the lists before the put"
    );
    let got: Vec<Value> = late.into_iter().flatten().collect();
    assert_eq!(got.iter().map(|job| &job["id"]).collect::<Vec<_>>(), ["a"]);
    // The first pop needs one command. All others together need three steps: one command finds the
    // lists with jobs, 16 commands count the jobs in each bucket, and one finds the highest
    // priority in the list with the job.
    let reads = 1 + 1 + 16 + 1;
    eventually!(commands.ready_list_counts().len() >= reads, "fewer reads of {POPS} pops");
    assert_eq!(commands.ready_list_counts().len(), reads, "reads of {POPS} pops");
}
