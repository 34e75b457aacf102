//! Maps each transition to work for the writer: its need of the disk, and its function.
//!
//! A call for several buckets becomes one piece of work per bucket; the writer commits work
//! together that has arrived together.

use futures::future::{BoxFuture, join_all};

use super::{
    FileStore,
    health::Need,
    machine::{Machine, Write, attempt_of},
    pop::pop,
    reads::{read_job, reschedule},
    writer_state::WriterState,
};
use crate::{
    job::{Bucket, Change, Job, NewJob, Outcome as Ended, Refusal, State, Topic, Topics},
    store::{
        Call, Command, Delete, Finish, JobRef, JobTransitions, KickDead, Now, Outcome, Part, Parts,
        Placed, Promote, Promoted, Purge, Reply, StoreError, StoreResult, StoreResults, Target,
        Transition,
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
            Command::Delete(call) => self.work(call, Need::Writing, delete),
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

    /// Promotes in one piece of work for all buckets, since they share the limit.
    async fn promote(&self, parts: Parts<Promote>) -> StoreResults<Promoted> {
        let count = parts.len();
        let promote = move |writer: &mut WriterState| {
            let (now, mut done) = (writer.believed_now(), 0);
            let each = parts.into_iter().map(|(bucket, Promote { limit })| {
                let before = limit.saturating_sub(done);
                let mut left = before;
                let machine = &mut writer.machines[bucket.index()];
                let promoted = machine.promote(now, &mut left, &mut writer.writes);
                done += before - left;
                promoted
            });
            Ok(each.collect::<Vec<_>>())
        };
        match self.writer.call(promote).await {
            Ok(promoted) => promoted.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); count],
        }
    }
}

fn put(
    writer: &mut WriterState,
    bucket: Bucket,
    jobs: Vec<NewJob>,
) -> StoreResult<Vec<Reply<Placed>>> {
    let now = writer.now();
    let mut replies = Vec::with_capacity(jobs.len());
    for job in jobs {
        let serial = writer.next_serial();
        let (id, machine) = (job.id.clone(), &mut writer.machines[bucket.index()]);
        let mut placed = machine.put(now, serial, job, &mut writer.writes);
        if let Ok(kept) = &mut placed
            && kept.state == State::Finished
        {
            let target = Target { id, topics: Topics::ALL };
            kept.due_at = read_job(writer, bucket, &target)?.map_or(kept.due_at, |job| job.due_at);
        }
        replies.push(placed);
    }
    Ok(replies)
}

fn finish(
    writer: &mut WriterState,
    bucket: Bucket,
    jobs: Vec<Finish>,
) -> StoreResult<Vec<Reply<Topic>>> {
    let now = writer.now();
    let mut replies = Vec::with_capacity(jobs.len());
    for finish in jobs {
        let held = finish.held.clone();
        let machine = &mut writer.machines[bucket.index()];
        replies.push(match machine.finish(now, finish, &mut writer.writes) {
            Err(Refusal::Finished) => finished_again(writer, bucket, held)?,
            reply => reply,
        });
    }
    Ok(replies)
}

/// Answers a finish of a finished job: by the same reservation, the first answer was lost.
fn finished_again(
    writer: &mut WriterState,
    bucket: Bucket,
    held: JobRef,
) -> StoreResult<Reply<Topic>> {
    let job = match read_job(writer, bucket, &Target { id: held.id, topics: held.topics }) {
        Err(StoreError::Damaged { .. }) => return Ok(Err(Refusal::Damaged)),
        read => read?,
    };
    let is_same = |job: &Job| {
        let finished = job.ending.as_ref().is_some_and(|end| end.outcome != Ended::Deleted);
        finished && held.reservation.is_some() && job.reservation == held.reservation
    };
    Ok(job.filter(is_same).map(|job| job.topic).ok_or(Refusal::Finished))
}

fn delete(
    writer: &mut WriterState,
    bucket: Bucket,
    jobs: Vec<Delete>,
) -> StoreResult<Vec<Reply<State>>> {
    let now = writer.now();
    let mut replies = Vec::with_capacity(jobs.len());
    for delete in jobs {
        let mut ended = None;
        if delete.remember.is_some_and(|retention| !retention.is_zero()) {
            // What cannot be read cannot be rewritten, so it would not be remembered.
            match read_job(writer, bucket, &delete.job) {
                Err(StoreError::Damaged { .. }) => {
                    replies.push(Err(Refusal::Damaged));
                    continue;
                }
                read => ended = read?.filter(|job| job.ending.is_some()),
            }
        }
        let ended = ended.as_ref().map(attempt_of);
        let machine = &mut writer.machines[bucket.index()];
        replies.push(machine.delete(now, (delete, ended), &mut writer.writes));
    }
    Ok(replies)
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
