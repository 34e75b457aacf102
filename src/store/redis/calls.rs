//! Calls of scripts: groups buckets into calls and returns the reply of each bucket.

use futures::future::join_all;
use redis::{Cmd, Value};

use super::{
    RedisStore,
    reply::Values,
    scripts::{Guardable, Transition},
    transport::error::of_bucket,
};
use crate::{
    job::Bucket,
    store::{JobRequest, StoreError, StoreResult, StoreResults},
};

impl RedisStore {
    /// Runs a script on a bucket; `fill` adds its arguments.
    pub async fn run(
        &self,
        transition: &Transition,
        bucket: Bucket,
        fill: impl Fn(&mut Cmd) + Send + Sync,
    ) -> Result<Values, StoreError> {
        let confirmed = transition.is_confirmed();
        let fill = |cmd: &mut Cmd, _, _: &()| fill(cmd);
        only(self.call(transition, confirmed, &[(bucket, ())], &fill).await?)
    }

    /// Runs a script on each part: `fill` adds its arguments, and `read` parses its reply. On one
    /// Redis, one call serves all buckets. On a cluster, a script may access only one slot, so each
    /// bucket has its own call; all calls to one node go in one write.
    pub async fn run_each<T: Sync, O>(
        &self,
        transition: &Transition,
        parts: &[(Bucket, T)],
        fill: impl Fn(&mut Cmd, Bucket, &T) + Send + Sync,
        read: impl Fn(&mut Values, &T) -> StoreResult<O>,
    ) -> StoreResults<O> {
        let confirmed = transition.is_confirmed();
        let at_once = if self.nodes.is_one() { parts.len().max(1) } else { 1 };
        let calls = parts.chunks(at_once).map(async |parts| {
            match self.call(transition, confirmed, parts, &fill).await {
                Ok(replies) => replies,
                Err(error) => parts.iter().map(|_| Err(error.clone())).collect(),
            }
        });
        let replies = join_all(calls).await.into_iter().flatten();
        parts.iter().zip(replies).map(|((_, part), reply)| read(&mut reply?, part)).collect()
    }

    /// Runs a script like [`run_each`](Self::run_each), for jobs that some callers may not access.
    pub async fn each_guarded<J: JobRequest + Sync, O>(
        &self,
        script: &Guardable,
        parts: &[(Bucket, Vec<J>)],
        fill: impl Fn(&mut Cmd, Bucket, &Vec<J>) + Send + Sync,
        read: impl Fn(&mut Values, &Vec<J>) -> StoreResult<O>,
    ) -> StoreResults<O> {
        let transition = script.of(parts.iter().flat_map(|(_, jobs)| jobs));
        let fill_all = |cmd: &mut Cmd, bucket, jobs: &Vec<J>| {
            script.fill(transition, cmd, jobs);
            fill(cmd, bucket, jobs);
        };
        self.run_each(transition, parts, fill_all, read).await
    }

    /// Calls a script once and returns the reply of each part. Refuses parts whose bucket lost its
    /// jobs, and new jobs for a server that may lose them.
    pub async fn call<T: Sync>(
        &self,
        transition: &Transition,
        is_confirmed: bool,
        parts: &[(Bucket, T)],
        fill: &(impl Fn(&mut Cmd, Bucket, &T) + Send + Sync),
    ) -> StoreResult<StoreResults<Values>> {
        let refusal = |&(bucket, _): &(Bucket, T)| self.refusal(transition, bucket);
        let refusals: Vec<Option<StoreError>> = parts.iter().map(refusal).collect();
        let sound: Vec<usize> = (0..parts.len()).filter(|&n| refusals[n].is_none()).collect();
        let mut replies =
            self.call_sound(transition, is_confirmed, parts, &sound, fill).await?.into_iter();
        let reply = |refusal: Option<StoreError>| match refusal {
            None => replies.next().unwrap_or_else(|| Err(StoreError::unreadable("no reply"))),
            Some(refusal) => Err(refusal),
        };
        Ok(refusals.into_iter().map(reply).collect())
    }

    /// Returns the error with which a bucket refuses a script without calling it.
    fn refusal(&self, transition: &Transition, bucket: Bucket) -> Option<StoreError> {
        let lost = self.incarnations.refusal(bucket);
        if lost.is_some() || !transition.adds_jobs() {
            return lost;
        }
        let master = self.nodes.of(self.keys[bucket.index()].slot).ok()?;
        master.risk().map(|cause| StoreError::Unsafe { cause })
    }

    /// Calls a script for the parts whose indexes are in `sound`.
    async fn call_sound<T: Sync>(
        &self,
        transition: &Transition,
        is_confirmed: bool,
        parts: &[(Bucket, T)],
        sound: &[usize],
        fill: &(impl Fn(&mut Cmd, Bucket, &T) + Send + Sync),
    ) -> StoreResult<StoreResults<Values>> {
        let buckets = sound.iter().map(|&index| &self.keys[parts[index].0.index()]);
        let Some(first) = buckets.clone().next() else { return Ok(Vec::new()) };
        let now = self.now();
        let make = |as_text| {
            let add = |cmd: &mut Cmd, index: usize| {
                let (bucket, part) = &parts[sound[index]];
                fill(cmd, *bucket, part);
            };
            transition.call(buckets.clone(), &now, as_text, add)
        };
        let confirm = is_confirmed.then_some(first.confirm.as_str());
        match self.nodes.script(first.slot, confirm, make).await? {
            Value::Array(replies) if replies.len() == sound.len() => {
                Ok(replies.into_iter().map(|reply| Values::new(of_bucket(reply)?)).collect())
            }
            _ => Err(StoreError::unreadable("a reply without one of each bucket")),
        }
    }

    /// Formats the time for scripts: empty if they use the clock of Redis.
    fn now(&self) -> String {
        self.clock.given().map_or_else(String::new, |time| time.get().to_string())
    }
}

/// Returns the reply of a call on one bucket.
pub fn only(mut replies: StoreResults<Values>) -> StoreResult<Values> {
    replies.pop().unwrap_or_else(|| Err(StoreError::unreadable("no reply")))
}
