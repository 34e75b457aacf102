//! Walks through the jobs of each bucket once after its Redis was started.
//!
//! If a crash cuts off a script at the end of the AOF, Redis 7.0 and Valkey before August 2026 drop
//! it at the first start, and apply its first half at the second. Such a half leaves a job in no
//! set, so that nobody gets it, or in two. The walk takes small steps, mends such jobs and logs it.
//! A job that was never popped has lost its due time with its set: it stays as it is, since it
//! might run too early, and an operator decides.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redis::{Cmd, Value};

use super::{RedisStore, reply::Values};
use crate::{
    job::{Bucket, JobId},
    store::{StoreError, StoreResult},
};

/// Number of jobs that a step examines, unless they are few: Redis returns up to 512 at once.
const STEP: usize = 100;
/// The pause after a step, as a multiple of its time, so that a walk takes a tenth of a Redis.
const PAUSE: u32 = 10;
const MIN_PAUSE: Duration = Duration::from_millis(10);
/// Time between two looks for a bucket to walk through.
const IDLE: Duration = Duration::from_secs(2);
/// Pause after an error.
const AFTER_ERROR: Duration = Duration::from_secs(30);

/// The walk that this server has begun, and the ones that have ended.
#[derive(Default)]
pub struct Walks(Mutex<State>);

#[derive(Default)]
struct State {
    current: Option<Walk>,
    /// The run of Redis in which the last walk of each bucket ended.
    ended: HashMap<Bucket, Arc<str>>,
}

struct Walk {
    bucket: Bucket,
    run: Arc<str>,
    cursor: String,
    mended: usize,
    /// Jobs that only an operator can mend.
    left: u64,
}

impl RedisStore {
    /// Takes the next step; returns how long to wait for the one after it.
    pub(super) async fn take_step(&self) -> Duration {
        let began = Instant::now();
        match self.step().await {
            Ok(true) => (began.elapsed() * PAUSE).max(MIN_PAUSE),
            Ok(false) => IDLE,
            Err(error) => {
                tracing::debug!(%error, "failed to look for jobs that a restart left half changed");
                AFTER_ERROR
            }
        }
    }

    /// Returns whether there was anything to do.
    async fn step(&self) -> StoreResult<bool> {
        let current = self.walks.lock().current.take();
        let Some(mut walk) = (match current {
            Some(walk) => Some(walk),
            None => self.next_walk().await?,
        }) else {
            return Ok(false);
        };
        let found = self.run(&self.scripts.walk, walk.bucket, |cmd| {
            cmd.arg(&walk.cursor).arg(STEP);
        });
        let mut found = found.await?;
        walk.cursor = found.text()?;
        walk.left += found.number()?;
        let ids: StoreResult<Vec<JobId>> = (0..found.left()).map(|_| found.parsed()).collect();
        walk.mended += self.mend(walk.bucket, ids?).await?;
        if walk.cursor == "0" {
            self.end_walk(walk).await?;
        } else {
            self.walks.lock().current = Some(walk);
        }
        Ok(true)
    }

    /// Returns the walk through the first bucket of this server's share whose Redis was started
    /// since its last walk.
    async fn next_walk(&self) -> StoreResult<Option<Walk>> {
        for bucket in self.buckets.all() {
            if !self.is_share(bucket) || self.incarnations.refusal(bucket).is_some() {
                continue;
            }
            let keys = &self.keys[bucket.index()];
            let Some(run) = self.run_of(bucket) else { continue };
            if self.walks.lock().ended.get(&bucket) == Some(&run) {
                continue;
            }
            let get = redis::cmd("GET").arg(&keys.walked).take();
            let walked = Values::one(self.nodes.command(keys.slot, &get).await?).maybe_text()?;
            if walked.as_deref() != Some(&run) {
                let (cursor, mended, left) = ("0".to_owned(), 0, 0);
                return Ok(Some(Walk { bucket, run, cursor, mended, left }));
            }
            self.walks.lock().ended.insert(bucket, run);
        }
        Ok(None)
    }

    /// Mends jobs, each atomically, if they still need it; returns the number of mended ones.
    async fn mend(&self, bucket: Bucket, ids: Vec<JobId>) -> StoreResult<usize> {
        if ids.is_empty() {
            return Ok(0);
        }
        let fill = |cmd: &mut Cmd| {
            cmd.arg("1");
            for id in &ids {
                cmd.arg(id.as_str()).arg(0);
            }
        };
        let mut codes = self.run(&self.scripts.mend, bucket, fill).await?;
        let codes: StoreResult<Vec<u64>> = ids.iter().map(|_| codes.number()).collect();
        Ok(codes?.into_iter().filter(|code| *code > 0).count())
    }

    /// Ends a walk, unless Redis was started again meanwhile.
    async fn end_walk(&self, walk: Walk) -> StoreResult<()> {
        let Walk { bucket, run, mended, left, .. } = walk;
        let keys = &self.keys[bucket.index()];
        if self.run_of(bucket).as_ref() != Some(&run) {
            return Ok(());
        }
        if mended > 0 {
            tracing::warn!(
                bucket = bucket.index(),
                jobs = mended,
                "mended jobs that a restart of Redis left half changed: they may run once more"
            );
        }
        if left > 0 {
            tracing::error!(
                bucket = bucket.index(),
                jobs = left,
                "a restart of Redis left jobs half put, without their due times: doctor --repair \
                 makes them ready at once"
            );
        }
        let set = redis::cmd("SET").arg(&keys.walked).arg(&*run).take();
        match self.nodes.command(keys.slot, &set).await? {
            Value::Okay => {}
            other => return Err(StoreError::unreadable(format!("SET answered {other:?}"))),
        }
        self.walks.lock().ended.insert(bucket, run);
        Ok(())
    }

    /// Returns the run of the Redis that has a bucket.
    fn run_of(&self, bucket: Bucket) -> Option<Arc<str>> {
        self.nodes.of(self.keys[bucket.index()].slot).ok()?.run()
    }
}

impl Walks {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
