//! Clients that pop and end jobs, and one that pauses a topic.

use crate::faults::load::{BATCH, ONCE, PAUSED, TOPIC};
use crate::faults::prelude::*;

/// A later call of a consumer.
pub enum Then {
    Finish,
    /// Touch, and finish after the first TTR, within the second.
    Touch,
    Kick,
    /// Reschedule after the TTR, which ends the reservation, and then try to finish.
    Change,
}

/// Ends jobs until `stop` is set. Sets in `behind` whether consumers are too slow.
pub async fn end_jobs(mut client: Client, (behind, stop): (Arc<AtomicBool>, Arc<AtomicBool>)) {
    let mut popped = 0_u64;
    let mut later: Vec<(Time, Then, Delivery)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut done = Vec::new();
        // A pop that does not wait finds more jobs.
        let wait = if popped.is_multiple_of(3) { "" } else { "wait=1s&" };
        let jobs = client.pop(TOPIC, &format!("{wait}count={BATCH}")).await;
        behind.store(jobs.len() as u64 == BATCH, Ordering::Relaxed);
        for job in jobs {
            popped += 1;
            let now = client.now();
            match popped % 40 {
                // The next consumer keeps the job for a while, until the finish below.
                _ if job.attempt > 1 => later.push((now + TTR / 5, Then::Finish, job)),
                // This call is late: the server refuses it if another consumer has the job, and
                // accepts it otherwise.
                0 | 1 => later.push((now + TTR + TTR / 20, Then::Finish, job)),
                2 => release(&mut client, &job, popped / 40).await,
                3 => client.delete(&job.id).await,
                4 => {
                    client.bury(&job).await;
                    // Some jobs stay dead.
                    if popped % 200 != 4 {
                        later.push((now + TTR / 10, Then::Kick, job));
                    }
                }
                5 => later.push((now + TTR / 2, Then::Touch, job)),
                6 => later.push((now + TTR + TTR / 20, Then::Change, job)),
                7 => release(&mut client, &job, popped / 40 + 1).await,
                8..10 => client.finish(&job).await,
                _ => done.push(job),
            }
        }
        if !done.is_empty() {
            client.finish_batch(&done).await;
        }
        make_due_calls(&mut client, &mut later).await;
    }
}

/// Makes the calls that are due.
pub async fn make_due_calls(client: &mut Client, later: &mut Vec<(Time, Then, Delivery)>) {
    let now = client.now();
    let due: Vec<_> = later.extract_if(.., |(at, ..)| *at <= now).collect();
    for (at, then, job) in due {
        match then {
            Then::Finish => client.finish(&job).await,
            Then::Touch => {
                client.touch(&job).await;
                later.push((at + TTR * 3 / 4, Then::Finish, job));
            }
            Then::Kick => client.kick(&job.id).await,
            Then::Change => {
                client.reschedule(&job.id, Duration::ZERO).await;
                client.finish(&job).await;
            }
        }
    }
}

/// Releases a job with a delay. The number determines whether the attempt counts, and whether the
/// body changes.
async fn release(client: &mut Client, job: &Delivery, number: u64) {
    let delay = Duration::from_millis(number * 7 % 500);
    let (is_uncounted, changes_body) = (!number.is_multiple_of(3), number.is_multiple_of(2));
    client.release(job, Release { delay, is_uncounted, changes_body }).await;
}

/// Pops jobs of the topic that is paused at times. The pops are so short that some begin and end
/// within each pause.
pub async fn end_paused_jobs(mut client: Client, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        for job in client.pop(PAUSED, "wait=50ms&count=10").await {
            client.finish(&job).await;
        }
    }
}

/// Finishes jobs whose ids stay taken, some of them after a release or an ended TTR.
pub async fn end_once(mut client: Client, stop: Arc<AtomicBool>) {
    let mut popped = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        for job in client.pop(ONCE, "wait=500ms&count=10").await {
            popped += 1;
            match popped % 10 {
                0 => release(&mut client, &job, popped / 10).await,
                1 => {}
                _ => client.finish(&job).await,
            }
        }
    }
}

pub async fn pause_and_resume(mut client: Client, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.pause(PAUSED).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        while !client.resume(PAUSED).await && !stop.load(Ordering::Relaxed) {}
    }
}
