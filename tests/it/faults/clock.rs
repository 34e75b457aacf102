//! Jumps of the wall clock. A jump must not make a job early, end its reservation, or delete it.

use crate::faults::prelude::*;
use crate::support::{
    shifted_clock::{ShiftedClock, in_seconds, millis},
    signal::freeze,
};

pub const DAY: i64 = 86_400;

pub struct Server {
    pub process: Process,
    pub clock: ShiftedClock,
    pub dir: TempDir,
    pub redis: Option<Redis>,
}

impl Server {
    pub async fn on_file() -> Self {
        let (clock, dir) = (ShiftedClock::new(), tempfile::tempdir().expect("a folder"));
        let mut command = program(dir.path(), &["--store", "file:./data"]);
        command.envs(clock.variables());
        let process = Process::spawn(free_port(), command).await;
        Self { process, clock, dir, redis: None }
    }

    /// Starts a server on the store of the one that has ended.
    pub async fn start_again(&mut self) {
        let url = self.redis.as_ref().map_or("file:./data".to_owned(), Redis::url);
        let mut command = program(self.dir.path(), &["--store", &url]);
        if self.redis.is_none() {
            command.envs(self.clock.variables());
        }
        self.process = Process::spawn(free_port(), command).await;
    }

    pub async fn on_redis() -> Self {
        let (clock, dir) = (ShiftedClock::new(), tempfile::tempdir().expect("a folder"));
        let redis = Redis::with_variables(&["--appendonly", "yes"], clock.variables());
        let process = Process::start(dir.path(), &["--store", &redis.url()]).await;
        Self { process, clock, dir, redis: Some(redis) }
    }

    async fn patch(&self, id: &str, change: Value) {
        let url = format!("{}/jobs/{id}", self.process.base);
        let request = crate::support::http::client().patch(url).body(change.to_string());
        assert_eq!(request.send().await.expect("an answer").status(), 200);
    }

    pub async fn pop(&self, topic: &str, wait: &str) -> Value {
        let (_, mut popped) = self.process.get(&format!("/topics/{topic}/pop?wait={wait}")).await;
        popped["jobs"].take()
    }

    async fn state(&self, id: &str) -> Value {
        self.process.get(&format!("/jobs/{id}")).await.1["state"].take()
    }

    /// Moves the clock, and waits until the server has counted `jumps` jumps.
    pub async fn jump(&self, seconds: i64, jumps: u32) {
        self.clock.set(seconds);
        let counted = format!("delay_queue_clock_jumps_total {jumps}\n");
        eventually!(
            self.process.text("/metrics").await.contains(&counted),
            "the server has not counted {jumps} jumps"
        );
    }
}

pub async fn a_jump_there_and_back_changes_nothing(server: Server) {
    for (id, delay) in [("dead", "0s"), ("held", "0s"), ("later", "1h")] {
        server.process.post_ok("/jobs", json!({"topic": id, "id": id, "delay": delay})).await;
    }
    let dead = server.pop("dead", "10s").await[0]["reservation"].take();
    server.process.post_ok("/jobs/dead/bury", json!({"reservation": dead})).await;
    let held = server.pop("held", "10s").await[0]["reservation"].take();

    server.jump(15 * DAY, 1).await;
    let passes = async || {
        let metrics = server.process.text("/metrics").await;
        let count = metrics.lines().find_map(|l| l.strip_prefix("delay_queue_timer_passes_total "));
        count.expect("a count").parse::<u64>().expect("a number")
    };
    let before = passes().await;
    eventually!(passes().await >= before + 3, "the timers do not run");
    assert_eq!(
        server.pop("held,later", "0s").await,
        json!([]),
        "a reserved or delayed job was delivered"
    );
    for (id, state) in [("dead", "dead"), ("held", "reserved"), ("later", "delayed")] {
        assert_eq!(server.state(id).await, state);
    }
    let (status, ready) = server.process.get("/readyz").await;
    assert_eq!((status, &ready["reasons"]), (200, &json!(["clock_jumped"])), "{ready}");

    server.jump(0, 2).await;
    server.process.post_ok("/jobs/held/finish", json!({"reservation": held})).await;
    assert_eq!(server.state("dead").await, "dead");
    server.process.post_ok("/jobs", json!({"topic": "next", "delay": "200ms"})).await;
    assert_eq!(server.pop("next", "10s").await.as_array().expect("jobs").len(), 1);
}

/// Waits until the log of a file store has a mark of at least this time in Unix milliseconds.
async fn wait_for_mark(server: &Server, time: i64) {
    let log = server.dir.path().join("data/jobs.db-wal");
    let is_there = || {
        let bytes = fs::read(&log).expect("the log");
        let text = String::from_utf8_lossy(&bytes);
        let mut marks = text.split("counted=").skip(1).filter_map(|rest| rest.get(..13));
        marks.any(|mark| mark.parse().is_ok_and(|mark: i64| mark >= time))
    };
    eventually!(is_there(), "no mark of {time} was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_counts_only_deaths_that_no_server_saw() {
    let mut server = Server::on_file().await;
    server.process.post_ok("/jobs", json!({"topic": "held", "id": "held", "ttr": "1s"})).await;
    let held = server.pop("held", "10s").await[0].take();
    let dying = |n| json!({"topic": "t", "id": format!("job:{n}"), "expires_after": "200ms"});
    let jobs: Vec<Value> = (0..50).map(dying).collect();
    server.process.post_ok("/batch/jobs", json!({"jobs": jobs})).await;
    server
        .process
        .post_ok("/jobs", json!({"topic": "t", "id": "late", "expires_after": "1h"}))
        .await;
    let counted = async |server: &Server| {
        let (_, mut overview) = server.process.get("/overview").await;
        let mut since = overview["since_start"].take();
        (since["dead"].take(), since["timed_out"].take())
    };
    eventually!(counted(&server).await == (json!(50), json!(1)), "not counted");
    let (_, last) = server.process.get("/jobs/job:49").await;
    let last = millis(&last["expires_at"]).max(millis(&held["reserved_until"]));
    wait_for_mark(&server, last).await;
    server.process.kill();
    // The last job dies before the next server starts.
    server.clock.set(7_200);
    server.start_again().await;
    eventually!(
        counted(&server).await == (json!(1), json!(0)),
        "counted {:?}",
        counted(&server).await
    );
    let (_, topic) = server.process.get("/topics/t").await;
    assert_eq!(topic["dead"], 51);
}

pub async fn no_job_due_soon_is_early_when_the_clock_jumps(server: Server) {
    let put = Instant::now();
    server.process.post_ok("/jobs", json!({"topic": "t", "delay": "2500ms"})).await;
    // There is always a job to promote, so a promote is the first call that notices the new clock.
    let others: Vec<_> =
        (0..240).map(|n| json!({"topic": "others", "delay": format!("{n}0ms")})).collect();
    server.process.post_ok("/batch/jobs", json!({"jobs": others})).await;
    assert_eq!(server.pop("others", "10s").await.as_array().expect("jobs").len(), 1);
    server.jump(DAY, 1).await;
    assert_eq!(server.pop("t", "10s").await.as_array().expect("jobs").len(), 1);
    assert!(put.elapsed() >= Duration::from_millis(2_500), "popped after {:?}", put.elapsed());
}

pub async fn a_jump_makes_no_absolute_due_time_early(server: Server) {
    for id in ["stays", "paused", "moves"] {
        server.process.post_ok("/jobs", json!({"topic": id, "id": id, "delay": "1h"})).await;
    }
    server.process.post_ok("/topics/paused/pause", json!({"for": "1h"})).await;
    server.jump(DAY, 1).await;
    server.patch("stays", json!({"ttr": "90s"})).await;
    let put = Instant::now();
    server.patch("moves", json!({"due_at": in_seconds(9)})).await;
    server
        .process
        .post_ok("/jobs", json!({"topic": "at", "id": "at", "due_at": in_seconds(9)}))
        .await;
    server.process.post_ok("/jobs", json!({"topic": "past", "due_at": in_seconds(-4)})).await;
    for id in ["stays", "moves", "at"] {
        assert_eq!(server.state(id).await, "delayed", "{id}");
    }
    server.process.post_ok("/jobs", json!({"topic": "paused", "id": "ready"})).await;
    assert_eq!(server.pop("past", "10s").await.as_array().expect("jobs").len(), 1);
    for topic in ["moves", "at"] {
        assert_eq!(server.pop(topic, "20s").await.as_array().expect("jobs").len(), 1, "{topic}");
        // The due times are whole seconds of the true clock, so the delay may be up to a second
        // shorter.
        assert!(
            put.elapsed() >= Duration::from_secs(8),
            "{topic} was delivered after {:?}",
            put.elapsed()
        );
    }
    assert_eq!(server.pop("paused,stays", "2s").await, json!([]));
    assert_eq!(server.process.get("/topics/paused").await.1["paused"], true);
}

/// Returns the seconds until the end of a job's TTR, by the true clock instead of the server's.
async fn ttr_left(server: &Server, id: &str) -> i64 {
    seconds_until(&server.process.get(&format!("/jobs/{id}")).await.1["reserved_until"])
}

pub async fn jobs_can_be_touched_when_the_clock_jumps(server: Server) {
    server.process.post_ok("/jobs", json!({"topic": "t", "id": "before", "ttr": "1h"})).await;
    let before = server.pop("t", "10s").await[0]["reservation"].take();
    server.jump(DAY, 1).await;
    server.process.post_ok("/jobs", json!({"topic": "t", "id": "during", "ttr": "1h"})).await;
    let during = server.pop("t", "10s").await[0]["reservation"].take();
    server.process.post_ok("/jobs/before/touch", json!({"reservation": before, "ttr": "2h"})).await;
    server.process.post_ok("/jobs/during/touch", json!({"reservation": during, "ttr": "2h"})).await;
    let left = ttr_left(&server, "during").await - DAY;
    assert!(
        (7_000..=7_200).contains(&left),
        "{left} s are left of the TTR of 2 h by the new clock"
    );
    server.jump(0, 2).await;
    let left = ttr_left(&server, "before").await;
    assert!(
        (7_000..=7_203).contains(&left),
        "{left} s are left of the TTR of 2 h by the old clock"
    );
    for (id, reservation) in [("before", before), ("during", during)] {
        server
            .process
            .post_ok(&format!("/jobs/{id}/finish"), json!({"reservation": reservation}))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_file_a_ttr_ends_in_time_after_the_clock_was_set_back() {
    let server = Server::on_file().await;
    server.process.post_ok("/jobs", json!({"topic": "t", "ttr": "2s"})).await;
    assert_eq!(server.pop("t", "10s").await[0]["attempt"], 1);
    server.jump(-DAY, 1).await;
    assert_eq!(server.pop("t", "30s").await[0]["attempt"], 2);
}

/// For a minute after a jump, a script cannot tell a late call from another jump.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_jump_a_late_pop_gets_no_expired_job() {
    let server = Server::on_redis().await;
    server.jump(DAY, 1).await;
    server.jump(0, 2).await;
    server.process.post_ok("/jobs", json!({"topic": "t", "id": "a", "expires_after": 1.5})).await;
    server.process.post_ok("/jobs", json!({"topic": "t", "id": "first", "priority": 9})).await;
    // From now on, the server knows that the topic has a ready job, and pops it with one call.
    assert_eq!(server.pop("t", "0s").await[0]["id"], "first");
    let frozen = freeze(server.redis.as_ref().expect("it runs").port());
    let thaw = async {
        let began = Instant::now();
        eventually!(began.elapsed() > Duration::from_secs(2), "time stands still");
        frozen.thaw();
    };
    let (popped, ()) = tokio::join!(server.pop("t", "0s"), thaw);
    assert_eq!(popped, json!([]));
    eventually!(server.state("a").await == "dead", "it does not expire");
}
