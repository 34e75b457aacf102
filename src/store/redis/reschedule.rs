//! Calls of `reschedule.lua`. They are repeated, because the script may stop before the last job.

use futures::future::join_all;
use redis::Cmd;

use super::{
    RedisStore,
    codec::{checksum, schedule_text},
};
use crate::{
    job::{Bucket, Change, Job, JobId},
    store::{Applied, Parts, Reply, StoreError, StoreResult, StoreResults, Target},
};

/// Maximum number of bytes of bodies that one call has before its last job. Mirrored in
/// `shared/prelude.lua`.
const MAX_CALL_BYTES: usize = 512 << 10;

impl RedisStore {
    pub(super) async fn reschedule(
        &self,
        parts: Parts<Vec<(Target, Change)>>,
    ) -> StoreResults<Vec<Reply<Job>>> {
        let each = |(bucket, jobs)| self.reschedule_in(bucket, jobs);
        join_all(parts.into_iter().map(each)).await
    }

    /// Calls the script until all jobs are done: it stops after [`MAX_CALL_BYTES`] bytes of bodies.
    async fn reschedule_in(
        &self,
        bucket: Bucket,
        jobs: Vec<(Target, Change)>,
    ) -> StoreResult<Vec<Reply<Job>>> {
        let mut replies = Vec::with_capacity(jobs.len());
        while replies.len() < jobs.len() {
            let rest = fitting(&jobs[replies.len()..]);
            let script = self.scripts.reschedule.of(rest.iter());
            let believed = self.believed(bucket);
            let fill = |cmd: &mut Cmd| {
                self.scripts.reschedule.fill(script, cmd, rest);
                rest.iter()
                    .for_each(|(job, change)| add_arguments(cmd, &job.id, change, &believed));
            };
            let done = self.run(script, bucket, fill).await;
            let mut reply = done.map_err(|error| match error.applied() {
                Applied::No if !replies.is_empty() => StoreError::unknown(error),
                _ => error,
            })?;
            if reply.left() == 0 || reply.left() > rest.len() {
                return Err(StoreError::unreadable("a reply with another number of jobs"));
            }
            let ids = rest.iter().map(|(job, _)| job.id.clone()).take(reply.left());
            let more: Result<Vec<_>, _> = ids.map(|id| reply.rescheduled(id)).collect();
            replies.extend(more?);
        }
        Ok(replies)
    }
}

/// Returns the first of these jobs, up to the number that the bytes of one call allow.
fn fitting(jobs: &[(Target, Change)]) -> &[(Target, Change)] {
    let mut bytes = 0;
    let fits = |(_, change): &&(Target, Change)| {
        let fits = bytes <= MAX_CALL_BYTES;
        bytes += change.body.as_ref().map_or(0, |body| body.len());
        fits
    };
    &jobs[..jobs.iter().take_while(fits).count()]
}

/// Adds the arguments of one job.
fn add_arguments(cmd: &mut Cmd, id: &JobId, change: &Change, believed: &str) {
    let body = change.body.as_deref().unwrap_or_default();
    let sum = change.body.as_ref().map_or_else(String::new, |body| checksum(body));
    let schedule = change.schedule.map(|schedule| schedule_text(schedule, believed));
    cmd.arg(id.as_str()).arg(schedule.unwrap_or_default());
    cmd.arg(sum).arg(body).arg(change.policy.text());
}
