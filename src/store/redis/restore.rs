//! A job as another store had it, written as this one would have left it.

use redis::Cmd;

use super::{
    RedisStore,
    codec::{Attempt, long_body, record},
};
use crate::{
    job::{Bucket, Job},
    store::{Reply, StoreResult},
};

impl RedisStore {
    pub(super) async fn restore_batch(
        &self,
        bucket: Bucket,
        jobs: Vec<Job>,
    ) -> StoreResult<Vec<Reply<()>>> {
        let fill = |cmd: &mut Cmd| {
            for job in &jobs {
                cmd.arg(job.id.as_str()).arg(job.topic.as_str()).arg(job.state.name());
                let put = job.unpopped();
                cmd.arg(job.at().get()).arg(record(&put, job.created_at));
                cmd.arg(long_body(&put.body).map_or(&[][..], |body| body));
                cmd.arg(Attempt::of(job).map_or_else(String::new, |attempt| attempt.text(&put)));
            }
        };
        let mut reply = self.run(&self.scripts.restore, bucket, fill).await?;
        jobs.iter().map(|_| Ok(reply.reply_number()?.map(drop))).collect()
    }
}
