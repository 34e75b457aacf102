//! Jumps of the store's clock, set back after a while.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time::sleep;

use crate::{
    faults::{client::Client, history::History},
    soak::faults::Scene,
    support::shifted_clock::seconds_until,
};

const HOUR: i64 = 3600;

pub async fn two_minutes_ahead(scene: Scene<'_>) -> bool {
    moved(scene, 120).await
}

pub async fn two_minutes_behind(scene: Scene<'_>) -> bool {
    moved(scene, -120).await
}

pub async fn an_hour_behind(scene: Scene<'_>) -> bool {
    moved(scene, -HOUR).await
}

pub async fn fifteen_days_ahead(scene: Scene<'_>) -> bool {
    moved(scene, 15 * 24 * HOUR).await
}

/// Moves the clock by this many seconds and back; all servers must count both jumps.
async fn moved(scene: Scene<'_>, seconds: i64) -> bool {
    let mut seen = true;
    for offset in [seconds, 0] {
        let before = jumps(&scene).await;
        scene.stage.clock.set(offset);
        let mut counted = false;
        for _ in 0..500 {
            let now = jumps(&scene).await;
            counted = now.iter().zip(&before).all(|(now, before)| now > before);
            if counted {
                break;
            }
            sleep(Duration::from_millis(20)).await; // until the timers have run
        }
        seen &= counted;
        sleep(Duration::from_secs(1)).await;
    }
    seen
}

/// Returns the jumps that each server has counted.
async fn jumps(scene: &Scene<'_>) -> Vec<u64> {
    let mut all = Vec::new();
    for server in &scene.stage.servers {
        let metrics = server.process.text("/metrics").await;
        let line = metrics.lines().find(|l| l.starts_with("delay_queue_clock_jumps_total "));
        let count = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        all.push(count.expect("the metric"));
    }
    all
}

/// Time that servers keep the old clock after a jump, and a margin.
pub const BELIEVED_AFTER: Duration = Duration::from_secs(75);

/// Deletes the jobs whose times a wrong clock set, as an operator would: nothing waits for them.
pub async fn set_right(bases: &[String], history: &Arc<History>) {
    let mut client = Client::new(Arc::clone(history), bases, 0);
    for (state, field) in [("delayed", "due_at"), ("reserved", "reserved_until")] {
        for id in far_ahead(&bases[0], state, field).await {
            client.delete(&id.into()).await;
        }
    }
}

/// Returns the load's jobs that are due in more than ten seconds.
async fn far_ahead(base: &str, state: &str, field: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let url = format!("{base}/topics/t/jobs?state={state}&limit=1000{cursor}");
        let page: Value = reqwest::get(url).await.expect("an answer").json().await.expect("JSON");
        let jobs = page["jobs"].as_array().expect("jobs").iter();
        let far = jobs.filter(|job| seconds_until(&job[field]) > 10);
        ids.extend(far.map(|job| job["id"].as_str().expect("an id").to_owned()));
        let Some(next) = page["cursor"].as_str() else { return ids };
        cursor = format!("&cursor={next}");
    }
}
