//! Maps each transition to work for the writer: its need of the disk, and its function.
//!
//! A call for several buckets becomes one piece of work per bucket. The writer commits all work
//! that has arrived in one transaction.

use futures::future::{BoxFuture, join, join_all};

use super::{
    FileStore,
    finished::{delete, finish, put},
    health::Need,
    index::Class,
    machine::{Machine, Write},
    matching,
    pop::pop,
    reads::reschedule,
    schedules::fire,
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, Change, Job, Refusal},
    store::{
        Applied, Call, Command, Delete, JobTransitions, KickDead, Now, Outcome, Part, Parts,
        Promote, Promoted, Purge, ReadyJobs, Release, Reply, StoreError, StoreResult, StoreResults,
        Target, Transition, Transitioned,
    },
};

impl JobTransitions for FileStore {
    fn apply(&self, command: Command) -> BoxFuture<'_, Outcome> {
        match command {
            Command::Put(call) => self.work(call, Need::Room, put),
            Command::Fire(call) => self.work(call, Need::Room, fire),
            Command::Restore(call) => self.work(call, Need::Room, restore),
            Command::Pop(call) => self.work(call, Need::Growing, pop),
            Command::Unpop(call) => self.each(call, Need::Writing, Machine::unpop),
            Command::Finish(call) => self.work(call, Need::Writing, finish),
            Command::Release(call) => call.by(|parts| self.release(parts)),
            Command::Touch(call) => self.each(call, Need::Growing, Machine::touch),
            Command::Bury(call) => self.each(call, Need::Writing, Machine::bury),
            Command::Kick(call) => self.each(call, Need::Writing, Machine::kick),
            Command::Delete(call) => self.work_of(call, |jobs| need_of_deletes(jobs), delete),
            Command::Reschedule(call) => {
                self.work_of(call, |jobs| need_of_changes(jobs), reschedule)
            }
            Command::Promote(call) => call.by(|parts| self.promote(parts)),
            Command::Purge(call) => self.work(call, Need::Writing, purge),
            Command::KickDead(call) => self.work(call, Need::Writing, kick_dead),
            Command::KickMatching(call) => self.work(call, Need::Writing, matching::kick),
            Command::PurgeMatching(call) => self.work(call, Need::Writing, matching::purge),
        }
    }
}

impl FileStore {
    /// Queues work that calls `each` for every job of every part.
    fn each<J: Send + 'static, O: Send + 'static, T>(
        &self,
        call: Call<T>,
        need: Need,
        each: impl Fn(&mut Machine, Now, J, &mut Vec<Write>) -> Reply<O> + Copy + Send + 'static,
    ) -> BoxFuture<'_, Outcome>
    where
        Vec<J>: Part,
        T: Transition<Part = Vec<J>, Reply = Vec<Reply<O>>>,
    {
        self.work(call, need, move |writer, bucket, jobs: Vec<J>| {
            let now = writer.now();
            let machine = &mut writer.machines[bucket.index()];
            let writes = &mut writer.writes;
            Ok(jobs.into_iter().map(|job| each(machine, now, job, writes)).collect())
        })
    }

    /// Queues `work` for the part of each bucket.
    fn work<T: Transition>(
        &self,
        call: Call<T>,
        need: Need,
        work: impl Fn(&mut WriterState, Bucket, T::Part) -> StoreResult<T::Reply>
        + Copy
        + Send
        + 'static,
    ) -> BoxFuture<'_, Outcome> {
        self.work_of(call, move |_| need, work)
    }

    /// Queues `work` for the part of each bucket, with a need that depends on the part.
    fn work_of<'a, T: Transition>(
        &'a self,
        call: Call<T>,
        need: impl Fn(&T::Part) -> Need + Send + 'a,
        work: impl Fn(&mut WriterState, Bucket, T::Part) -> StoreResult<T::Reply>
        + Copy
        + Send
        + 'static,
    ) -> BoxFuture<'a, Outcome> {
        call.by(|parts| async move {
            let each = |(bucket, part): (Bucket, T::Part)| {
                let need = need(&part);
                self.writer.call_with(need, move |writer| work(writer, bucket, part))
            };
            join_all(parts.into_iter().map(each)).await
        })
    }

    /// Releases jobs. Releases with a new body need room, while other releases must work on a full
    /// disk. So each kind is a separate piece of work.
    async fn release(&self, parts: Parts<Vec<Release>>) -> StoreResults<Vec<Reply<Transitioned>>> {
        let each = parts.into_iter().map(async |(bucket, jobs)| {
            let grows: Vec<bool> = jobs.iter().map(|job| job.body.is_some()).collect();
            let (with_body, others): (Vec<_>, Vec<_>) =
                jobs.into_iter().partition(|job| job.body.is_some());
            let count = with_body.len();
            let (with_body, others) = join(
                self.release_some(Need::Room, bucket, with_body),
                self.release_some(Need::Writing, bucket, others),
            )
            .await;
            let (with_body, others) = both_released(count, with_body, others)?;
            let (mut with_body, mut others) = (with_body.into_iter(), others.into_iter());
            let next = |grows| if grows { with_body.next() } else { others.next() };
            Ok(grows.into_iter().filter_map(next).collect())
        });
        join_all(each).await
    }

    async fn release_some(
        &self,
        need: Need,
        bucket: Bucket,
        jobs: Vec<Release>,
    ) -> StoreResult<Released> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let work = move |writer: &mut WriterState| {
            let now = writer.now();
            let machine = &mut writer.machines[bucket.index()];
            let writes = &mut writer.writes;
            Ok(jobs.into_iter().map(|job| machine.release(now, job, writes)).collect())
        };
        self.writer.call_with(need, work).await
    }

    /// Promotes in one piece of work for all buckets, because they share the limit. The rest of the
    /// limit is for jobs past their retention.
    async fn promote(&self, parts: Parts<Promote>) -> StoreResults<Promoted> {
        let count = parts.len();
        let promote = move |writer: &mut WriterState| {
            let (now, mut done) = (writer.believed_now(), 0);
            let mut all = vec![Promoted::default(); parts.len()];
            for ((bucket, Promote { limit }), promoted) in parts.iter().zip(&mut all) {
                let left = limit.saturating_sub(done);
                done += writer.in_bulk(left, |writer, most| {
                    let machine = &mut writer.machines[bucket.index()];
                    machine.promote(now, (left, most), &mut promoted.topics, &mut writer.writes)
                });
            }
            let counts = |promoted: &Promoted| promoted.total();
            if all.iter().map(counts).any(|counts| counts.timed_out + counts.dead > 0) {
                writer.count_until(now);
            }
            for class in [Class::Dead, Class::Finished] {
                for ((bucket, Promote { limit }), promoted) in parts.iter().zip(&mut all) {
                    // While there is other work, few jobs are forgotten.
                    let left = limit.saturating_sub(done);
                    let left = if writer.is_alone { left } else { left.div_ceil(4) };
                    done += writer.in_bulk(left, |writer, most| {
                        let machine = &mut writer.machines[bucket.index()];
                        let most = (class, most);
                        machine.forget(now, most, &mut promoted.topics, &mut writer.writes)
                    });
                }
            }
            for ((bucket, _), promoted) in parts.iter().zip(&mut all) {
                promoted.next = writer.machines[bucket.index()].next_deadline(now);
            }
            Ok(all)
        };
        match self.writer.call(promote).await {
            Ok(promoted) => promoted.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); count],
        }
    }
}

type Released = Vec<Reply<Transitioned>>;

/// Combines the results of releases with a body, of which there are `count`, and of all others. A
/// failed call has one error for all its jobs, so the error of one piece of work must not say of
/// the other one, which may have been committed, that nothing was applied.
fn both_released(
    count: usize,
    with_body: StoreResult<Released>,
    others: StoreResult<Released>,
) -> StoreResult<(Released, Released)> {
    match (with_body, others) {
        (Ok(with_body), Ok(others)) => Ok((with_body, others)),
        (Err(StoreError::Full { .. }), Ok(others)) => {
            Ok(((0..count).map(|_| Err(Refusal::NoRoom)).collect(), others))
        }
        (Err(error), Ok(done)) | (Ok(done), Err(error)) if !done.is_empty() => Err(error.of_part()),
        // The others need no room.
        (Err(StoreError::Full { .. }), Err(other)) => Err(other),
        (Err(one), Err(other)) if other.applied() == Applied::No => Err(one),
        (Err(error), Ok(_)) | (_, Err(error)) => Err(error),
    }
}

fn restore(
    writer: &mut WriterState,
    bucket: Bucket,
    jobs: Vec<Job>,
) -> StoreResult<Vec<Reply<()>>> {
    let mut replies = Vec::with_capacity(jobs.len());
    for job in jobs {
        let serial = writer.next_serial();
        let machine = &mut writer.machines[bucket.index()];
        replies.push(machine.restore(serial, job, &mut writer.writes));
    }
    Ok(replies)
}

fn need_of_changes(jobs: &[(Target, Change)]) -> Need {
    let grows = jobs.iter().any(|(_, change)| change.body.is_some());
    if grows { Need::Room } else { Need::Growing }
}

/// A job that was never popped needs a row for its attempt if its id is remembered.
fn need_of_deletes(jobs: &[Delete]) -> Need {
    let grows = jobs.iter().any(|job| job.remembered().is_some());
    if grows { Need::Growing } else { Need::Writing }
}

fn purge(
    writer: &mut WriterState,
    bucket: Bucket,
    Purge { topic, state, limit }: Purge,
) -> StoreResult<u64> {
    Ok(writer.in_bulk(limit, |writer, limit| {
        let machine = &mut writer.machines[bucket.index()];
        machine.purge(&topic, state, limit, &mut writer.writes)
    }))
}

fn kick_dead(
    writer: &mut WriterState,
    bucket: Bucket,
    KickDead { topic, limit }: KickDead,
) -> StoreResult<ReadyJobs> {
    let now = writer.now();
    Ok(writer.in_bulk(limit, |writer, limit| {
        let machine = &mut writer.machines[bucket.index()];
        machine.kick_dead(now, &topic, limit, &mut writer.writes)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_says_of_a_committed_release_that_it_was_not() {
        let done = || Ok(vec![Err(Refusal::NotFound)]);
        let none = || Ok(Vec::new());
        let no = || Err(StoreError::unavailable("no"));
        let unknown = || Err(StoreError::unknown("unknown"));
        let full = || Err(StoreError::Full { cause: "full".into() });
        let replaced = || Err(StoreError::Replaced { applied: Applied::No });
        let applied = |with_body, others| {
            both_released(1, with_body, others).map(drop).map_err(|error| error.applied())
        };
        for (with_body, others) in [
            (done(), no()),
            (no(), done()),
            (done(), full()),
            (done(), replaced()),
            (unknown(), done()),
            (unknown(), no()),
            (no(), unknown()),
            (full(), unknown()),
            (none(), unknown()),
        ] {
            let case = format!("{with_body:?}, {others:?}");
            assert_eq!(applied(with_body, others), Err(Applied::Unknown), "{case}");
        }
        for (with_body, others) in [
            (no(), no()),
            (full(), no()),
            (no(), full()),
            (full(), full()),
            (none(), no()),
            (no(), none()),
        ] {
            let case = format!("{with_body:?}, {others:?}");
            assert_eq!(applied(with_body, others), Err(Applied::No), "{case}");
        }
        let (with_body, others) = both_released(2, full(), done()).expect("the others are done");
        assert_eq!((with_body.len(), others.len()), (2, 1));
        assert!(with_body.iter().all(|reply| matches!(reply, Err(Refusal::NoRoom))));
    }
}
