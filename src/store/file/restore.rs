//! A batch of jobs that come from another store.

use super::writer::WriterState;
use crate::{
    job::{Bucket, Job},
    store::Reply,
};

pub fn batch(writer: &mut WriterState, bucket: Bucket, jobs: Vec<Job>) -> Vec<Reply<()>> {
    let mut replies = Vec::with_capacity(jobs.len());
    for job in jobs {
        let serial = writer.next_serial();
        let machine = &mut writer.machines[bucket.index()];
        replies.push(machine.restore(serial, job, &mut writer.writes));
    }
    replies
}
