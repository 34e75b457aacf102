//! Both stores compared with a plain model: the same random calls at the same times must get the
//! same answers and leave the same jobs. proptest writes the seeds of failures to
//! `tests/proptest-regressions/store/equivalence.txt`. Commit that file.

use delay_queue::{job::Job, store::verb};
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use crate::store::calls;
use crate::store::prelude::*;
use crate::store::{
    calls::{call, change, new_job, release, result, stored},
    model::Model,
};

const CONSUMER: &str = "worker:1";

/// A store, and the reservations that its pops have returned.
pub struct StoreUnderTest {
    pub bench: Bench,
    pub given: Vec<(JobId, Reservation)>,
}

fn selection(bench: &Bench, topic: u8, state: State, filter: u8, limit: usize) -> Selection {
    let filter = calls::filter(filter, state, bench.now());
    let topic = format!("t{topic}").parse().expect("a topic");
    Selection { topic, state, filter, after: None, limit }
}

impl StoreUnderTest {
    pub fn new(bench: Bench) -> Self {
        Self { bench, given: Vec::new() }
    }

    /// Advances the clock to the time of this call.
    pub fn advance_to_call(&self, call: u64) {
        self.bench.advance(aligned(self.bench.now(), call).since(self.bench.now()));
    }

    fn reservation(&self, name: &JobId, hold: ReservationChoice) -> Option<Reservation> {
        let mut mine = self
            .given
            .iter()
            .rev()
            .filter(|(id, _)| id == name)
            .map(|(_, reservation)| *reservation);
        match hold {
            ReservationChoice::ById => None,
            ReservationChoice::Last => mine.next().or(Some(Reservation::NONE)),
            ReservationChoice::Earlier => mine.nth(1).or(Some(Reservation::NONE)),
        }
    }

    /// Makes a call. Returns the answer as text, which must equal the model's.
    pub async fn call(&mut self, call: &Call) -> String {
        let name = |name: &u8| id(&format!("job:{name}"));
        let millis = |span: &Option<u64>| span.map(Millis::new);
        let bench = &self.bench;
        match call {
            Call::Put { .. } => {
                format!("{:?}", bench.put(new_job(call)).await)
            }
            Call::Pop { topic, ttr, is_named } => {
                let (topic, consumer) = (format!("t{topic}"), is_named.then_some(CONSUMER));
                let mut jobs = bench.pop_as(&topic, 1, millis(ttr), consumer).await;
                self.given.extend(jobs.iter().map(|job| (job.id.clone(), job.reservation)));
                // Reservations are random, so only the other fields of the jobs must be equal.
                for job in &mut jobs {
                    job.reservation = Reservation::NONE;
                }
                format!("{jobs:?}")
            }
            Call::Unpop { name: number } => {
                let name = name(number);
                let reservation =
                    self.reservation(&name, ReservationChoice::Last).unwrap_or(Reservation::NONE);
                format!("{:?}", bench.unpop(&name, reservation).await)
            }
            Call::Finish { name: number, hold, result: length } => {
                let name = name(number);
                let reservation = self.reservation(&name, *hold);
                format!("{:?}", bench.finish_with(&name, reservation, result(*length)).await)
            }
            Call::Release { name: number, hold, .. } => {
                let id = name(number);
                let reservation = self.reservation(&id, *hold);
                let held = JobRef { id, reservation, topics: Topics::ALL };
                format!("{:?}", bench.release_by(release(call, held)).await)
            }
            Call::Touch { name: number, hold, ttr } => {
                let name = name(number);
                format!(
                    "{:?}",
                    bench.touch(&name, self.reservation(&name, *hold), millis(ttr)).await
                )
            }
            Call::Bury { name: number, hold } => {
                let name = name(number);
                format!("{:?}", bench.bury(&name, self.reservation(&name, *hold)).await)
            }
            Call::Kick { name: number } => format!("{:?}", bench.kick(&name(number)).await),
            Call::Delete { name: number, only, remember } => {
                let job = target(&name(number));
                let (states, remember) = (only.map(states), millis(remember));
                format!("{:?}", bench.delete_by(Delete { job, states, remember }).await)
            }
            Call::Reschedule { name: number, .. } => {
                format!(
                    "{:?}",
                    bench.reschedule(&name(number), change(call)).await.map(without_reservation)
                )
            }
            Call::Pass { millis } => {
                bench.advance(Millis::new(*millis));
                String::new()
            }
            Call::Promote => {
                let all = bench.promote().await;
                let sums = all.iter().map(Promoted::total).fold((0, 0, 0, 0, 0), |sum, counts| {
                    let PromoteCounts { ready, expired, dead, moved, gone } = counts;
                    let (a, b, c, d, e) = sum;
                    (a + ready.count, b + expired, c + dead, d + gone, e + moved)
                });
                format!("{sums:?}")
            }
            Call::Purge { topic, state, limit } => {
                let topic: Topic = format!("t{topic}").parse().expect("a topic");
                let bucket = bench.bucket(&id("any"));
                let mut all = 0;
                // Which jobs a purge deletes first is up to the store.
                loop {
                    let (topic, state) = (topic.clone(), State::ALL[*state]);
                    let purge = Purge { topic, state, limit: *limit };
                    let purged = bench.store.call_in::<verb::Purge>(bucket, purge).await;
                    match purged.expect("purge") {
                        0 => break format!("{all:?}"),
                        purged => all += purged,
                    }
                }
            }
            Call::KickDead { topic, limit } => {
                let topic = format!("t{topic}").parse().expect("a topic");
                let kicked = bench.store.call_in::<verb::KickDead>(
                    bench.bucket(&id("any")),
                    KickDead { topic, limit: *limit },
                );
                format!("{:?}", kicked.await.expect("kick"))
            }
            Call::KickMatching { topic, is_dead, filter, limit } => {
                let state = if *is_dead { State::Dead } else { State::Delayed };
                let step = selection(bench, *topic, state, *filter, *limit);
                let bucket = bench.bucket(&id("any"));
                let call = bench.store.call_in::<verb::KickMatching>(bucket, step).await;
                let kicked = call.expect("kick").done;
                format!("{kicked:?}")
            }
            Call::PurgeMatching { topic, state, filter, limit } => {
                let step = selection(bench, *topic, State::ALL[*state], *filter, *limit);
                let (mut purged, bucket) = (0, bench.bucket(&id("any")));
                let mut after = Some(None);
                while let Some(place) = after {
                    let step = Selection { after: place, ..step.clone() };
                    let call = bench.store.call_in::<verb::PurgeMatching>(bucket, step).await;
                    let Matched { done, next } = call.expect("purge");
                    (purged, after) = (purged + done, next.map(Some));
                }
                format!("{purged:?}")
            }
            Call::Restore { .. } => format!("{:?}", bench.restore(stored(call, bench.now())).await),
            Call::Reopen => {
                self.bench = self.bench.clone().reopen().await;
                // Opening a store promotes due jobs. The model does the same, so the numbers of
                // promoted jobs are not compared.
                self.bench.promote().await;
                String::new()
            }
        }
    }

    /// Reads all jobs and topics. The counts of each topic must match its jobs.
    async fn everything(&self) -> (Vec<Option<Job>>, Vec<(Topic, Counts)>) {
        let mut jobs = Vec::new();
        for number in 0..5 {
            jobs.push(self.bench.get(&id(&format!("job:{number}"))).await.map(without_reservation));
        }
        let bucket = self.bench.bucket(&id("any"));
        let page = TopicPage { limit: 9, ..TopicPage::default() };
        let topics = self.bench.store.topics(bucket, page).await.expect("topics");
        for (topic, peek) in &topics {
            for state in State::ALL {
                let is = |job: &&Job| job.topic == *topic && job.state == state;
                let scanned = jobs.iter().flatten().filter(is).count() as u64;
                assert_eq!(peek.counts.of(state), scanned, "{topic} {state:?}");
            }
        }
        let known = |job: &Job| topics.iter().any(|(topic, _)| *topic == job.topic);
        assert!(jobs.iter().flatten().all(known), "the topic of a job is not listed");
        (jobs, topics.into_iter().map(|(topic, peek)| (topic, peek.counts)).collect())
    }
}

/// The model, its last answer, and the reservations that its pops have returned.
#[derive(Debug, Clone)]
pub struct Reference {
    pub model: Model,
    calls: u64,
    given: Vec<(JobId, u64)>,
    pub answer: String,
}

impl Reference {
    pub fn new() -> Self {
        Self { model: Model::new(START), calls: 0, given: vec![], answer: String::new() }
    }

    /// Advances the model's clock to the time of the next call.
    pub fn advance_to_call(&mut self) {
        self.model.now = aligned(self.model.now, self.calls);
        self.calls += 1;
    }

    fn reservation(&self, name: &JobId, hold: ReservationChoice) -> Option<u64> {
        let mut mine = self
            .given
            .iter()
            .rev()
            .filter(|(id, _)| id == name)
            .map(|(_, reservation)| *reservation);
        match hold {
            ReservationChoice::ById => None,
            ReservationChoice::Last => mine.next().or(Some(0)),
            ReservationChoice::Earlier => mine.nth(1).or(Some(0)),
        }
    }

    /// Advances the clock to the time of this call, and makes the call.
    pub fn call(&mut self, call: &Call) {
        self.advance_to_call();
        let name = |name: &u8| id(&format!("job:{name}"));
        let topic = |topic: &u8| format!("t{topic}").parse::<Topic>().expect("a topic");
        let millis = |span: &Option<u64>| span.map(Millis::new);
        self.answer = match call {
            Call::Put { .. } => format!("{:?}", self.model.put(new_job(call))),
            Call::Pop { topic: number, ttr, is_named } => {
                let consumer = is_named.then(|| CONSUMER.parse().expect("a name"));
                let popped = self.model.pop(&topic(number), millis(ttr), consumer);
                let given = popped.iter().map(|(job, reservation)| (job.id.clone(), *reservation));
                self.given.extend(given);
                let jobs: Vec<_> = popped.into_iter().map(|(job, _)| job).collect();
                format!("{jobs:?}")
            }
            Call::Unpop { name: number } => {
                let reservation = self.reservation(&name(number), ReservationChoice::Last);
                format!("{:?}", self.model.unpop(&name(number), reservation))
            }
            Call::Finish { name: number, hold, result: length } => {
                let reservation = self.reservation(&name(number), *hold);
                format!("{:?}", self.model.finish(&name(number), reservation, result(*length)))
            }
            Call::Release { name: number, hold, .. } => {
                let id = name(number);
                let reservation = self.reservation(&id, *hold);
                let held = JobRef { id: id.clone(), reservation: None, topics: Topics::ALL };
                format!("{:?}", self.model.release(&id, reservation, release(call, held)))
            }
            Call::Touch { name: number, hold, ttr } => {
                let reservation = self.reservation(&name(number), *hold);
                format!("{:?}", self.model.touch(&name(number), reservation, millis(ttr)))
            }
            Call::Bury { name: number, hold } => {
                let reservation = self.reservation(&name(number), *hold);
                format!("{:?}", self.model.bury(&name(number), reservation))
            }
            Call::Kick { name: number } => format!("{:?}", self.model.kick(&name(number))),
            Call::Delete { name: number, only, remember } => {
                let (only, remember) = (only.map(states), millis(remember));
                format!("{:?}", self.model.delete(&name(number), only, remember))
            }
            Call::Reschedule { name: number, .. } => {
                format!("{:?}", self.model.reschedule(&name(number), change(call)))
            }
            Call::Pass { millis } => {
                self.model.now = self.model.now.after(Millis::new(*millis));
                String::new()
            }
            Call::Promote => format!("{:?}", self.model.promote()),
            Call::Purge { topic: number, state, .. } => {
                format!("{:?}", self.model.purge(&topic(number), State::ALL[*state]))
            }
            Call::KickDead { topic: number, limit } => {
                format!("{:?}", self.model.kick_dead(&topic(number), *limit))
            }
            Call::KickMatching { topic: number, is_dead, filter, limit } => {
                let state = if *is_dead { State::Dead } else { State::Delayed };
                let filter = calls::filter(*filter, state, self.model.now);
                let kicked = self.model.kick_matching(&topic(number), state, &filter, *limit);
                format!("{kicked:?}")
            }
            Call::PurgeMatching { topic: number, state, filter, .. } => {
                let state = State::ALL[*state];
                let filter = calls::filter(*filter, state, self.model.now);
                format!("{:?}", self.model.purge_matching(&topic(number), state, &filter))
            }
            Call::Restore { .. } => {
                let job = stored(call, self.model.now);
                // No later call uses the restored reservation, because no pop of the model has
                // returned it.
                format!("{:?}", self.model.restore(job))
            }
            // Opening a store promotes due jobs.
            Call::Reopen => {
                self.model.promote();
                String::new()
            }
        };
    }

    fn everything(&self) -> (Vec<Option<Job>>, Vec<(Topic, Counts)>) {
        let jobs = (0..5).map(|number| self.model.get(&id(&format!("job:{number}"))));
        (jobs.collect(), self.model.topics())
    }
}

/// Replaces a random reservation by a fixed one, so that jobs can be compared.
fn without_reservation(job: Job) -> Job {
    Job { reservation: job.reservation.map(|_| Reservation::NONE), ..job }
}

/// Returns the next time whose remainder by [`STEP`] is the number of the call.
fn aligned(now: UnixMillis, call: u64) -> UnixMillis {
    now.after(Millis::new((call % STEP + STEP - now.get() % STEP) % STEP))
}

struct ModelQueue;

impl ReferenceStateMachine for ModelQueue {
    type State = Reference;
    type Transition = Call;

    fn init_state() -> BoxedStrategy<Reference> {
        Just(Reference::new()).boxed()
    }

    fn transitions(_: &Reference) -> BoxedStrategy<Call> {
        call().boxed()
    }

    fn apply(mut state: Reference, call: &Call) -> Reference {
        state.call(call);
        state
    }
}

/// Both stores. Each case uses fresh stores; all cases share a Redis.
struct BothStores;

struct Stores {
    tested: [StoreUnderTest; 2],
    calls: u64,
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

thread_local! {
    /// Dropped at the end of the test's thread, which stops Redis.
    static REDIS: Bench = RUNTIME.block_on(Bench::one_bucket_redis());
}

impl StateMachineTest for BothStores {
    type SystemUnderTest = Stores;
    type Reference = ModelQueue;

    fn init_test(_: &Reference) -> Stores {
        let redis = REDIS.with(Bench::clone);
        let (file, redis) = RUNTIME.block_on(async { (Bench::file().await, redis.fresh().await) });
        Stores { tested: [file, redis].map(StoreUnderTest::new), calls: 0 }
    }

    fn apply(mut stores: Stores, expected: &Reference, call: Call) -> Stores {
        for tested in &mut stores.tested {
            tested.advance_to_call(stores.calls);
            RUNTIME.block_on(async {
                if let Call::Reopen = call {
                    tested.bench.promote().await;
                }
                assert_eq!(tested.call(&call).await, expected.answer, "{call:?}");
                assert_eq!(tested.everything().await, expected.everything(), "after {call:?}");
            });
        }
        stores.calls += 1;
        stores
    }
}

prop_state_machine! {
    #![proptest_config(Config { cases: 200, ..Config::default() })]

    #[test]
    fn both_stores_answer_any_calls_as_the_model_does(sequential 1..60 => BothStores);
}
