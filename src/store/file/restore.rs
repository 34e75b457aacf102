//! A batch of jobs that come from another store.

use super::writer::Desk;
use crate::{
    job::{Bucket, Job},
    store::{Outcome, Reply, StoreError},
};

/// As a put, it needs room, and is refused without.
pub(super) fn batch(desk: &mut Desk, bucket: Bucket, jobs: Vec<Job>) -> Outcome<Vec<Reply<()>>> {
    if !desk.ballast.is_there() {
        return Err(StoreError::Full { cause: "the disk is full".into() });
    }
    let mut replies = Vec::with_capacity(jobs.len());
    for job in jobs {
        let serial = desk.next_serial();
        let machine = &mut desk.machines[bucket.index()];
        replies.push(machine.restore(serial, job, &mut desk.writes));
    }
    Ok(replies)
}
