//! Walks through the jobs of each bucket once after its Redis was started.
//!
//! If a crash cuts off a script at the end of the AOF, Redis 7.0 and Valkey before August 2026 drop
//! it at the first start, and apply its first half at the second. Such a half leaves a job in no
//! set, so that no consumer gets it, or in two. The walk takes small steps, mends such jobs and
//! logs it. A job that was never popped has lost its due time with its set: it stays as it is,
//! since it might run too early. A failover, or a move of the bucket to another node, counts as a
//! start too.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redis::Cmd;

use super::{RedisStore, reply::Values};
use crate::{
    job::Bucket,
    store::{MAX_BATCH, StoreResult},
};

/// Cursors of a walk before its first step and after its last.
const BEGIN: &str = "";
const END: &str = "0";
/// Number of jobs that a step examines, unless they are few: Redis returns up to 512 at once.
const STEP: usize = 100;
/// Number of jobs that one script mends.
const MENDED: usize = 20;
/// The pause after a step, as a multiple of its time, so that a walk takes a tenth of a Redis.
const PAUSE: u32 = 10;
const MIN_PAUSE: Duration = Duration::from_millis(10);
/// Time between two looks for a bucket to walk through.
const IDLE: Duration = Duration::from_secs(2);
/// Time until a walk goes on after an error.
const AFTER_ERROR: Duration = Duration::from_secs(30);

/// The walks of this server, by bucket.
#[derive(Default)]
pub struct Walks(Mutex<HashMap<Bucket, Walk>>);

#[derive(Clone)]
struct Walk {
    bucket: Bucket,
    /// The run of Redis.
    run: Arc<str>,
    cursor: String,
    /// Ids of jobs that are to be mended at the end.
    odd: Vec<Vec<u8>>,
    /// Number of jobs that nothing but an operator can mend.
    unplaced: usize,
    mended: usize,
    is_over: bool,
    /// When the last step failed.
    failed: Option<Instant>,
}

impl RedisStore {
    /// Takes the next step; returns how long to wait for the one after it.
    pub(super) async fn take_step(&self) -> Duration {
        let began = Instant::now();
        let Some(mut walk) = self.next_walk() else { return IDLE };
        let done = self.step(&mut walk).await;
        walk.failed = done.as_ref().err().map(|_| Instant::now());
        self.walks.lock().insert(walk.bucket, walk);
        match done {
            Ok(()) => (began.elapsed() * PAUSE).max(MIN_PAUSE),
            Err(error) => {
                tracing::debug!(%error, "failed to look for jobs that are half changed");
                MIN_PAUSE
            }
        }
    }

    /// Returns the walk through a bucket of this server's share that is not over in the current run
    /// of its Redis.
    fn next_walk(&self) -> Option<Walk> {
        let walks = self.walks.lock();
        self.buckets.all().find_map(|bucket| {
            let run = self.run_of(bucket)?;
            let known = walks.get(&bucket).filter(|walk| walk.run == run);
            let has_failed = |walk: &Walk| walk.failed.is_some_and(|at| at.elapsed() < AFTER_ERROR);
            let is_due = known.is_none_or(|walk| !walk.is_over && !has_failed(walk));
            let is_own = self.is_share(bucket) && self.incarnations.refusal(bucket).is_none();
            let walk = || known.cloned().unwrap_or_else(|| Walk::new(bucket, run));
            (is_due && is_own).then(walk)
        })
    }

    async fn step(&self, walk: &mut Walk) -> StoreResult<()> {
        if walk.cursor == BEGIN && self.has_walked(walk).await? {
            walk.is_over = true;
            return Ok(());
        }
        if walk.cursor != END {
            let fill = |cmd: &mut Cmd| {
                cmd.arg(&walk.cursor).arg(STEP);
            };
            let mut found = self.run(&self.scripts.walk, walk.bucket, fill).await?;
            let cursor = found.text()?;
            walk.unplaced += usize::try_from(found.number()?).unwrap_or(MAX_BATCH);
            let ids: StoreResult<Vec<_>> = (0..found.left()).map(|_| found.bytes()).collect();
            walk.odd.extend(ids?);
            walk.cursor = if walk.has_few() { cursor } else { END.to_owned() };
            return Ok(());
        }
        if walk.has_few() && !walk.odd.is_empty() {
            let first = walk.odd.len().saturating_sub(MENDED);
            walk.mended += self.mend(walk.bucket, &walk.odd[first..]).await?;
            walk.odd.truncate(first);
            return Ok(());
        }
        self.end_walk(walk).await
    }

    /// Returns whether a server has already walked through the bucket in this run.
    async fn has_walked(&self, walk: &Walk) -> StoreResult<bool> {
        let keys = &self.keys[walk.bucket.index()];
        let get = redis::cmd("GET").arg(&keys.walked).take();
        let walked = Values::one(self.nodes.command(keys.slot, &get).await?).maybe_text()?;
        Ok(walked.as_deref() == Some(&walk.run))
    }

    /// Mends jobs, each atomically, if they still need it; returns the number of mended ones.
    async fn mend(&self, bucket: Bucket, ids: &[Vec<u8>]) -> StoreResult<usize> {
        let fill = |cmd: &mut Cmd| {
            cmd.arg("1");
            for id in ids {
                cmd.arg(id).arg(0);
            }
        };
        let mut codes = self.run(&self.scripts.mend, bucket, fill).await?;
        let codes: StoreResult<Vec<u64>> = ids.iter().map(|_| codes.number()).collect();
        Ok(codes?.into_iter().filter(|code| *code > 0).count())
    }

    /// Notes that the walk is over.
    async fn end_walk(&self, walk: &mut Walk) -> StoreResult<()> {
        let keys = &self.keys[walk.bucket.index()];
        let set = redis::cmd("SET").arg(&keys.walked).arg(&*walk.run).take();
        self.nodes.command(keys.slot, &set).await?;
        walk.is_over = true;
        let (bucket, mended) = (walk.bucket.index(), walk.mended);
        if mended > 0 {
            tracing::warn!(
                bucket,
                jobs = mended,
                "mended jobs that were half changed when Redis started: they may run once more"
            );
        }
        if !walk.has_few() {
            tracing::error!(
                bucket,
                "many jobs are in no set, or in several: keys of the bucket may be on another node; \
                 nothing was mended; run doctor"
            );
        } else if walk.unplaced > 0 {
            tracing::error!(
                bucket,
                jobs = walk.unplaced,
                "jobs were half put or half removed when Redis started, and have no due time: \
                 doctor --repair makes them ready at once"
            );
        }
        Ok(())
    }

    /// Returns the run of the Redis that has a bucket.
    fn run_of(&self, bucket: Bucket) -> Option<Arc<str>> {
        self.nodes.of(self.keys[bucket.index()].slot).ok()?.run()
    }
}

impl Walk {
    fn new(bucket: Bucket, run: Arc<str>) -> Self {
        Self {
            bucket,
            run,
            cursor: BEGIN.to_owned(),
            odd: Vec::new(),
            unplaced: 0,
            mended: 0,
            is_over: false,
            failed: None,
        }
    }

    /// Returns whether half a script can have left all the jobs that were found.
    fn has_few(&self) -> bool {
        self.odd.len() + self.unplaced <= MAX_BATCH
    }
}

impl Walks {
    fn lock(&self) -> MutexGuard<'_, HashMap<Bucket, Walk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
