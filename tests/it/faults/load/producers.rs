//! Clients that put, delete and reschedule jobs.

use std::collections::VecDeque;

use crate::faults::load::{ATTEMPTS, BATCH, DOOMED, EXPIRING, HELD, KEPT, ONCE, PAUSED, TOPIC};
use crate::faults::prelude::*;

const PAUSE: Duration = Duration::from_millis(5);
/// Time between puts while the consumers are too slow, for debug builds on a busy machine.
const LONG_PAUSE: Duration = Duration::from_millis(200);

const NOW: Duration = Duration::ZERO;

/// Puts jobs until `stop` is set, more slowly while `behind` is set.
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

/// Returns a put with this name as its body and, for some jobs, as its id. The name determines the
/// priority.
pub fn named(topic: &'static str, name: &Text, delay: Duration) -> Put {
    Put {
        topic,
        id: Some(name.clone()),
        body: name.clone(),
        delay,
        max_attempts: ATTEMPTS,
        finished_retention: NOW,
        priority: name.bytes().next_back().unwrap_or_default() % 10,
        expires_after: None,
    }
}

/// Returns a put of a job that expires this long after its due time.
pub fn expiring(put: Put, expires_after: Duration) -> Put {
    Put { expires_after: Some(expires_after), ..put }
}

/// Puts jobs whose ids stay taken after their end. Puts each again at once and seconds later, like
/// a producer without an answer. Deletes some before they are due, which also keeps their ids
/// taken.
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
        // Deletes the job before it is due, or while it may be reserved.
        0 | 1 => {
            let delay = if number % 20 == 1 { soon } else { NOW };
            client.put(named(TOPIC, &name, delay)).await;
            client.delete(&name).await;
        }
        2 => {
            // The job exists for an hour, so it is harmless to put it again until the outcome is
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
        // Half of these jobs expire during a pause.
        8 => {
            let put = named(PAUSED, &name, NOW);
            let expires = number % 40 == 8;
            client.put(if expires { expiring(put, TTR / 10) } else { put }).await;
        }
        9 => drop(client.put(named(TOPIC, &name, soon)).await),
        // Some consumers keep the job reserved beyond its expiry.
        10 => drop(client.put(expiring(named(TOPIC, &name, soon), TTR / 4)).await),
        11 => drop(client.put(expiring(named(EXPIRING, &name, soon), soon / 8 + TTR / 40)).await),
        // Reschedules the job to a later or an earlier time.
        12 => {
            let put = named(TOPIC, &name, Duration::from_millis(500));
            client.put(expiring(put, TTR / 2)).await;
            client.reschedule(&name, soon).await;
        }
        13 => {
            client.put(named(TOPIC, &name, Duration::from_secs(3))).await;
            client.reschedule(&name, soon / 4).await;
        }
        14..18 => {
            let part = |n: u64| {
                let delay = if n.is_multiple_of(2) { NOW } else { soon };
                let put = named(TOPIC, &Text::from(format!("{name}.{n}")), delay);
                if n.is_multiple_of(5) { expiring(put, Duration::from_secs(3600)) } else { put }
            };
            client.put_batch((0..BATCH).map(part).collect()).await;
        }
        _ => drop(client.put(named(TOPIC, &name, NOW)).await),
    }
}

/// Puts a job that is dead after its first release. Kicks some of these jobs, which die once more.
async fn doom(client: &mut Client, name: &Text, number: u64) {
    client.put(Put { max_attempts: 1, ..named(DOOMED, name, NOW) }).await;
    for job in client.pop(DOOMED, "").await {
        client.release(&job, Release::default()).await;
        if number % 60 == 4 {
            client.kick(&job.id).await;
            for job in client.pop(DOOMED, "").await {
                client.release(&job, Release::default()).await;
            }
        }
    }
}
