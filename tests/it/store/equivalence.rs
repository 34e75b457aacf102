//! Both stores compared with a plain model: the same random calls at the same times must get the
//! same answers and leave the same jobs. proptest writes the seeds of failures to
//! `tests/proptest-regressions/store/equivalence.txt`. Commit that file.

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use crate::store::calls;
use crate::store::prelude::*;
use crate::store::{
    calls::{call, numbered, release, result, stored, topic_of},
    model::Model,
};

const CONSUMER: &str = "worker:1";

/// A store, and the reservations that its pops have returned.
pub struct StoreUnderTest {
    pub bench: Bench,
    pub given: Vec<(JobId, Reservation)>,
}

impl StoreUnderTest {
    pub fn new(bench: Bench) -> Self {
        Self { bench, given: Vec::new() }
    }

    /// Advances the clock to the time of this call.
    pub fn advance_to_call(&self, call: u64) {
        self.bench.advance(aligned(self.bench.now(), call).since(self.bench.now()));
    }

    /// Makes a call. Returns the answer as text, which must equal the model's.
    pub async fn call(&mut self, call: &Call) -> String {
        let millis = |span: &Option<u64>| span.map(Millis::new);
        let (bench, bucket) = (&self.bench, self.bench.bucket(&id("any")));
        let hold = call.reservation(&self.given, Reservation::NONE);
        let selection = |topic: u8, state, filter, limit| {
            let filter = calls::filter(filter, state, bench.now());
            Selection { topic: topic_of(topic), state, filter, after: None, limit }
        };
        match call {
            Call::Put(job) => format!("{:?}", bench.put(NewJob::clone(job)).await),
            Call::Pop { topic, ttr, is_named } => {
                let (topic, consumer) = (topic_of(*topic), is_named.then_some(CONSUMER));
                let mut jobs = bench.pop_as(topic.as_str(), 1, millis(ttr), consumer).await;
                self.given.extend(jobs.iter().map(|job| (job.id.clone(), job.reservation)));
                // Reservations are random, so only the other fields of the jobs must be equal.
                jobs.iter_mut().for_each(|job| job.reservation = Reservation::NONE);
                format!("{jobs:?}")
            }
            Call::Unpop { name } => {
                let reservation = hold.expect("a reservation");
                format!("{:?}", bench.unpop(&numbered(*name), reservation).await)
            }
            Call::Finish { name, result: length, .. } => {
                format!("{:?}", bench.finish_with(&numbered(*name), hold, result(*length)).await)
            }
            Call::Release { name, .. } => {
                let release = release(call, job_ref(&numbered(*name), hold));
                format!("{:?}", bench.release_by(release).await)
            }
            Call::Touch { name, ttr, .. } => {
                format!("{:?}", bench.touch(&numbered(*name), hold, millis(ttr)).await)
            }
            Call::Bury { name, .. } => format!("{:?}", bench.bury(&numbered(*name), hold).await),
            Call::Kick { name } => format!("{:?}", bench.kick(&numbered(*name)).await),
            Call::Delete { name, only, remember } => {
                let job = target(&numbered(*name));
                let (states, remember) = (only.map(states), millis(remember));
                format!("{:?}", bench.delete_by(Delete { job, states, remember }).await)
            }
            Call::Reschedule { name, change } => {
                let changed = bench.reschedule(&numbered(*name), Change::clone(change)).await;
                format!("{:?}", changed.map(without_reservation))
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
                let mut all = 0;
                // Which jobs a purge deletes first is up to the store.
                loop {
                    let (topic, state) = (topic_of(*topic), *state);
                    let purge = Purge { topic, state, limit: *limit };
                    match bench.call::<verb::Purge>(bucket, purge).await {
                        0 => break format!("{all:?}"),
                        purged => all += purged,
                    }
                }
            }
            Call::KickDead { topic, limit } => {
                let kick = KickDead { topic: topic_of(*topic), limit: *limit };
                format!("{:?}", bench.call::<verb::KickDead>(bucket, kick).await)
            }
            Call::KickMatching { topic, state, filter, limit } => {
                let step = selection(*topic, *state, *filter, *limit);
                format!("{:?}", bench.call::<verb::KickMatching>(bucket, step).await.done)
            }
            Call::PurgeMatching { topic, state, filter, limit } => {
                let step = selection(*topic, *state, *filter, *limit);
                let (mut purged, mut after) = (0, Some(None));
                while let Some(place) = after {
                    let step = Selection { after: place, ..step.clone() };
                    let Matched { done, next } =
                        bench.call::<verb::PurgeMatching>(bucket, step).await;
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

    /// Reads all jobs and topics.
    async fn everything(&self) -> (Vec<Option<Job>>, Vec<(Topic, Counts)>) {
        let mut jobs = Vec::new();
        for number in 0..5 {
            jobs.push(self.bench.get(&numbered(number)).await.map(without_reservation));
        }
        let topics = self.bench.topics().await.into_iter();
        (jobs, topics.map(|(_, topic, counts)| (topic, counts)).collect())
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

    /// Advances the clock to the time of this call, and makes the call.
    pub fn call(&mut self, call: &Call) {
        self.advance_to_call();
        let millis = |span: &Option<u64>| span.map(Millis::new);
        let hold = call.reservation(&self.given, 0);
        let now = self.model.now;
        let model = &mut self.model;
        self.answer = match call {
            Call::Put(job) => format!("{:?}", model.put(NewJob::clone(job))),
            Call::Pop { topic, ttr, is_named } => {
                let consumer = is_named.then(|| CONSUMER.parse().expect("a name"));
                let popped = model.pop(&topic_of(*topic), millis(ttr), consumer);
                let given = popped.iter().map(|(job, reservation)| (job.id.clone(), *reservation));
                self.given.extend(given);
                let jobs: Vec<_> = popped.into_iter().map(|(job, _)| job).collect();
                format!("{jobs:?}")
            }
            Call::Unpop { name } => format!("{:?}", model.unpop(&numbered(*name), hold)),
            Call::Finish { name, result: length, .. } => {
                format!("{:?}", model.finish(&numbered(*name), hold, result(*length)))
            }
            Call::Release { name, .. } => {
                let name = numbered(*name);
                let release = release(call, job_ref(&name, None));
                format!("{:?}", model.release(&name, hold, release))
            }
            Call::Touch { name, ttr, .. } => {
                format!("{:?}", model.touch(&numbered(*name), hold, millis(ttr)))
            }
            Call::Bury { name, .. } => format!("{:?}", model.bury(&numbered(*name), hold)),
            Call::Kick { name } => format!("{:?}", model.kick(&numbered(*name))),
            Call::Delete { name, only, remember } => {
                let (only, remember) = (only.map(states), millis(remember));
                format!("{:?}", model.delete(&numbered(*name), only, remember))
            }
            Call::Reschedule { name, change } => {
                format!("{:?}", model.reschedule(&numbered(*name), Change::clone(change)))
            }
            Call::Pass { millis } => {
                model.now = now.after(Millis::new(*millis));
                String::new()
            }
            Call::Promote => format!("{:?}", model.promote()),
            Call::Purge { topic, state, .. } => {
                format!("{:?}", model.purge(&topic_of(*topic), *state))
            }
            Call::KickDead { topic, limit } => {
                format!("{:?}", model.kick_dead(&topic_of(*topic), *limit))
            }
            Call::KickMatching { topic, state, filter, limit } => {
                let filter = calls::filter(*filter, *state, now);
                let kicked = model.kick_matching(&topic_of(*topic), *state, &filter, *limit);
                format!("{kicked:?}")
            }
            Call::PurgeMatching { topic, state, filter, .. } => {
                let filter = calls::filter(*filter, *state, now);
                format!("{:?}", model.purge_matching(&topic_of(*topic), *state, &filter))
            }
            // No later call uses the restored reservation, because no pop of the model has
            // returned it.
            Call::Restore { .. } => format!("{:?}", model.restore(stored(call, now))),
            // Opening a store promotes due jobs.
            Call::Reopen => {
                model.promote();
                String::new()
            }
        };
    }

    fn everything(&self) -> (Vec<Option<Job>>, Vec<(Topic, Counts)>) {
        let jobs = (0..5).map(|number| self.model.get(&numbered(number)));
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
