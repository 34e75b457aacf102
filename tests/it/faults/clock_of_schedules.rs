//! Jumps of the wall clock while schedules fire: nothing fires early or twice. Instants that were
//! really missed are treated as their schedule says.

use crate::faults::clock::{DAY, Server};
use crate::faults::prelude::*;
use crate::support::shifted_clock::millis;

async fn set(server: &Server, name: &str, body: Value) {
    assert_eq!(server.process.put(&format!("/schedules/{name}"), body).await, Some(201));
}

/// Pops and finishes the next `count` jobs of a topic; returns their instants.
async fn fired(server: &Server, topic: &str, count: usize) -> Vec<i64> {
    let mut instants = Vec::new();
    while instants.len() < count {
        let jobs = server.pop(topic, "30s").await;
        let Some(job) = jobs.get(0) else { continue };
        instants.push(millis(&job["scheduled_at"]));
        let finish = format!("/jobs/{}/finish", job["id"].as_str().expect("an id"));
        assert_eq!(server.process.post(&finish, json!({})).await.expect("an answer").0, 204);
    }
    instants
}

pub async fn schedules_are_right_after_a_jump_of_the_clock(server: Server) {
    set(&server, "s", json!({ "topic": "t", "every": "1s" })).await;
    let mut instants = fired(&server, "t", 2).await;
    server.jump(DAY, 1).await;
    instants.extend(fired(&server, "t", 3).await);
    let shown = server.process.get("/schedules/s").await.1;
    let ahead = seconds_until(&shown["next"][0]);
    assert!((-30..30).contains(&ahead), "the next instant is {ahead} s ahead");
    server.jump(0, 2).await;
    instants.extend(fired(&server, "t", 3).await);
    let steps = instants.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
    assert_eq!(steps, [1_000; 7], "each instant is put once, in its second");
}

/// Ends the server, and starts it again with a clock that is ahead.
async fn start_again_ahead(server: &mut Server, seconds: i64) {
    server.process.end();
    server.clock.set(seconds);
    server.start_again().await;
}

/// Returns the seconds from the true time to an instant.
fn seconds_ahead(instant: i64) -> i64 {
    let time = Timestamp::from_millisecond(instant).expect("a time");
    seconds_until(&json!(time.to_string()))
}

/// The clock is a month ahead when the server starts, and is corrected some seconds later.
pub async fn a_clock_error_at_the_start_silences_no_schedule(mut server: Server) {
    set(&server, "fires", json!({ "topic": "fires", "every": "1s" })).await;
    let skips = json!({ "topic": "skips", "every": "1s", "overlap": "skip", "ttr": "24h" });
    set(&server, "skips", skips).await;
    fired(&server, "fires", 1).await;
    let held = server.pop("skips", "30s").await[0].take();
    start_again_ahead(&mut server, 30 * DAY).await;
    eventually!(
        seconds_ahead(fired(&server, "fires", 1).await[0]) > 29 * DAY,
        "nothing fires by the wrong clock"
    );
    set(&server, "new", json!({ "topic": "new", "every": "1h" })).await;
    eventually!(
        !server.process.text("/metrics").await.contains("schedule_skipped_total 0\n"),
        "no instant is skipped"
    );
    server.jump(0, 1).await;
    let finish = format!("/jobs/{}/finish", held["id"].as_str().expect("an id"));
    assert_eq!(server.process.post(&finish, json!({})).await.expect("an answer").0, 204);
    for topic in ["fires", "skips"] {
        eventually!(
            seconds_ahead(fired(&server, topic, 1).await[0]) < DAY,
            "no job of {topic} has an instant of the true time"
        );
    }
    let shown = server.process.get("/schedules/new").await.1;
    assert!(seconds_until(&shown["next"][0]) <= 3_600, "{shown}");
    let metrics = server.process.text("/metrics").await;
    assert!(metrics.contains("delay_queue_schedule_clock_ahead_total 3\n"), "{metrics}");
}

/// The clock is a day ahead when the server starts again, as after a day without a server.
pub async fn a_day_without_a_server_is_missed_as_schedules_say(mut server: Server) {
    for missed in ["once", "none", "all"] {
        let body = json!({ "topic": missed, "every": "1s", "missed": missed });
        set(&server, missed, body).await;
        fired(&server, missed, 1).await;
    }
    start_again_ahead(&mut server, DAY).await;
    let day = DAY * 1_000;
    let gaps = |instants: &[i64]| {
        instants.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap != 1_000).count()
    };
    // Those of the last minute before the start are put, each one. Some from before the end of the
    // server may come first.
    let mut none = fired(&server, "none", 70).await;
    none.retain(|instant| seconds_ahead(*instant) > DAY / 2);
    assert_eq!(gaps(&none), 0, "{none:?}");
    let once = fired(&server, "once", 70).await;
    assert!(gaps(&once) <= 1, "{once:?}");
    let all = fired(&server, "all", 1_070).await;
    assert!(gaps(&all) <= 1, "{all:?}");
    let last = |instants: &[i64]| *instants.last().expect("instants");
    for instants in [&none, &once, &all] {
        assert!(last(instants) - instants[0] < day + 120_000);
        let mut sorted = instants.clone();
        sorted.dedup();
        assert_eq!(sorted.len(), instants.len(), "an instant was put twice");
    }
}

/// The instant after the next one is more than ten years away, which no schedule looks for.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_instant_within_ten_years_is_put() {
    let mut server = Server::on_file().await;
    let leap_day = json!("2036-02-29T00:00:00Z");
    set(&server, "leap", json!({ "topic": "leap", "cron": "0 0 * 2 FRI#5" })).await;
    let shown = server.process.get("/schedules/leap").await.1;
    assert_eq!(millis(&shown["next"][0]), millis(&leap_day), "{shown}");
    start_again_ahead(&mut server, seconds_until(&leap_day) - 5).await;
    assert_eq!(fired(&server, "leap", 1).await, [millis(&leap_day)]);
}
