//! Clients of two topics: jobs of the first one die in every way, and move to the second one.

use crate::faults::load::{
    DYING, FALLEN,
    consumers::{Then, make_due_calls},
    producers::{expiring, named},
};
use crate::faults::prelude::*;

/// Time between puts, and between pops of the jobs that shall die. Jobs that expire sooner die
/// before a pop gets them.
const PAUSE: Duration = Duration::from_millis(100);
/// Number of puts after which the client sets the topic again, since a fault may have emptied the
/// store.
const SET_AGAIN: u64 = 16;

/// Puts jobs, each through a server that has acknowledged where they go when they die.
pub async fn put_dying(mut client: Client, producer: String, stop: Arc<AtomicBool>) {
    let (mut number, mut acknowledged) = (0_u64, None);
    while !stop.load(Ordering::Relaxed) {
        if acknowledged != Some(client.server()) {
            acknowledged = client.set_dead_to(DYING, FALLEN).await;
            continue;
        }
        number += 1;
        let name = Text::from(format!("{producer}:{number}"));
        client.put(dying(&name, number)).await;
        if number.is_multiple_of(SET_AGAIN) {
            acknowledged = None;
        }
        tokio::time::sleep(PAUSE / 2).await;
    }
}

fn dying(name: &Text, number: u64) -> Put {
    let soon = Duration::from_millis(number * 37 % 500);
    let put = |attempts, delay| Put { max_attempts: attempts, ..named(DYING, name, delay) };
    match number % 8 {
        0 | 1 => put(2, Duration::ZERO),
        // These jobs expire before most pops.
        2 => expiring(put(1, soon), TTR / 40),
        // These jobs expire while they are reserved, or before a release would make them due.
        3 => expiring(put(2, soon), TTR / 10),
        // A move removes this expiry.
        4 => expiring(put(1, soon), TTR * 2),
        _ => put(1, Duration::ZERO),
    }
}

/// Lets jobs die by a release, a bury, the end of their TTR, and their expiry.
pub async fn let_die(mut client: Client, stop: Arc<AtomicBool>) {
    let mut popped = 0_u64;
    let mut later: Vec<(Time, Then, Delivery)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(PAUSE).await;
        for job in client.pop(DYING, "count=10").await {
            popped += 1;
            let delay = Duration::from_millis(popped * 7 % 300);
            let delayed = || Release { delay, ..Release::default() };
            match popped % 9 {
                0 | 1 => client.release(&job, delayed()).await,
                2 => client.bury(&job).await,
                3 => {}
                // The move has ended the reservation.
                4 => {
                    client.bury(&job).await;
                    client.finish(&job).await;
                }
                5 => client.release(&job, Release { is_uncounted: true, ..delayed() }).await,
                6 => client.release(&job, Release { changes_body: true, ..delayed() }).await,
                // This call is late: the job has moved, unless it has another attempt.
                7 => later.push((client.now() + TTR + TTR / 20, Then::Finish, job)),
                _ => client.finish(&job).await,
            }
        }
        make_due_calls(&mut client, &mut later).await;
    }
}

/// Finishes most of the jobs that have moved. Some die again and stay dead, and some of those are
/// kicked.
pub async fn end_fallen(mut client: Client, stop: Arc<AtomicBool>) {
    let mut popped = 0_u64;
    let mut later: Vec<(Time, Then, Delivery)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for job in client.pop(FALLEN, "wait=300ms&count=10").await {
            popped += 1;
            match popped % 20 {
                // The first job stays dead.
                1 => client.bury(&job).await,
                2..4 => {
                    client.bury(&job).await;
                    later.push((client.now() + TTR / 10, Then::Kick, job));
                }
                4 => {}
                5 => {
                    client.release(&job, Release::default()).await;
                    later.push((client.now() + TTR / 10, Then::Kick, job));
                }
                6 => {
                    client.release(&job, Release { is_uncounted: true, ..Release::default() }).await
                }
                7 => {
                    client.touch(&job).await;
                    client.finish(&job).await;
                }
                8 => client.delete(&job.id).await,
                _ => client.finish(&job).await,
            }
        }
        make_due_calls(&mut client, &mut later).await;
    }
}
