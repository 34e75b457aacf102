//! Jumps of the store's clock. Each fault sets the clock back after a while.

use tokio::time::sleep;

use crate::soak::prelude::*;
use crate::{faults::client::Client, support::shifted_clock::seconds_until};

/// Maximum time for which the clock stays moved. After a minute, servers would adopt its time.
const MOVED_FOR: Duration = Duration::from_secs(10);

/// Moves the clock by `seconds` and back. The fault has an effect if all servers count both jumps.
pub async fn moved(scene: Scene<'_>, seconds: i64) -> bool {
    let mut seen = true;
    for offset in [seconds, 0] {
        let before = jumps(&scene).await;
        scene.stage.clock.set(offset);
        let (began, mut counted) = (Instant::now(), false);
        while !counted && began.elapsed() < MOVED_FOR {
            sleep(Duration::from_millis(20)).await; // the timers must run to notice the jump
            let now = jumps(&scene).await;
            counted = now.iter().zip(&before).all(|(now, before)| now > before);
        }
        seen &= counted;
        sleep(Duration::from_secs(1)).await;
    }
    seen
}

/// Returns the number of jumps that each server has counted.
async fn jumps(scene: &Scene<'_>) -> Vec<u64> {
    let mut all = Vec::new();
    for server in &scene.stage.servers {
        let metrics = server.process.text("/metrics").await;
        let line = metrics.lines().find(|l| l.starts_with("delay_queue_clock_jumps_total "));
        let count = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        all.push(count.expect("the metric of clock jumps"));
    }
    all
}

/// Time after which servers adopt a clock that has jumped, and a margin.
pub const ADOPTED_AFTER: Duration = Duration::from_secs(75);

/// Deletes the jobs whose times were computed with a wrong clock, as an operator would. Otherwise
/// the drain would wait for them.
pub async fn delete_far_jobs(bases: &[String], history: &Arc<History>) {
    let mut client = Client::new(Arc::clone(history), bases, 0);
    for topic in ["t", "expiring", "dying", "fallen"] {
        for (state, field) in
            [("delayed", "due_at"), ("ready", "due_at"), ("reserved", "reserved_until")]
        {
            for id in far_ahead(&bases[0], topic, state, field).await {
                client.delete(&id.into()).await;
            }
        }
    }
}

/// Returns the jobs of a topic whose time in this field is more than ten seconds ahead.
async fn far_ahead(base: &str, topic: &str, state: &str, field: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let url = format!("{base}/topics/{topic}/jobs?state={state}&limit=1000{cursor}");
        let page: Value =
            crate::support::http::get(url).await.expect("an answer").json().await.expect("JSON");
        let jobs = page["jobs"].as_array().expect("jobs").iter();
        let far = jobs.filter(|job| seconds_until(&job[field]) > 10);
        ids.extend(far.map(|job| job["id"].as_str().expect("an id").to_owned()));
        let Some(next) = page["cursor"].as_str() else { return ids };
        cursor = format!("&cursor={next}");
    }
}
