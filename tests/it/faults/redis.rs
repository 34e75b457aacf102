//! One Redis that is killed and restarted, and servers that are killed.

use crate::faults::prelude::*;
use crate::support::resp;

/// Returns the run id, which changes with each start of Redis.
fn run_id(redis: &Redis) -> String {
    let info = resp::ask(redis.port(), &["INFO", "server"]).expect("an answer");
    info.text().lines().find(|line| line.starts_with("run_id:")).expect("a run id").to_owned()
}

fn settings(redis: &Redis) -> String {
    format!("url = {:?}", redis.url())
}

/// Counts the connections to this Redis, without the connection that sends this command.
fn connections(redis: &Redis) -> usize {
    let list = resp::ask(redis.port(), &["CLIENT", "LIST"]).expect("an answer");
    list.text().lines().count() - 1
}

/// A master and its only replica, without a Sentinel that would promote the replica.
pub struct Pair {
    pub master: Redis,
    pub replica: Redis,
}

impl Pair {
    pub fn start() -> Self {
        // The replica gets its data at once. By default, the master waits 5 s for other replicas.
        let arguments = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0"];
        let master = Redis::with(&arguments);
        let follow = ["--replicaof", "127.0.0.1", &master.port().to_string()];
        let replica = Redis::with(&[&arguments[..], &follow].concat());
        let end = Instant::now() + patience();
        while resp::ask(master.port(), &["WAIT", "1", "100"]) != Some(resp::Reply::Number(1)) {
            assert!(Instant::now() < end, "the replica is not connected to its master");
        }
        Self { master, replica }
    }

    /// Returns settings with the master at `port`, which may be a proxy's.
    pub fn settings(&self, port: u16) -> String {
        confirmed(&format!("redis://127.0.0.1:{port}/"))
    }

    /// Counts the connections to the master, without the connection that sends this command and the
    /// replica's.
    pub fn connections(&self) -> usize {
        connections(&self.master) - 1
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_redis_is_killed_and_started_again() {
    // With `everysec`, a killed Redis loses acknowledged writes if the disk was busy: it does not
    // write to its log during an fsync, for up to two seconds.
    let mut redis = Redis::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut scenario = Scenario::start(&settings(&redis)).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let before = run_id(&redis);
        scenario
            .failing_round("redis killed", || {
                redis.kill();
                // Waits until calls have failed because Redis is unavailable.
                std::thread::sleep(Duration::from_millis(500));
                redis.resume();
            })
            .await;
        assert_ne!(run_id(&redis), before, "Redis was not restarted");
        open.push(connections(&redis));
    }
    assert!(open[2] <= open[0] + 2, "connections to redis: {open:?}");
    scenario.promises_hold(&[redis.port()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn promises_hold_while_each_server_is_killed_in_turn() {
    let redis = Redis::start();
    let mut scenario = Scenario::start(&settings(&redis)).await;
    scenario.kill_each_server().await;
    scenario.promises_hold(&[redis.port()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_are_answered_in_time_while_redis_is_silent() {
    let redis = Redis::start();
    let mut scenario = Scenario::start(&settings(&redis)).await;
    // The first pause is shorter. Memory and sockets after it are the baseline for the longer one.
    for seconds in [8, 30] {
        scenario
            .failing_round(&format!("redis paused for {seconds} s"), || {
                let pause = format!("{seconds}000");
                let paused = resp::ask(redis.port(), &["CLIENT", "PAUSE", &pause, "ALL"]);
                assert_eq!(paused.expect("an answer").text(), "OK");
                std::thread::sleep(Duration::from_secs(seconds));
            })
            .await;
        println!("the longest call took {:?}", scenario.longest());
        // A request calls Redis at most twice and waits five seconds for each answer. A third call
        // would end after fifteen seconds.
        assert!(scenario.longest() < Duration::from_millis(14_800), "{:?}", scenario.longest());
    }
    assert!(scenario.unavailable("unknown") > 0, "no call reached its timeout");
    scenario.promises_hold(&[redis.port()]).await;
}

/// Proves that the load and the judge notice a store that loses jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_loses_its_jobs_is_noticed() {
    let mut redis = Redis::with(&["--appendonly", "no"]);
    let settings = format!("accept_data_loss = true\n{}", settings(&redis));
    let mut scenario = Scenario::start(&settings).await;
    scenario
        .round("redis loses everything", || {
            redis.kill();
            redis.resume();
        })
        .await;
    let found = scenario.end(&[redis.port()]).await.objections;
    assert!(found.iter().any(|objection| objection.rule == Rule::Lost), "{found:?}");
}
