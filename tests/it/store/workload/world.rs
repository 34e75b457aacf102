//! Runs the steps of the workload on the model and on a store.

use crate::store::equivalence::Reference;
use crate::store::prelude::*;

/// State of the model after some steps.
#[derive(Clone)]
pub struct World {
    pub reference: Reference,
    settings: TopicSettings,
    tokens: BTreeMap<String, StoredToken>,
}

impl World {
    /// Returns the states before the first step and after each step.
    pub fn all(steps: &[Step]) -> Vec<Self> {
        let (settings, tokens) = (TopicSettings::default(), BTreeMap::new());
        let mut worlds = vec![Self { reference: Reference::new(), settings, tokens }];
        for step in steps {
            let mut next = worlds[worlds.len() - 1].clone();
            next.run_step(step);
            worlds.push(next);
        }
        worlds
    }

    pub fn now(&self) -> UnixMillis {
        self.reference.model.now
    }

    pub fn answer(&self) -> &str {
        &self.reference.answer
    }

    /// Returns the contents that a store in this state must have at the time `at`, after all due
    /// jobs are promoted. `given` returns the reservation of the n-th pop.
    pub fn found(&self, at: UnixMillis, given: impl Fn(u64) -> Reservation) -> Found {
        let mut model = self.reference.model.clone();
        model.now = at;
        model.promote();
        let reservation = |token| match token {
            // A restored job has the reservation of another store; see `calls::stored`.
            u64::MAX => Reservation::from_bits(1),
            number => given(number),
        };
        let whole =
            |(job, number): (Job, Option<u64>)| Job { reservation: number.map(reservation), ..job };
        Found {
            jobs: model.all().map(whole).map(|job| (job.id.clone(), job)).collect(),
            damaged: BTreeMap::new(),
            topics: model.topics(),
            settings: self.settings.clone(),
            tokens: self.tokens.values().cloned().collect(),
        }
    }

    fn run_step(&mut self, step: &Step) {
        if let Step::Call(call) = step {
            return self.reference.call(call);
        }
        self.reference.advance_to_call();
        let model = &mut self.reference.model;
        let now = model.now;
        let topic = |name: &&str| name.parse::<Topic>().expect("a topic");
        self.reference.answer = match step {
            Step::Call(_) => unreachable!("the match above handles calls"),
            Step::Puts(jobs) => {
                let answers: Vec<_> = jobs.iter().map(|job| model.put(job.clone())).collect();
                format!("{answers:?}")
            }
            Step::Pause(name, on) => {
                self.settings.paused.remove(&topic(name));
                self.settings.paused.extend(on.then(|| (topic(name), Pause::OPEN)));
                String::new()
            }
            Step::PauseFor(name, span) => {
                let until = now.after(Millis::new(*span));
                self.settings.paused.insert(topic(name), Pause { until: Some(until) });
                format!("{until:?}")
            }
            Step::EndPause(name) => {
                let left = self.settings.paused[&topic(name)].until.expect("an end").since(now);
                if left == Millis::ZERO {
                    self.settings.paused.remove(&topic(name));
                }
                format!("{left:?}")
            }
            Step::Defaults(name, ttr) => {
                self.settings.defaults.remove(&topic(name));
                self.settings.defaults.extend(ttr.map(|ttr| (topic(name), defaults(ttr))));
                String::new()
            }
            Step::Token(change) => format!("{:?}", self.token(change)),
            Step::Used(name, at) => {
                if let Some(token) = self.tokens.get_mut(*name) {
                    token.used_at = Some(UnixMillis::new(*at));
                }
                String::new()
            }
            Step::Checkpoint => String::new(),
        };
    }

    fn token(&mut self, change: &TokenChange) -> TokenChanged {
        let is_first = self.tokens.is_empty();
        let is_done = match change {
            TokenChange::Create { name, text, .. } => {
                let token = StoredToken { name: name.clone(), text: text.clone(), used_at: None };
                let is_new = !self.tokens.contains_key(name);
                self.tokens.entry(name.clone()).or_insert(token);
                is_new
            }
            TokenChange::Revoke { name } => self.tokens.remove(name).is_some(),
        };
        match is_done {
            false => TokenChanged::NameConflict,
            true if is_first => TokenChanged::First,
            true => TokenChanged::Done,
        }
    }
}

fn defaults(ttr: u64) -> PolicyFields {
    PolicyFields { ttr: Some(Millis::new(ttr)), ..PolicyFields::default() }
}

/// Makes the step with this number on a store. Returns the answer as text, which must equal the
/// model's.
pub async fn run_step(tested: &mut StoreUnderTest, number: u64, step: &Step) -> String {
    tested.advance_to_call(number);
    if let Step::Call(call) = step {
        if let Call::Reopen = call {
            tested.bench.promote().await;
        }
        return tested.call(call).await;
    }
    let (store, bucket) = (&tested.bench.store, tested.bench.bucket(&id("any")));
    let topic = |name: &&str| name.parse::<Topic>().expect("a topic");
    match step {
        Step::Call(_) => unreachable!("the match above handles calls"),
        Step::Puts(jobs) => {
            format!("{:?}", tested.bench.call::<verb::Put>(bucket, jobs.clone()).await)
        }
        Step::Pause(name, on) => {
            store.set_paused(topic(name), *on).await.expect("paused");
            String::new()
        }
        Step::PauseFor(name, span) => {
            let end = Schedule::In(Millis::new(*span));
            format!("{:?}", store.pause_until(topic(name), end).await.expect("paused"))
        }
        Step::EndPause(name) => {
            let Some(SettingsChanges::All(settings)) = store.settings(0).await.expect("settings")
            else {
                panic!("all settings are new to version 0")
            };
            let until = settings.paused[&topic(name)].until.expect("an end");
            format!("{:?}", store.end_pause(topic(name), until).await.expect("ended"))
        }
        Step::Defaults(name, ttr) => {
            store.set_defaults(topic(name), ttr.map(defaults)).await.expect("set");
            String::new()
        }
        Step::Token(change) => {
            format!("{:?}", store.change_token(change.clone()).await.expect("changed"))
        }
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
