//! State of one master and its buckets.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use redis::{Cmd, FromRedisValue, aio::MultiplexedConnection};

use crate::{
    job::State,
    store::{Counts, redis::keys::Keys},
};

/// Maximum number of topics of a bucket that are counted.
const TOPICS: usize = 1_000;
#[derive(Debug, Default)]
pub struct Server {
    /// Address of the server.
    pub address: String,
    /// Version, persistence, memory and replicas.
    pub facts: Vec<(&'static str, String)>,
    /// Numbers of the server's buckets.
    pub buckets: Vec<usize>,
    /// Jobs in these buckets.
    pub counts: Counts,
    /// Age of the oldest deadline that has not been promoted yet, in milliseconds.
    pub overdue: f64,
}

impl Server {
    /// Adds a bucket's jobs and its oldest deadline.
    pub async fn count(&mut self, connection: &mut MultiplexedConnection, keys: &Keys) {
        let mut names = redis::cmd("ZRANGE");
        names.arg(&keys.topics).arg(0).arg(TOPICS - 1);
        let topics: Vec<String> = ask(connection, &names).await.unwrap_or_default();
        for topic in topics.iter().filter_map(|topic| topic.parse().ok()) {
            for state in State::ALL {
                let key = keys.topic(state, &topic);
                let count = ask(connection, redis::cmd("ZCARD").arg(key)).await;
                *self.counts.of_mut(state) += count.unwrap_or(0);
            }
        }
        let now: Option<(f64, f64)> = ask(connection, &redis::cmd("TIME")).await;
        for deadlines in [&keys.bucket, &keys.ends] {
            let mut first = redis::cmd("ZRANGE");
            first.arg(deadlines).arg(0).arg(0).arg("WITHSCORES");
            let first: Option<(String, f64)> = ask(connection, &first).await;
            // A score below zero is not a time. The examination of sets reports it.
            let first = first.filter(|(_, at)| *at >= 0.0);
            if let (Some((_, at)), Some((seconds, micros))) = (first, now) {
                self.overdue = self.overdue.max(seconds * 1e3 + micros / 1e3 - at);
            }
        }
    }
}

/// Returns the number of servers whose lease has not expired.
pub async fn servers_at_work(connection: &mut MultiplexedConnection, key: &str) -> u64 {
    let now: Option<(f64, f64)> = ask(connection, &redis::cmd("TIME")).await;
    let now = now.map_or(0.0, |(seconds, micros)| seconds * 1e3 + micros / 1e3);
    let mut count = redis::cmd("ZCOUNT");
    ask(connection, count.arg(key).arg(format!("({now}")).arg("+inf")).await.unwrap_or_default()
}

/// Returns how far the server's clock is ahead of this machine's, in milliseconds.
pub async fn clock_difference(connection: &mut MultiplexedConnection) -> Option<f64> {
    let began = Instant::now();
    let (seconds, micros): (f64, f64) = ask(connection, &redis::cmd("TIME")).await?;
    let half_round_trip = began.elapsed().as_secs_f64() / 2.0;
    #[expect(clippy::disallowed_methods, reason = "two clocks are compared, and nothing decided")]
    let here = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64() - half_round_trip;
    Some((seconds + micros / 1e6 - here) * 1e3)
}

/// Sends a command; returns `None` after an error, such as a missing permission.
pub async fn ask<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    cmd: &Cmd,
) -> Option<T> {
    cmd.query_async::<Option<T>>(connection).await.ok().flatten()
}
