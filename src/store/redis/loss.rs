//! Loss of jobs: each server detects it, all refuse calls, and an operator accepts it.
//!
//! After its start, no server writes an incarnation, so a loss that one server detects stays
//! visible to all others. The operator's program writes new incarnations first into the key of
//! accepted ones, in the slot of the layout, then into the buckets. Servers resume a bucket when
//! both are equal. Each write depends on a value that was read before. So if several operators run
//! the program at once, or if it stops halfway, another run completes the work. A server that finds
//! the work of another one unfinished pauses before it tries again.

use std::time::{Duration, Instant};

use futures::future::join_all;
use redis::Pipeline;
use tokio::time::sleep;

use super::{RedisStore, keys, preflight::incarnation, scripts};
use crate::{
    job::Bucket,
    store::{Layout, StoreError, StoreResult},
};

/// Maximum number of rounds until the accepted incarnations equal those of the buckets.
const TRIES: u32 = 10;

/// Longest pause before the second round. Each pause is random, and longer with each round, so that
/// of several servers that disturb each other, one completes a round alone.
const PAUSE: Duration = Duration::from_millis(50);

/// Bucket whose incarnation differs from the accepted one.
struct Stale {
    bucket: Bucket,
    found: Option<String>,
    accepted: Option<String>,
}

impl RedisStore {
    /// Compares the present incarnations of buckets with the known ones. A bucket with another
    /// incarnation has lost its jobs, unless this incarnation is accepted.
    pub(super) async fn compare_incarnations(
        &self,
        found: &[(Bucket, Option<String>)],
        asked: Instant,
    ) {
        let differs = |(bucket, found): &&(Bucket, Option<String>)| {
            !self.incarnations.is_known(*bucket, found.as_deref(), asked)
        };
        let differing: Vec<_> = found.iter().filter(differs).collect();
        if differing.is_empty() {
            return;
        }
        let buckets: Vec<Bucket> = differing.iter().map(|(bucket, _)| *bucket).collect();
        let accepted = self.accepted_now(&differing, &buckets).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to read whether a loss of jobs was accepted");
            vec![None; buckets.len()]
        });
        for ((bucket, found), accepted) in differing.into_iter().zip(&accepted) {
            self.incarnations.judge(*bucket, found.as_deref(), accepted.as_deref(), asked);
        }
        let is_lost = |bucket: &Bucket| self.incarnations.refusal(*bucket).is_some();
        let lost: Vec<Bucket> = buckets.into_iter().filter(is_lost).collect();
        if lost.is_empty() {
            return;
        }
        if self.accept_data_loss {
            match self.accept_loss_of(&lost).await {
                Ok(count) => {
                    tracing::warn!(count, "accepted the loss of jobs (store.accept_data_loss)")
                }
                Err(error) => tracing::warn!(%error, "failed to accept the loss of jobs"),
            }
        } else {
            self.keep_layout().await;
        }
    }

    /// Reads the accepted incarnations of these buckets. If this server is about to resume a
    /// bucket, it first takes the store's key of reservations, which was lost as well.
    async fn accepted_now(
        &self,
        differing: &[&(Bucket, Option<String>)],
        buckets: &[Bucket],
    ) -> StoreResult<Vec<Option<String>>> {
        let (_, accepted) = self.read_accepted(buckets).await?;
        let goes_on = |((_, found), accepted): (&&(Bucket, Option<String>), &Option<String>)| {
            found.is_some() && found == accepted
        };
        if differing.iter().zip(&accepted).any(goes_on) {
            self.share_reservation_key().await?;
        }
        Ok(accepted)
    }

    async fn share_reservation_key(&self) -> StoreResult<()> {
        let slot = keys::slot(&keys::layout(&self.prefix));
        let keep = self.preflight.keep_reservation_key();
        let found = self.nodes.script(slot, None, |_| keep.clone()).await?;
        let found = redis::from_redis_value(found).map_err(StoreError::unreadable)?;
        self.preflight.take_reservation_key(found).map_err(StoreError::unavailable)
    }

    /// Reads the layout and the accepted incarnations of these buckets; `None` if the store has
    /// another layout.
    async fn read_accepted(
        &self,
        buckets: &[Bucket],
    ) -> StoreResult<(Option<String>, Vec<Option<String>>)> {
        let layout = keys::layout(&self.prefix);
        let mut read = Pipeline::with_capacity(2);
        read.cmd("GET").arg(&layout);
        read.cmd("HMGET").arg(keys::accepted(&self.prefix));
        for bucket in buckets {
            read.arg(bucket.index());
        }
        let mut answers = self.nodes.pipeline(keys::slot(&layout), &read).await?.into_iter();
        let mut next = || answers.next().unwrap_or_else(|| Err(StoreError::unreadable("no reply")));
        let layout: Option<String> =
            redis::from_redis_value(next()?).map_err(StoreError::unreadable)?;
        let accepted: Vec<Option<String>> =
            redis::from_redis_value(next()?).map_err(StoreError::unreadable)?;
        if layout.as_ref().is_some_and(|layout| *layout != self.layout()) {
            return Ok((layout, vec![None; buckets.len()]));
        }
        Ok((layout, accepted))
    }

    fn layout(&self) -> String {
        Layout::new(self.buckets).text()
    }

    /// Rewrites a lost layout. Without it, the next server to start would create a new store in
    /// place of this one.
    async fn keep_layout(&self) {
        let (key, own) = (keys::layout(&self.prefix), self.layout());
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(&own).arg("NX").arg("GET");
        match self.nodes.command(keys::slot(&key), &set).await.map(redis::from_redis_value) {
            Ok(Ok(None::<String>)) => {}
            Ok(Ok(Some(found))) if found == own => {}
            Ok(found) => tracing::error!(?found, own, "the store has another layout now: restart"),
            Err(error) => tracing::warn!(%error, "failed to write the layout again"),
        }
    }

    /// Gives these buckets new incarnations, unless their incarnations are accepted already.
    /// Returns the number of changed buckets.
    pub(super) async fn accept_loss_of(&self, buckets: &[Bucket]) -> StoreResult<u64> {
        // The calls of one server do not disturb each other.
        let _only = self.accepting.lock().await;
        let mut has_written = false;
        let accepted = self.try_to_accept_loss_of(buckets, &mut has_written).await;
        accepted.map_err(|error| if has_written { error.of_part() } else { error })
    }

    async fn try_to_accept_loss_of(
        &self,
        buckets: &[Bucket],
        has_written: &mut bool,
    ) -> StoreResult<u64> {
        self.share_reservation_key().await?;
        let (new, mut changed) = (incarnation::new(), 0);
        for round in 0..TRIES {
            sleep((PAUSE * round).mul_f64(rand::random())).await;
            let asked = Instant::now();
            let (layout, accepted) = self.read_accepted(buckets).await?;
            let found = join_all(buckets.iter().map(|&bucket| self.read_incarnation(bucket))).await;
            let (mut stale, mut failure) = (Vec::new(), None);
            for ((&bucket, found), accepted) in buckets.iter().zip(found).zip(accepted) {
                // Continues with the other buckets; the caller gets the error at the end.
                let found = match found {
                    Ok(found) => found,
                    Err(error) => {
                        failure = Some(error);
                        continue;
                    }
                };
                if found.is_none() || found != accepted {
                    stale.push(Stale { bucket, found, accepted });
                } else {
                    self.incarnations.judge(bucket, found.as_deref(), accepted.as_deref(), asked);
                }
            }
            if stale.is_empty() && layout.is_some() {
                return failure.map_or(Ok(changed), |error| Err(StoreError::unknown(error)));
            }
            let accepted = self.write_accepted(&stale, &new).await?;
            *has_written = true;
            let writes = stale.iter().zip(&accepted).map(|(stale, accepted)| {
                self.write_incarnation(stale.bucket, stale.found.as_deref(), accepted)
            });
            for written in join_all(writes).await {
                changed += written?;
            }
        }
        Err(StoreError::unavailable("another command accepts losses at the same time; retry"))
    }

    async fn read_incarnation(&self, bucket: Bucket) -> StoreResult<Option<String>> {
        let keys = &self.keys[bucket.index()];
        // Unlike GET, MGET returns none for a key of another type.
        let found =
            self.nodes.command(keys.slot, redis::cmd("MGET").arg(&keys.incarnation)).await?;
        let (found,): (Option<String>,) =
            redis::from_redis_value(found).map_err(StoreError::unreadable)?;
        Ok(found)
    }

    /// Makes `new` the accepted incarnation of each bucket whose accepted incarnation has not
    /// changed since it was read. Returns the accepted incarnations afterwards.
    async fn write_accepted(&self, stale: &[Stale], new: &str) -> StoreResult<Vec<String>> {
        let (key, own) = (keys::layout(&self.prefix), self.layout());
        let eval = |_| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(scripts::ACCEPT_LOSS).arg(2).arg(&key).arg(keys::accepted(&self.prefix));
            eval.arg(&own);
            for Stale { bucket, accepted, .. } in stale {
                eval.arg(bucket.index()).arg(accepted.as_deref().unwrap_or_default()).arg(new);
            }
            eval
        };
        let reply = self.nodes.script(keys::slot(&key), None, eval).await?;
        let mut reply: Vec<String> =
            redis::from_redis_value(reply).map_err(StoreError::unreadable)?;
        if reply.first() != Some(&own) {
            let cause = format!("the store has another layout now: {reply:?}, and not {own:?}");
            return Err(StoreError::unavailable(cause));
        }
        reply.remove(0);
        Ok(reply)
    }

    /// Replaces a bucket's incarnation if it is still `found`; returns 1 if it has changed.
    async fn write_incarnation(
        &self,
        bucket: Bucket,
        found: Option<&str>,
        new: &str,
    ) -> StoreResult<u64> {
        let keys = &self.keys[bucket.index()];
        let eval = |_| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(scripts::SET_INCARNATION).arg(1).arg(&keys.incarnation);
            eval.arg(found.unwrap_or_default()).arg(new);
            eval
        };
        let done = self.nodes.script(keys.slot, None, eval).await?;
        redis::from_redis_value(done).map_err(StoreError::unreadable)
    }
}
