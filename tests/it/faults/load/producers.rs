//! Clients that put, delete and reschedule jobs.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{ATTEMPTS, BATCH, DOOMED, HELD, KEPT, ONCE, PAUSED, RETENTION, TOPIC, TRIES};
use crate::faults::{
    client::{Client, Put},
    history::{StoreResult, Text, Time},
};

const PAUSE: Duration = Duration::from_millis(5);
/// Time between puts while the consumers are behind: debug builds on a busy machine must keep up.
const LONG_PAUSE: Duration = Duration::from_millis(200);

const NOW: Duration = Duration::ZERO;

/// Puts until `stop`, more slowly while the consumers are `behind`.
pub async fn put_jobs(
    mut client: Client,
    producer: String,
    (behind, stop): (Arc<AtomicBool>, Arc<AtomicBool>),
) {
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        put_one(&mut client, &format!("{producer}:{number}"), number).await;
        let pause = if behind.load(Ordering::Relaxed) { LONG_PAUSE } else { PAUSE };
        tokio::time::sleep(pause).await;
    }
}

/// Returns a put whose body, and id if it keeps one, is this name.
fn named(topic: &'static str, name: &Text, delay: Duration) -> Put {
    let (id, body) = (Some(name.clone()), name.clone());
    Put { topic, id, body, delay, max_attempts: ATTEMPTS, finished_retention: NOW }
}

/// Puts jobs whose ids stay taken after their end, each again at once and seconds later, as a
/// producer does that got no answer. Deletes some before they are due, which takes their ids too.
pub async fn put_again(mut client: Client, producer: String, stop: Arc<AtomicBool>) {
    const LATER: Duration = Duration::from_secs(5);
    let mut later: VecDeque<(Time, Text)> = VecDeque::new();
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let name = Text::from(format!("{producer}:{number}"));
        let delay = Duration::from_millis(number * 37 % 1000);
        let put = || Put { finished_retention: RETENTION, ..named(ONCE, &name, delay) };
        client.put(put()).await;
        if number.is_multiple_of(4) {
            client.cancel(&name).await;
        }
        client.put(put()).await;
        later.push_back((client.now() + LATER, name));
        while later.front().is_some_and(|(at, _)| *at <= client.now()) {
            let Some((_, name)) = later.pop_front() else { break };
            client.put(Put { finished_retention: RETENTION, ..named(ONCE, &name, NOW) }).await;
        }
        tokio::time::sleep(LONG_PAUSE / 4).await;
    }
}

async fn put_one(client: &mut Client, name: &str, number: u64) {
    let name = Text::from(name);
    let soon = Duration::from_millis(number * 37 % 2000);
    match number % 20 {
        // The job is deleted before it is due, or while a consumer may hold it.
        0 | 1 => {
            let delay = if number % 20 == 1 { soon } else { NOW };
            client.put(named(TOPIC, &name, delay)).await;
            client.delete(&name).await;
        }
        2 => {
            // The job lives for an hour, so putting it again is harmless, and its outcome becomes
            // certain.
            for _ in 0..TRIES {
                let put = client.put(named(KEPT, &name, Duration::from_secs(3600))).await;
                if !matches!(put, StoreResult::Unknown) {
                    return;
                }
            }
        }
        3 if number % 100 == 3 => {
            client.put(named(HELD, &name, NOW)).await;
            client.pop(HELD, "ttr=1h").await;
        }
        4 => doom(client, &name, number).await,
        5..8 => drop(client.put(Put { id: None, ..named(TOPIC, &name, NOW) }).await),
        8 => drop(client.put(named(PAUSED, &name, NOW)).await),
        9..12 => drop(client.put(named(TOPIC, &name, soon)).await),
        // The job becomes due later than it was put for, or sooner.
        12 => {
            client.put(named(TOPIC, &name, Duration::from_millis(500))).await;
            client.reschedule(&name, soon).await;
        }
        13 => {
            client.put(named(TOPIC, &name, Duration::from_secs(3))).await;
            client.reschedule(&name, soon / 4).await;
        }
        14..18 => {
            let part = |n: u64| {
                let delay = if n.is_multiple_of(2) { NOW } else { soon };
                named(TOPIC, &Text::from(format!("{name}.{n}")), delay)
            };
            client.put_batch((0..BATCH).map(part).collect()).await;
        }
        _ => drop(client.put(named(TOPIC, &name, NOW)).await),
    }
}

/// Puts a job that is dead after its first release; some are kicked, and die once more.
async fn doom(client: &mut Client, name: &Text, number: u64) {
    client.put(Put { max_attempts: 1, ..named(DOOMED, name, NOW) }).await;
    for job in client.pop(DOOMED, "").await {
        client.release(&job, NOW).await;
        if number % 60 == 4 {
            client.kick(&job.id).await;
            for job in client.pop(DOOMED, "").await {
                client.release(&job, NOW).await;
            }
        }
    }
}
