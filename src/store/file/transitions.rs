//! Maps each transition to work for the writer: its need of the disk, and its function.
//!
//! A call for several buckets becomes one piece of work per bucket; the writer commits work
//! together that has arrived together.

use futures::future::{BoxFuture, join_all};

use super::{
    FileStore,
    finished::{delete, finish, put},
    health::Need,
    machine::{Machine, Write, remembered},
    pop::pop,
    reads::reschedule,
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, Change, Job},
    store::{
        Call, Command, Delete, JobTransitions, KickDead, Now, Outcome, Part, Parts, Promote,
        Promoted, Purge, Reply, StoreResult, StoreResults, Target, Transition,
    },
};

impl JobTransitions for FileStore {
    fn apply(&self, command: Command) -> BoxFuture<'_, Outcome> {
        match command {
            Command::Put(call) => self.work(call, Need::Room, put),
            Command::Restore(call) => self.work(call, Need::Room, restore),
            Command::Pop(call) => self.work(call, Need::Growing, pop),
            Command::Unpop(call) => self.each(call, Need::Writing, Machine::unpop),
            Command::Finish(call) => self.work(call, Need::Writing, finish),
            Command::Release(call) => self.each(call, Need::Writing, Machine::release),
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

    /// Promotes in one piece of work for all buckets, since they share the limit. What the others
    /// leave of it is for finished jobs.
    async fn promote(&self, parts: Parts<Promote>) -> StoreResults<Promoted> {
        let count = parts.len();
        let promote = move |writer: &mut WriterState| {
            let (now, mut done) = (writer.believed_now(), 0);
            let mut all = vec![Promoted::default(); parts.len()];
            for ((bucket, Promote { limit }), promoted) in parts.iter().zip(&mut all) {
                let (machine, left) =
                    (&mut writer.machines[bucket.index()], limit.saturating_sub(done));
                let (topics, acted) = machine.promote(now, left, &mut writer.writes);
                promoted.topics = topics;
                done += acted;
            }
            for ((bucket, Promote { limit }), promoted) in parts.iter().zip(&mut all) {
                let (machine, left) =
                    (&mut writer.machines[bucket.index()], limit.saturating_sub(done));
                done += machine.forget_finished(now, left, &mut writer.writes);
                promoted.next = machine.next_deadline(now);
            }
            Ok(all)
        };
        match self.writer.call(promote).await {
            Ok(promoted) => promoted.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); count],
        }
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

/// A job that was never popped and is remembered needs a row for its attempt.
fn need_of_deletes(jobs: &[Delete]) -> Need {
    let grows = jobs.iter().any(|job| remembered(job).is_some());
    if grows { Need::Growing } else { Need::Writing }
}

fn purge(
    writer: &mut WriterState,
    bucket: Bucket,
    Purge { topic, state, limit }: Purge,
) -> StoreResult<u64> {
    let machine = &mut writer.machines[bucket.index()];
    Ok(machine.purge(&topic, state, limit, &mut writer.writes))
}

fn kick_dead(
    writer: &mut WriterState,
    bucket: Bucket,
    KickDead { topic, limit }: KickDead,
) -> StoreResult<u64> {
    let now = writer.now();
    let machine = &mut writer.machines[bucket.index()];
    Ok(machine.kick_dead(now, &topic, limit, &mut writer.writes))
}
