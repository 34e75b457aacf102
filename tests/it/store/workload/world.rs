//! The state of the model after some steps.

use crate::store::{
    calls::{filter, numbered, result, said, stored, topic_of},
    equivalence::{CONSUMER, aligned},
    model::Model,
    prelude::*,
};

/// The model, its last answer, and the reservations that its pops have returned.
#[derive(Debug, Clone)]
pub struct World {
    pub model: Model,
    steps: u64,
    given: Vec<(JobId, u64)>,
    answer: String,
    settings: TopicSettings,
    tokens: BTreeMap<String, StoredToken>,
}

impl World {
    pub fn new() -> Self {
        Self {
            model: Model::new(START),
            steps: 0,
            given: Vec::new(),
            answer: String::new(),
            settings: TopicSettings::default(),
            tokens: BTreeMap::new(),
        }
    }

    /// Returns the states before the first step and after each step.
    pub fn all(steps: &[Step]) -> Vec<Self> {
        let mut worlds = vec![Self::new()];
        for step in steps {
            let mut next = worlds[worlds.len() - 1].clone();
            next.run_step(step);
            worlds.push(next);
        }
        worlds
    }

    pub fn now(&self) -> UnixMillis {
        self.model.now
    }

    pub fn answer(&self) -> &str {
        &self.answer
    }

    /// Returns the contents that a store in this state must have at the time `at`, after all due
    /// jobs are promoted. `given` returns the reservation of the n-th pop.
    pub fn found(&self, at: UnixMillis, given: impl Fn(u64) -> Reservation) -> Found {
        let mut model = self.model.clone();
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

    /// Returns all jobs of random steps, and the topics.
    pub fn everything(&self) -> (Vec<Option<Job>>, Vec<(Topic, Counts)>) {
        let jobs = (0..5).map(|number| self.model.get(&numbered(number)));
        (jobs.collect(), self.model.topics())
    }

    /// Advances the clock to the time of this step, and makes it.
    pub fn run_step(&mut self, step: &Step) {
        let now = aligned(self.model.now, self.steps);
        (self.model.now, self.steps) = (now, self.steps + 1);
        let millis = |span: &Option<u64>| span.map(Millis::new);
        let hold = step.reservation(&self.given, 0);
        let model = &mut self.model;
        self.answer = match step {
            Step::Puts(jobs) => {
                let answers: Vec<_> = jobs.iter().map(|job| model.put(job.clone())).collect();
                said(answers)
            }
            Step::Pop { topic, ttr, is_named } => {
                let consumer = is_named.then(|| CONSUMER.parse().expect("a name"));
                let popped = model.pop(&topic_of(*topic), millis(ttr), consumer);
                let given = popped.iter().map(|(job, reservation)| (job.id.clone(), *reservation));
                self.given.extend(given);
                let jobs: Vec<_> = popped.into_iter().map(|(job, _)| job).collect();
                said(jobs)
            }
            Step::Unpop(name) => said(model.unpop(&numbered(*name), hold)),
            Step::Finish(name, _, length) => {
                said(model.finish(&numbered(*name), hold, result(*length)))
            }
            Step::Release(name, _, rules) => {
                let name = numbered(*name);
                let release = rules.release(job_ref(&name, None));
                said(model.release(&name, hold, release))
            }
            Step::Touch(name, _, ttr) => said(model.touch(&numbered(*name), hold, millis(ttr))),
            Step::Bury(name, _) => said(model.bury(&numbered(*name), hold)),
            Step::Kick(name) => said(model.kick(&numbered(*name))),
            Step::Delete(name, only, remember) => {
                let (only, remember) = (only.map(states), millis(remember));
                said(model.delete(&numbered(*name), only, remember))
            }
            Step::Reschedule(name, change) => {
                said(model.reschedule(&numbered(*name), Change::clone(change)))
            }
            Step::Pass(millis) => {
                model.now = now.after(Millis::new(*millis));
                String::new()
            }
            Step::Promote => said(model.promote()),
            Step::Purge(topic, state, _) => {
                said(model.purge_matching(&topic_of(*topic), *state, &JobFilter::default()))
            }
            Step::KickDead(topic, limit) => {
                let (topic, all) = (topic_of(*topic), JobFilter::default());
                said(model.kick_matching(&topic, State::Dead, &all, *limit))
            }
            Step::KickMatching { topic, state, filter, limit } => {
                let filter = self::filter(*filter, *state, now);
                let kicked = model.kick_matching(&topic_of(*topic), *state, &filter, *limit);
                said(kicked)
            }
            Step::PurgeMatching { topic, state, filter, .. } => {
                let filter = self::filter(*filter, *state, now);
                said(model.purge_matching(&topic_of(*topic), *state, &filter))
            }
            // No later call uses the restored reservation, because no pop of the model has
            // returned it.
            Step::Restore { .. } => said(model.restore(stored(step, now))),
            // Opening a store promotes due jobs.
            Step::Reopen => {
                model.promote();
                String::new()
            }
            Step::Pause(name, on) => {
                self.settings.paused.remove(&topic_of(*name));
                self.settings.paused.extend(on.then(|| (topic_of(*name), Pause::OPEN)));
                String::new()
            }
            Step::PauseFor(name, span) => {
                let until = now.after(Millis::new(*span));
                self.settings.paused.insert(topic_of(*name), Pause { until: Some(until) });
                said(until)
            }
            Step::EndPause(name) => {
                let left = self.settings.paused[&topic_of(*name)].until.expect("an end").since(now);
                if left == Millis::ZERO {
                    self.settings.paused.remove(&topic_of(*name));
                }
                said(left)
            }
            Step::Defaults(name, ttr) => {
                self.settings.defaults.remove(&topic_of(*name));
                self.settings.defaults.extend(ttr.map(|ttr| (topic_of(*name), defaults(ttr))));
                String::new()
            }
            Step::Token(change) => said(self.token(change)),
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

pub fn defaults(ttr: u64) -> PolicyFields {
    PolicyFields { ttr: Some(Millis::new(ttr)), ..PolicyFields::default() }
}
