//! Both stores compared with a plain model: the same random calls at the same times must get the
//! same answers and leave the same jobs. proptest writes the seeds of failures to
//! `tests/proptest-regressions/store/equivalence.txt`. Commit that file.

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use crate::store::calls;
use crate::store::prelude::*;
use crate::store::{
    calls::{numbered, result, said, step, stored, topic_of},
    workload::defaults,
};

pub const CONSUMER: &str = "worker:1";

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

    /// Returns the answer as text, which must equal the model's.
    async fn run_step(&mut self, step: &Step) -> String {
        let millis = |span: &Option<u64>| span.map(Millis::new);
        let (bench, bucket) = (&self.bench, self.bench.bucket(&id("any")));
        let hold = step.reservation(&self.given, Reservation::NONE);
        let selection = |topic: u8, state, filter, limit| {
            let filter = calls::filter(filter, state, bench.now());
            Selection { topic: topic_of(topic), state, filter, after: None, limit }
        };
        let store = &bench.store;
        match step {
            Step::Puts(jobs) => said(bench.call::<verb::Put>(bucket, jobs.clone()).await),
            Step::Pop { topic, ttr, is_named } => {
                let (topic, consumer) = (topic_of(*topic), is_named.then_some(CONSUMER));
                let mut jobs = bench.pop_as(topic.as_str(), 1, millis(ttr), consumer).await;
                self.given.extend(jobs.iter().map(|job| (job.id.clone(), job.reservation)));
                // Reservations are random, so only the other fields of the jobs must be equal.
                jobs.iter_mut().for_each(|job| job.reservation = Reservation::NONE);
                said(jobs)
            }
            Step::Unpop(name) => {
                let reservation = hold.expect("a reservation");
                said(bench.unpop(&numbered(*name), reservation).await)
            }
            Step::Finish(name, _, length) => {
                said(bench.finish_with(&numbered(*name), hold, result(*length)).await)
            }
            Step::Release(name, _, rules) => {
                let release = rules.release(job_ref(&numbered(*name), hold));
                said(bench.release_by(release).await)
            }
            Step::Touch(name, _, ttr) => {
                said(bench.touch(&numbered(*name), hold, millis(ttr)).await)
            }
            Step::Bury(name, _) => said(bench.bury(&numbered(*name), hold).await),
            Step::Kick(name) => said(bench.kick(&numbered(*name)).await),
            Step::Delete(name, only, remember) => {
                let job = target(&numbered(*name));
                let (states, remember) = (only.map(states), millis(remember));
                said(bench.delete_by(Delete { job, states, remember }).await)
            }
            Step::Reschedule(name, change) => {
                let changed = bench.reschedule(&numbered(*name), Change::clone(change)).await;
                said(changed.map(without_reservation))
            }
            Step::Pass(millis) => {
                bench.advance(Millis::new(*millis));
                String::new()
            }
            Step::Promote => {
                let PromoteCounts { ready, timed_out, dead, moved, gone } =
                    bench.promote().await.total();
                said((ready.count, timed_out, dead, gone, moved))
            }
            Step::Purge(topic, state, limit) => {
                let mut all = 0;
                // Which jobs a purge deletes first is up to the store.
                loop {
                    let (topic, state) = (topic_of(*topic), *state);
                    let purge = Purge { topic, state, limit: *limit };
                    match bench.call::<verb::Purge>(bucket, purge).await {
                        0 => break said(all),
                        purged => all += purged,
                    }
                }
            }
            Step::KickDead(topic, limit) => {
                let kick = KickDead { topic: topic_of(*topic), limit: *limit };
                said(bench.call::<verb::KickDead>(bucket, kick).await)
            }
            Step::KickMatching { topic, state, filter, limit } => {
                let step = selection(*topic, *state, *filter, *limit);
                said(bench.call::<verb::KickMatching>(bucket, step).await.done)
            }
            Step::PurgeMatching { topic, state, filter, limit } => {
                let step = selection(*topic, *state, *filter, *limit);
                let (mut purged, mut after) = (0, Some(None));
                while let Some(place) = after {
                    let step = Selection { after: place, ..step.clone() };
                    let Matched { done, next } =
                        bench.call::<verb::PurgeMatching>(bucket, step).await;
                    (purged, after) = (purged + done, next.map(Some));
                }
                said(purged)
            }
            Step::Restore { .. } => said(bench.restore(stored(step, bench.now())).await),
            Step::Reopen => {
                self.bench.promote().await;
                self.bench = self.bench.clone().reopen().await;
                // Opening a store promotes due jobs. The model does the same, so the numbers of
                // promoted jobs are not compared.
                self.bench.promote().await;
                String::new()
            }
            Step::Pause(name, on) => {
                store.set_paused(topic_of(*name), *on).await.expect("paused");
                String::new()
            }
            Step::PauseFor(name, span) => {
                let end = Schedule::In(Millis::new(*span));
                said(store.pause_until(topic_of(*name), end).await.expect("paused"))
            }
            Step::EndPause(name) => {
                let Some(SettingsChanges::All(settings)) =
                    store.settings(0).await.expect("settings")
                else {
                    panic!("all settings are new to version 0")
                };
                let until = settings.paused[&topic_of(*name)].until.expect("an end");
                said(store.end_pause(topic_of(*name), until).await.expect("ended"))
            }
            Step::Defaults(name, ttr) => {
                store.set_defaults(topic_of(*name), ttr.map(defaults)).await.expect("set");
                String::new()
            }
            Step::Token(change) => said(store.change_token(change.clone()).await.expect("changed")),
            Step::Used(name, at) => {
                let uses = vec![((*name).to_owned(), UnixMillis::new(*at))];
                store.note_token_uses(uses).await.expect("noted");
                String::new()
            }
            // Waits until the writer has checkpointed the log. With each read, the writer checks
            // whether a checkpoint is due.
            Step::Checkpoint => {
                store.usage().await.expect("usage");
                String::new()
            }
        }
    }

    /// Reads all jobs and topics.
    pub async fn everything(&self) -> (Vec<Option<Job>>, Vec<(Topic, Counts)>) {
        let mut jobs = Vec::new();
        for number in 0..5 {
            jobs.push(self.bench.get(&numbered(number)).await.map(without_reservation));
        }
        let topics = self.bench.topics().await.into_iter();
        (jobs, topics.map(|(_, topic, counts)| (topic, counts)).collect())
    }
}

/// Makes the step with this number on a store. Returns the answer as text, which must equal the
/// model's.
pub async fn run_step(tested: &mut StoreUnderTest, number: u64, step: &Step) -> String {
    tested.advance_to_call(number);
    tested.run_step(step).await
}

/// Returns whether this step pops from a topic in which two jobs have the same place in the order.
/// Jobs that move together are due at the same time; files order them by their puts, Redis by id.
pub fn pops_a_tie(step: &Step, jobs: impl IntoIterator<Item = Job>) -> bool {
    let Step::Pop { topic, .. } = step else { return false };
    let mut places = BTreeSet::new();
    let ready = |job: &Job| job.state == State::Ready && job.topic == topic_of(*topic);
    let places_of_all = jobs.into_iter().filter(ready).map(|job| (job.policy.priority, job.due_at));
    places_of_all.into_iter().any(|place| !places.insert(place))
}

/// Replaces a random reservation by a fixed one, so that jobs can be compared.
fn without_reservation(job: Job) -> Job {
    Job { reservation: job.reservation.map(|_| Reservation::NONE), ..job }
}

/// Returns the next time whose remainder by [`STEP`] is the number of the call.
pub fn aligned(now: UnixMillis, call: u64) -> UnixMillis {
    now.after(Millis::new((call % STEP + STEP - now.get() % STEP) % STEP))
}

struct ModelQueue;

impl ReferenceStateMachine for ModelQueue {
    type State = World;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<World> {
        Just(World::new()).boxed()
    }

    fn transitions(_: &World) -> BoxedStrategy<Step> {
        step().boxed()
    }

    fn preconditions(world: &World, step: &Step) -> bool {
        !pops_a_tie(step, world.model.all().map(|(job, _)| job))
    }

    fn apply(mut world: World, step: &Step) -> World {
        world.run_step(step);
        world
    }
}

/// Both stores. Each case uses fresh stores; all cases share a Redis.
struct BothStores;

struct Stores {
    tested: [StoreUnderTest; 2],
    steps: u64,
}

pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

thread_local! {
    /// Dropped at the end of the test's thread, which stops Redis.
    pub static REDIS: Bench = RUNTIME.block_on(Bench::one_bucket_redis());
}

impl StateMachineTest for BothStores {
    type SystemUnderTest = Stores;
    type Reference = ModelQueue;

    fn init_test(_: &World) -> Stores {
        let redis = REDIS.with(Bench::clone);
        let (file, redis) = RUNTIME.block_on(async { (Bench::file().await, redis.fresh().await) });
        Stores { tested: [file, redis].map(StoreUnderTest::new), steps: 0 }
    }

    fn apply(mut stores: Stores, expected: &World, step: Step) -> Stores {
        for tested in &mut stores.tested {
            RUNTIME.block_on(async {
                let answer = run_step(tested, stores.steps, &step).await;
                assert_eq!(answer, expected.answer(), "{step:?}");
                assert_eq!(tested.everything().await, expected.everything(), "after {step:?}");
            });
        }
        stores.steps += 1;
        stores
    }
}

/// Number of cases, unless the environment variable `PROPTEST_CASES` says another one.
const CASES: u32 = 60;

fn config() -> Config {
    let config = Config::default();
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => Config { cases: CASES, ..config },
    }
}

prop_state_machine! {
    #![proptest_config(config())]

    #[test]
    fn both_stores_answer_any_calls_as_the_model_does(sequential 1..60 => BothStores);
}
