//! All pushes of this server: starts a worker for each, and stops it when the push changes.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use guarded_client::{Allowed, Client, TargetUrl};
use prometheus_client::registry::Registry;
use tokio::{sync::Semaphore, time::sleep};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    lane::Lane,
    load::Loads,
    meters::Meters,
    request::Template,
    sender::Sender,
    share::Places,
    shared::Shared,
    status::{PushFailure, PushState, PushStatus, TargetHealth, Tested},
    target::Target,
    trial,
    worker::Worker,
};
use crate::{
    budget::Budget,
    job::{Push, Topic},
    queue::Queue,
};

/// Maximum number of test requests at once, of all callers.
pub const MAX_TESTS: usize = 256;
/// Time between two looks for requests of removed pushes, whose figures go when they end.
const CLEANUP: Duration = Duration::from_secs(1);

/// All pushes of this server.
pub struct Pushes {
    shared: Arc<Shared>,
    allowed: Allowed,
    lanes: Mutex<HashMap<Topic, Arc<Lane>>>,
    targets: Arc<Targets>,
    budget: Budget,
    /// Limits test requests.
    tests: Semaphore,
    /// Ends all workers.
    stop: CancellationToken,
}

/// Reason of a running push that sends nothing for lack of memory.
const WAITS_FOR_MEMORY: &str = "it waits for memory: the bodies under way, of its own and of others, are at limits.memory_bytes";

/// Current targets by name.
type Targets = Mutex<HashMap<String, Arc<Target>>>;

/// A worker that runs, and the setting that it has.
struct Running {
    push: Arc<Push>,
    stop: CancellationToken,
}

impl Pushes {
    /// Starts the pushes of a queue, and registers their metrics. `client` reaches what `allowed`
    /// says. Bodies on their way count in `budget`.
    pub fn start(
        queue: Arc<Queue>,
        client: Client,
        allowed: Allowed,
        budget: Budget,
        registry: &mut Registry,
    ) -> Arc<Self> {
        let targets: Arc<Targets> = Arc::default();
        let of = Arc::clone(&targets);
        let meters = Meters::new(registry, move || lock(&of).values().cloned().collect());
        let shared = Shared {
            queue,
            client,
            places: Places::default(),
            loads: Arc::new(Loads::new(budget.clone())),
            meters,
            abort: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let pushes = Arc::new(Self {
            shared: Arc::new(shared),
            allowed,
            lanes: Mutex::default(),
            targets,
            budget,
            tests: Semaphore::new(MAX_TESTS),
            stop: CancellationToken::new(),
        });
        pushes.shared.tasks.spawn(Arc::clone(&pushes).follow());
        pushes
    }

    /// Returns the memory of the bodies on their way.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Checks the URL of a push: its form, its host, and an address that it contains.
    ///
    /// # Errors
    /// A message that completes "`url` …", such as "is invalid: …".
    pub fn check_url(&self, url: &str) -> Result<(), String> {
        let url = TargetUrl::parse(url).map_err(|error| format!("is invalid: {error}"))?;
        url.check(&self.allowed).map_err(|error| {
            format!("is not allowed: {error} (push.allowed_hosts, push.allowed_networks)")
        })
    }

    /// Returns the state of a push and its recent results on this server.
    pub fn status(&self, topic: &Topic, push: &Push) -> PushStatus {
        let lane = lock(&self.lanes).get(topic).cloned();
        let target = TargetUrl::parse(&push.url).ok();
        let target = target.and_then(|url| self.known_target(&url.target().to_string()));
        let is_open = target.is_some_and(|target| target.host.is_open())
            || lane.as_ref().is_some_and(|lane| lane.is_open());
        let (rates, last_failures) =
            lane.as_ref().map(|lane| lane.recent(Instant::now())).unwrap_or_default();
        let (state, reason) = match push.paused {
            Some(pause) => (PushState::Paused(pause), Some(pause.name().to_owned())),
            None if is_open => (PushState::Open, Some(open_reason(&last_failures))),
            None if lane.as_ref().is_some_and(|lane| lane.is_waiting()) => {
                (PushState::Running, Some(WAITS_FOR_MEMORY.to_owned()))
            }
            None => (PushState::Running, None),
        };
        PushStatus {
            state,
            reason,
            in_flight: lane.map_or(0, |lane| lane.in_flight()),
            delivered_per_second: rates.0,
            failed_per_second: rates.1,
            last_failures,
        }
    }

    /// Returns the health of every target of a push, by name.
    pub fn targets(&self) -> Vec<TargetHealth> {
        let mut topics: HashMap<String, Vec<Topic>> = HashMap::new();
        for (topic, push) in self.shared.queue.pushes() {
            if let Ok(url) = TargetUrl::parse(&push.url) {
                topics.entry(url.target().to_string()).or_default().push(topic);
            }
        }
        let now = Instant::now();
        let health = |target: &Arc<Target>| {
            let ((delivered, failed), mean) = target.recent(now);
            let mut topics = topics.remove(&target.name)?;
            topics.sort();
            Some(TargetHealth {
                target: target.name.clone(),
                state: target.breaker(),
                topics,
                delivered_per_second: delivered,
                failed_per_second: failed,
                mean_seconds: mean.map(|mean| mean.as_secs_f64()),
            })
        };
        let targets: Vec<Arc<Target>> = lock(&self.targets).values().cloned().collect();
        let mut all: Vec<TargetHealth> = targets.iter().filter_map(health).collect();
        all.sort_by(|a, b| a.target.cmp(&b.target));
        all
    }

    /// Sends a request with a made-up job, and returns the request and its answer. The answer
    /// changes neither a job nor the health of the target. Returns `None` and sends nothing if
    /// [`MAX_TESTS`] tests are under way.
    pub async fn test(&self, topic: &Topic, push: &Push) -> Option<Tested> {
        let _turn = self.tests.try_acquire().ok()?;
        Some(trial::send(&self.shared.client, topic, push).await)
    }

    /// Returns a guard that ends the workers when it is dropped.
    pub fn stop_on_drop(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Ends the workers, so that no more jobs are popped; requests under way continue.
    pub fn stop(&self) {
        self.stop.cancel();
        self.shared.tasks.close();
    }

    /// Waits until all requests have ended and their jobs are settled.
    pub async fn stopped(&self) {
        self.shared.tasks.wait().await;
    }

    /// Ends the requests under way and gives their jobs back.
    pub async fn abort(&self) {
        self.shared.abort.cancel();
        self.stopped().await;
    }

    /// Starts and stops workers as the settings change.
    async fn follow(self: Arc<Self>) {
        let mut changes = self.shared.queue.settings_changes();
        let mut running: HashMap<Topic, Running> = HashMap::new();
        loop {
            changes.mark_unchanged();
            let is_clean = self.adjust(&mut running);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { break },
                () = sleep(CLEANUP), if !is_clean => {}
                () = self.stop.cancelled() => break,
            }
        }
        running.into_values().for_each(|worker| worker.stop.cancel());
    }

    /// Stops the workers whose push has changed, and starts workers of new and changed ones.
    /// Returns whether nothing is left of pushes that were removed.
    fn adjust(&self, running: &mut HashMap<Topic, Running>) -> bool {
        let pushes: HashMap<Topic, Arc<Push>> = self.shared.queue.pushes().into_iter().collect();
        running.retain(|topic, worker| {
            let is_same = pushes.get(topic).is_some_and(|push| push.is_same_as(&worker.push));
            if !is_same {
                worker.stop.cancel();
            }
            is_same
        });
        lock(&self.lanes).retain(|topic, lane| pushes.contains_key(topic) || lane.is_busy());
        let topics: HashSet<Topic> = pushes.keys().cloned().collect();
        let mut used = HashSet::new();
        for (topic, push) in pushes {
            let url = match TargetUrl::parse(&push.url) {
                Ok(url) => url,
                Err(error) => {
                    tracing::error!(%topic, %error, "skipped a push with an invalid URL");
                    continue;
                }
            };
            used.insert(url.target().to_string());
            if push.paused.is_none() && !running.contains_key(&topic) {
                let stop = self.stop.child_token();
                self.start_worker(topic.clone(), Arc::clone(&push), url, stop.clone());
                running.insert(topic, Running { push, stop });
            }
        }
        lock(&self.targets).retain(|name, target| {
            let is_used = used.contains(name) || target.in_flight() > 0;
            if !is_used {
                self.shared.meters.remove(name);
            }
            is_used
        });
        let are_used = lock(&self.targets).keys().all(|name| used.contains(name));
        are_used && lock(&self.lanes).keys().all(|topic| topics.contains(topic))
    }

    fn start_worker(&self, topic: Topic, push: Arc<Push>, url: TargetUrl, stop: CancellationToken) {
        let lane = Arc::clone(lock(&self.lanes).entry(topic.clone()).or_insert_with(|| {
            Arc::new(Lane::new(&self.shared.client, &self.shared.loads, Instant::now()))
        }));
        // A new, changed or resumed push gets five more days.
        lane.restart_failing_time();
        let target = self.target(&url.target().to_string());
        let gate = target.gate_of_push(format!("{} of {topic}", target.name), Instant::now());
        lane.set_gate(&gate);
        let sender = Sender {
            shared: Arc::clone(&self.shared),
            target,
            gate,
            lane,
            template: Template::new(&topic, &push),
            topic,
            push,
            url,
        };
        let worker = Worker { sender: Arc::new(sender), stop };
        self.shared.tasks.spawn(worker.run());
    }

    fn target(&self, name: &str) -> Arc<Target> {
        let new = || Arc::new(Target::new(name.to_owned(), Instant::now()));
        Arc::clone(lock(&self.targets).entry(name.to_owned()).or_insert_with(new))
    }

    fn known_target(&self, name: &str) -> Option<Arc<Target>> {
        lock(&self.targets).get(name).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Describes why a push is open.
fn open_reason(last_failures: &[PushFailure]) -> String {
    let probed = "the target fails and is probed once a second";
    match last_failures.first().and_then(|failure| failure.status) {
        Some(status) => format!("{probed}; it last answered {status}"),
        None => probed.to_owned(),
    }
}
