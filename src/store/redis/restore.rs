//! A job as another store had it, written as this one would have left it.

use redis::Cmd;

use super::{
    RedisStore,
    codec::{backoff_text, record_rest},
};
use crate::{
    job::{Bucket, Job, State, UnixMillis},
    store::{Outcome, Reply},
};

impl RedisStore {
    pub(super) async fn restore_batch(
        &self,
        bucket: Bucket,
        jobs: Vec<Job>,
    ) -> Outcome<Vec<Reply<()>>> {
        let fill = |cmd: &mut Cmd| {
            for job in &jobs {
                cmd.arg(job.id.as_str()).arg(job.topic.as_str()).arg(job.state.name());
                cmd.arg(job.at().get()).arg(record(job)).arg(attempt(job));
            }
        };
        let mut reply = self.run(&self.scripts.restore, bucket, fill).await?;
        jobs.iter().map(|_| Ok(reply.reply_number()?.map(drop))).collect()
    }
}

/// Its pool record, with the time of its put.
fn record(job: &Job) -> Vec<u8> {
    let mut record = format!("1 {} ", job.created_at.get()).into_bytes();
    record.extend(record_rest(&job.unpopped()));
    record
}

/// Its attempt record; empty before the first pop.
fn attempt(job: &Job) -> String {
    if job.attempt == 0 {
        return String::new();
    }
    let reservation = job.reservation.map_or_else(|| "-".to_owned(), |token| token.to_string());
    let died_at = job.died_at.map_or(0, UnixMillis::get);
    let ttr = if job.state == State::Reserved { job.ttr } else { job.own_ttr };
    format!(
        "{} {reservation} {} {died_at} {} {} {} {} {}\n{}",
        job.attempt,
        job.due_at.get(),
        ttr.get(),
        job.max_attempts,
        job.dead_retention.get(),
        backoff_text(job.backoff.as_ref()),
        job.topic,
        job.error.as_deref().unwrap_or_default(),
    )
}
