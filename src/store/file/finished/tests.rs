//! Tests of finished jobs that need the file: restarts, damage, and reads within a batch.

mod damage;
mod forgetting;

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rusqlite::Connection;

use super::*;
use crate::{
    job::{
        Buckets, Ending, Job, Living, Millis, Nonce, Outcome, Policy, Reservation, Schedule,
        Topics, UnixMillis,
    },
    store::{
        Bury, Clock, JobRange, JobReads, JobRef, Options, PopRequest, PutOutcome, Release, Store,
        Target, Touch,
        file::{FileStore, salvage_into},
    },
};

const START: UnixMillis = UnixMillis::new(1_800_000_000_000);
const KEPT: Millis = Millis::new(60_000);

static NEXT_NONCE: AtomicU64 = AtomicU64::new(1);

struct Bench {
    dir: tempfile::TempDir,
    clock: Clock,
    store: FileStore,
}

impl Bench {
    fn new() -> Self {
        let (dir, clock) = (tempfile::tempdir().expect("a folder"), Clock::set_at(START));
        let store = open(dir.path(), &clock);
        Self { dir, clock, store }
    }

    /// Closes the store, changes its file by `sql`, and opens it again.
    async fn reopened(self, sql: &str) -> Self {
        let Self { dir, clock, store } = self;
        store.close().await;
        drop(store);
        let file = Connection::open(dir.path().join("jobs.db")).expect("the file");
        file.execute_batch(sql).expect("changed");
        drop(file);
        let store = open(dir.path(), &clock);
        Self { dir, clock, store }
    }

    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn put(&self, job: NewJob) -> Reply<Placed> {
        one(self.store().put(vec![(bucket(), vec![job])]).await)
    }

    async fn pop(&self) -> Vec<Reservation> {
        let topic = "t".parse().expect("a topic");
        let nonce = NEXT_NONCE.fetch_add(1, Ordering::Relaxed) << 12;
        let part =
            (Nonce::new(nonce), vec![PopRequest { topic, count: 100, ttr: None, consumer: None }]);
        let popped = one(self.store().pop(vec![(bucket(), part)]).await);
        popped.jobs.into_iter().map(|job| job.reservation).collect()
    }

    async fn finish(&self, jobs: Vec<Finish>) -> Vec<Reply<Topic>> {
        let mut results = self.store().finish(vec![(bucket(), jobs)]).await;
        results.remove(0).expect("finished")
    }

    async fn delete(&self, id: &str, remember: Option<Millis>) -> Reply<State> {
        let job = Delete { job: target(id), states: None, remember };
        one(self.store().delete(vec![(bucket(), vec![job])]).await)
    }

    async fn get(&self, id: &str) -> Job {
        self.read(id).await.expect("readable").expect("a job")
    }

    async fn read(&self, id: &str) -> StoreResult<Option<Job>> {
        self.store.get(bucket(), target(id)).await
    }

    async fn state(&self, id: &str) -> Option<State> {
        let ids = vec![id.parse().expect("an id")];
        self.store.states(vec![(bucket(), ids)]).await.remove(0).expect("states")[0]
    }

    async fn promote(&self, limit: usize) -> Option<UnixMillis> {
        let part = (bucket(), crate::store::Promote { limit });
        let promoted = self.store().promote(vec![part]).await.remove(0).expect("promoted");
        assert_eq!(promoted.total().gone, 0);
        promoted.next.map(|next| next.at)
    }
}

fn open(dir: &std::path::Path, clock: &Clock) -> FileStore {
    let options = Options::new(Some(Buckets::ONE), clock.clone());
    FileStore::open(dir, options).expect("a store")
}

fn bucket() -> Bucket {
    Buckets::ONE.all().next().expect("one")
}

/// Returns the only element of the only result.
fn one<T: One>(mut results: Vec<StoreResult<T>>) -> T::Only {
    results.remove(0).expect("a result").only()
}

trait One {
    type Only;
    fn only(self) -> Self::Only;
}

impl<T> One for Vec<T> {
    type Only = T;

    fn only(mut self) -> T {
        assert_eq!(self.len(), 1);
        self.remove(0)
    }
}

fn kept(id: &str) -> NewJob {
    let policy = Policy { finished_retention: KEPT, ..Policy::STANDARD };
    NewJob { policy, ..NewJob::new(id.parse().expect("an id"), topic(), "{\"a\": 1}") }
}

fn topic() -> Topic {
    "t".parse().expect("a topic")
}

fn target(id: &str) -> Target {
    Target { id: id.parse().expect("an id"), topics: Topics::ALL }
}

fn held(id: &str, reservation: Option<Reservation>) -> JobRef {
    JobRef { id: id.parse().expect("an id"), reservation, topics: Topics::ALL }
}

fn finish_of(id: &str, reservation: Option<Reservation>, result: Option<&'static str>) -> Finish {
    Finish { held: held(id, reservation), result: result.map(Bytes::from) }
}

fn ending(at: UnixMillis, outcome: Outcome, result: Option<&'static str>) -> Option<Ending> {
    Some(Ending { at, outcome, result: result.map(Bytes::from) })
}

#[tokio::test]
async fn the_first_result_stays_and_survives_a_restart() {
    let bench = Bench::new();
    bench.put(kept("a")).await.expect("put");
    let reservation = bench.pop().await[0];
    bench.clock.advance(Millis::new(7));
    let first = finish_of("a", Some(reservation), Some("1"));
    let other = finish_of("a", Some(Reservation::NONE), None);
    // In the same batch as `first`, so it reads rows that are not written yet.
    let again = finish_of("a", Some(reservation), Some("2"));
    let by_id = finish_of("a", None, None);
    let all = vec![first, again.clone(), other.clone(), by_id.clone()];
    let expected = vec![Ok(topic()), Ok(topic()), Err(Refusal::Finished), Err(Refusal::Finished)];
    assert_eq!(bench.finish(all).await, expected);
    let job = bench.get("a").await;
    assert_eq!(job.ending, ending(UnixMillis::new(START.get() + 7), Outcome::Finished, Some("1")));
    assert_eq!((job.state, job.attempt, &job.body[..]), (State::Finished, 1, &b""[..]));
    assert_eq!((job.due_at, job.created_at), (START, START));
    assert_eq!((job.reservation, job.error.as_deref()), (Some(reservation), None));
    assert_eq!(job.policy, kept("a").policy);

    let bench = bench.reopened("").await;
    assert_eq!(bench.get("a").await, job);
    assert_eq!(bench.finish(vec![again, other, by_id]).await, expected[1..]);
    let page = bench.store.list(bucket(), topic(), State::Finished, range()).await.expect("a page");
    assert_eq!((page.jobs, page.damaged), (vec![job.clone()], Vec::new()));
    assert_eq!(bench.promote(9).await, Some(job.at()));
    bench.clock.advance(KEPT);
    assert_eq!(bench.promote(9).await, None);
    assert_eq!(bench.read("a").await.expect("read"), None);
}

fn range() -> JobRange {
    JobRange { limit: 100, ..JobRange::default() }
}

#[tokio::test]
async fn a_result_needs_a_job_that_is_kept() {
    let bench = Bench::new();
    let job = NewJob { policy: Policy::STANDARD, ..kept("a") };
    bench.put(job).await.expect("put");
    let reservation = Some(bench.pop().await[0]);
    let before = bench.get("a").await;
    let lost = finish_of("a", Some(Reservation::NONE), Some("1"));
    let refused = bench.finish(vec![finish_of("a", reservation, Some("1")), lost]).await;
    assert_eq!(refused, [Err(Refusal::ResultNotKept), Err(Refusal::ReservationLost)]);
    assert_eq!(bench.get("a").await, before);
    assert_eq!(bench.finish(vec![finish_of("a", reservation, None)]).await, [Ok(topic())]);
    assert_eq!(bench.read("a").await.expect("read"), None);
}

#[tokio::test]
async fn a_finished_job_refuses_all_but_delete_and_replace() {
    let bench = Bench::new();
    let later = NewJob { schedule: Schedule::At(UnixMillis::new(5)), ..kept("a") };
    bench.put(later).await.expect("put");
    let reservation = Some(bench.pop().await[0]);
    let due_at = bench.get("a").await.due_at;
    bench.clock.advance(Millis::new(9));
    bench.finish(vec![finish_of("a", reservation, None)]).await[0].as_ref().expect("finished");
    let (store, at) = (bench.store(), bucket());
    for held in [held("a", reservation), held("a", None), held("a", Some(Reservation::NONE))] {
        let release = Release::new(held.clone());
        let refused = one(store.release(vec![(at, vec![release])]).await).map(drop);
        assert_eq!(refused, Err(Refusal::Finished));
        let touch = Touch { held: held.clone(), ttr: None };
        let refused = one(store.touch(vec![(at, vec![touch])]).await).map(drop);
        assert_eq!(refused, Err(Refusal::Finished));
        let bury = Bury { held: held.clone(), error: None };
        let refused = one(store.bury(vec![(at, vec![bury])]).await).map(drop);
        assert_eq!(refused, Err(Refusal::Finished));
        assert_eq!(one(store.unpop(vec![(at, vec![held])]).await), Err(Refusal::ReservationLost));
    }
    assert_eq!(one(store.kick(vec![(at, vec![target("a")])]).await), Err(Refusal::Finished));
    let change = (target("a"), crate::job::Change::default());
    let refused = one(store.reschedule(vec![(at, vec![change])]).await).map(drop);
    assert_eq!(refused, Err(Refusal::Finished));

    let living = Living { state: State::Finished, topic: topic() };
    assert_eq!(bench.put(kept("a")).await, Err(Refusal::Exists(Some(living))));
    let keep = NewJob { on_conflict: OnConflict::Keep, ..kept("a") };
    let placed = Placed { how: PutOutcome::Kept, state: State::Finished, due_at, moved_to: None };
    assert_eq!(bench.put(keep).await, Ok(placed));
    let replace = NewJob { on_conflict: OnConflict::Replace, ..kept("a") };
    let placed = bench.put(replace).await.expect("put");
    assert_eq!((placed.how, placed.state), (PutOutcome::Created, State::Ready));
    assert_eq!(bench.get("a").await.ending, None);
}

#[tokio::test]
async fn an_id_is_remembered_from_any_state() {
    let bench = Bench::new();
    let store = bench.store();
    for id in ["ready", "reserved", "dead", "finished"] {
        bench.put(NewJob { policy: Policy::STANDARD, ..kept(id) }).await.expect("put");
        if id == "ready" {
            let held = held(id, Some(bench.pop().await[0]));
            let release = Release { error: Some("once".to_owned()), ..Release::new(held) };
            one(store.release(vec![(bucket(), vec![release])]).await).expect("released");
            bench.pop().await;
            // The job keeps its second reservation after the TTR has ended.
            bench.clock.advance(Millis::new(60_001));
            bench.promote(9).await;
            continue;
        }
        let reservation = bench.pop().await;
        if id == "dead" {
            let held = held(id, reservation.last().copied());
            let bury = Bury { held, error: Some("why".to_owned()) };
            one(store.bury(vec![(bucket(), vec![bury])]).await).expect("buried");
        }
    }
    bench.delete("finished", Some(KEPT)).await.expect("deleted");
    let schedule = Schedule::In(Millis::new(1_000_000));
    bench.put(NewJob { schedule, ..kept("delayed") }).await.expect("put");
    let mut jobs = Vec::new();
    for id in ["delayed", "ready", "reserved", "dead", "finished"] {
        let before = bench.get(id).await;
        assert_eq!(bench.delete(id, Some(KEPT)).await, Ok(before.state), "{id}");
        let after = bench.get(id).await;
        let at = bench.clock.now().floor;
        assert_eq!(after.ending, ending(at, Outcome::Deleted, None), "{id}");
        let seen = (after.state, after.attempt, after.due_at, after.reservation);
        let expected = (State::Finished, before.attempt, before.due_at, before.reservation);
        assert_eq!(seen, expected, "{id}");
        assert_eq!((after.policy.finished_retention, after.error.as_deref()), (KEPT, None));
        let again = finish_of(id, after.reservation, None);
        assert_eq!(bench.finish(vec![again]).await, [Err(Refusal::Finished)], "{id}");
        jobs.push(after);
    }
    let bench = bench.reopened("").await;
    for job in jobs {
        assert_eq!(bench.get(job.id.as_str()).await, job);
    }
    assert_eq!(bench.delete("dead", Some(Millis::ZERO)).await, Ok(State::Finished));
    assert_eq!(bench.state("dead").await, None);
    assert!(bench.pop().await.is_empty());
}
