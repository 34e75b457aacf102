//! Edits as arguments of `swap.lua`.

use bytes::Bytes;
use delay_queue_core::{
    Now,
    decide::{AttemptEdit, Edit, Place},
};
use redis::Cmd;

use super::{
    arrival::{Arrival, Records},
    attempt::{end, lapse, past},
    loaded::{ERASED, Loaded},
};
use crate::{
    job::{AttemptOutcome, Ending, Policy, PolicyFields, State, Topic, UnixMillis},
    store::redis::{
        codec::{Attempt, Rules, finished_header, long_body, separate_history},
        score::score_text,
    },
};

/// A job as it was loaded, and what takes its place.
pub struct Swap<'a> {
    job: &'a Loaded<'a>,
    /// Empty if it stays.
    attempt: String,
    /// Empty if it stays.
    history: String,
    /// Empty if the pool record stays.
    header: Vec<u8>,
    body: Option<Bytes>,
    /// The next state; [`ERASED`] if the job is gone.
    state: &'static str,
    topic: Topic,
    /// When the job leaves its next state.
    at: UnixMillis,
    score: String,
    /// The score if `at` has passed when it is written; empty if the clock does not decide that.
    ready_score: String,
    expires_at: String,
    /// Whether the job grows by what its caller gives, so that a full Redis refuses the edit.
    grows: bool,
}

impl<'a> Swap<'a> {
    /// Formats an edit of a job; `None` if the job lacks the record that the edit changes.
    pub fn new(job: &'a Loaded<'a>, now: Now, edit: Edit) -> Option<Self> {
        let Edit { place, attempts, policy, body } = edit;
        match place {
            Place::Finished { outcome, result, until } => {
                let ended = match attempts {
                    AttemptEdit::Ended(ended) => Some(ended.outcome),
                    _ => None,
                };
                let ending = Ending { at: now.floor, outcome, result };
                Self::finished(job, now, ended, policy, (ending, until))
            }
            Place::Gone => Some(Self::gone(job)),
            Place::New { state, at } => Some(Self::arriving(job, now, job.arrival?, (state, at))),
            place => Self::living(job, now, Edit { place, attempts, policy, body }),
        }
    }

    fn living(job: &'a Loaded<'a>, now: Now, edit: Edit) -> Option<Self> {
        let Edit { place, attempts, policy, body } = edit;
        let is_forgotten = attempts == AttemptEdit::Forgotten;
        let is_change = attempts == AttemptEdit::Unheld;
        let is_lapse = matches!(attempts, AttemptEdit::Lapsed { .. });
        let (mut attempt, history) = match attempts {
            AttemptEdit::Kept | AttemptEdit::Forgotten => (None, String::new()),
            AttemptEdit::Unheld => {
                let attempt = job.attempt.clone();
                (attempt.map(|attempt| Attempt { reservation: None, ..attempt }), String::new())
            }
            AttemptEdit::Ended(ended) => end(job, now, ended)?,
            AttemptEdit::Lapsed { error, ttr_ended_at } => lapse(job, error, ttr_ended_at),
        };
        let mut rules = job.rules.clone();
        let is_rewritten = body.is_some() || policy != PolicyFields::default();
        if let Some(body) = &body {
            rules.set_body(body);
        }
        rules.policy.set(policy);
        let (state, at) = follow(place, job, attempt.as_mut().filter(|_| !is_change), &mut rules);
        let is_new = is_rewritten || rules.topic != job.rules.topic;
        let rules_text = if is_new { rules.text(job.id) } else { job.rules_text.clone() };
        let header = match &job.created {
            _ if !is_new => String::new(),
            Some(created) => format!("4 {created} {rules_text}"),
            None => return None,
        };
        let policy = &rules.policy;
        let attempt = match (attempt, is_forgotten) {
            (Some(attempt), _) => attempt.text(&rules_text),
            (None, true) => job.forgotten_attempt().to_owned(),
            (None, false) => String::new(),
        };
        // A job that keeps its place keeps it whatever the clock shows.
        let stays = job.texts.state == Some(state) && job.due_at == at;
        let follows_clock = !(stays || is_lapse);
        let is_longer =
            header.len() + rules.length() > job.texts.header().len() + job.rules.length();
        Some(Self {
            job,
            attempt,
            history,
            grows: if is_change { is_new && is_longer } else { body.is_some() },
            header: header.into_bytes(),
            body,
            state: state.name(),
            at,
            score: score_text(state, at, policy),
            ready_score: ready_score(follows_clock, now, at, policy),
            expires_at: expiry(job, state, policy),
            topic: match rules.topic == job.rules.topic {
                true => job.topic.clone(),
                false => rules.topic,
            },
        })
    }

    /// Formats the end of a job that is kept until the given time.
    fn finished(
        job: &'a Loaded<'a>,
        now: Now,
        ended: Option<AttemptOutcome>,
        policy: PolicyFields,
        (ending, until): (Ending, UnixMillis),
    ) -> Option<Self> {
        let (mut history, running) = job.history();
        if let Some(outcome) = ended {
            history.end(running, past(job, now.floor, outcome, None));
        }
        let mut done = job.job(State::Finished, history)?;
        done.policy.set(policy);
        let history = separate_history(&done, &ending);
        let stored = job.texts.history();
        Some(Self {
            history: match history.is_empty() {
                _ if history.as_bytes() == stored => String::new(),
                true => ERASED.to_owned(),
                false => history,
            },
            header: finished_header(&done, &ending),
            grows: ending.result.is_some(),
            body: Some(ending.result.unwrap_or_default()),
            state: State::Finished.name(),
            at: until,
            score: score_text(State::Finished, until, &done.policy),
            ..Self::gone(job)
        })
    }

    /// Formats a job that has the id alone, or in place of the one that was loaded.
    fn arriving(
        job: &'a Loaded<'a>,
        now: Now,
        arrival: Arrival<'a>,
        (state, at): (State, UnixMillis),
    ) -> Self {
        let gone = Self::gone(job);
        let Records { header, body, attempt, history, policy } = arrival.records(now, at);
        Self {
            attempt: if attempt.is_empty() { gone.attempt } else { attempt },
            history: if history.is_empty() { gone.history } else { history },
            header,
            body: Some(body),
            state: state.name(),
            topic: arrival.topic().clone(),
            at,
            score: score_text(state, at, &policy),
            ready_score: ready_score(arrival.follows_clock(), now, at, &policy),
            expires_at: expiry(job, state, &policy),
            grows: true,
            ..gone
        }
    }

    fn gone(job: &'a Loaded<'a>) -> Self {
        let erased = |text: &[u8]| if text.is_empty() { "" } else { ERASED };
        Self {
            job,
            attempt: erased(job.texts.attempt()).to_owned(),
            history: erased(job.texts.history()).to_owned(),
            // The body of a job without a record goes as well.
            header: ERASED.into(),
            body: None,
            state: ERASED,
            topic: job.topic.clone(),
            at: UnixMillis::new(0),
            score: "0".to_owned(),
            ready_score: String::new(),
            expires_at: never_expires(job),
            grows: false,
        }
    }

    /// Returns whether a full Redis refuses the edit.
    pub fn grows(&self) -> bool {
        self.grows
    }

    /// Adds the arguments of one job.
    pub fn fill(&self, cmd: &mut Cmd) {
        let texts = &self.job.texts;
        let (old_state, old_topic) = (texts.state.map_or("", State::name), self.job.topic.as_str());
        let words = [
            old_state,
            old_topic,
            &texts.score,
            self.state,
            self.topic.as_str(),
            &self.score,
            &self.at.get().to_string(),
            &self.ready_score,
            &self.expires_at,
            if self.grows { "+" } else { "" },
        ];
        cmd.arg(self.job.id.as_str()).arg(texts.attempt()).arg(texts.header());
        cmd.arg(words.join(" ")).arg(&self.attempt).arg(&self.history).arg(&self.header);
        match &self.body {
            None => cmd.arg(""),
            Some(body) => cmd.arg([self.kind_of(body), body].concat()),
        };
    }

    /// Returns the letter of a new body.
    fn kind_of(&self, body: &Bytes) -> &'static [u8] {
        match long_body(body) {
            Some(_) => b"l",
            None if self.job.may_have_long_body() => b"s",
            None => b"n",
        }
    }
}

/// Moves a job to the place that an edit names; returns its state there, and when it leaves this.
fn follow(
    place: Place,
    job: &Loaded<'_>,
    attempt: Option<&mut Attempt>,
    rules: &mut Rules,
) -> (State, UnixMillis) {
    match place {
        Place::Next { state, due_at } => {
            attempt.into_iter().for_each(|attempt| attempt.due_at = due_at);
            (state, due_at)
        }
        Place::Dead { died_at } => {
            attempt.into_iter().for_each(|attempt| attempt.died_at = died_at);
            (State::Dead, died_at.after(rules.policy.dead_retention))
        }
        Place::Moved { to, at } => {
            if let Some(attempt) = attempt {
                (attempt.attempt, attempt.is_snoozed) = (0, false);
                (attempt.due_at, attempt.died_at) = (at, UnixMillis::new(0));
                attempt.reservation = None;
            }
            let dead_from = Some(job.topic.clone());
            rules.policy.set(PolicyFields { dead_from, ..PolicyFields::default() });
            rules.topic = to;
            (State::Ready, at)
        }
        Place::New { .. } | Place::Finished { .. } | Place::Gone => {
            unreachable!("made by `arriving`, `finished` and `gone`")
        }
    }
}

/// Returns the score of a job whose time has passed when it is written; empty if the clock does not
/// decide that. A timer goes by the time that was believed at the load.
fn ready_score(follows_clock: bool, now: Now, at: UnixMillis, policy: &Policy) -> String {
    match follows_clock && now.believed >= now.floor {
        true => score_text(State::Ready, at, policy),
        false => String::new(),
    }
}

/// Returns the time at which the job expires in its next state.
fn expiry(job: &Loaded<'_>, state: State, policy: &Policy) -> String {
    match (state, policy.expires_at) {
        (State::Delayed | State::Ready, Some(at)) => at.get().to_string(),
        _ => never_expires(job),
    }
}

/// Returns the argument that takes a job out of the set of expiring ones; empty if it is in none.
fn never_expires(job: &Loaded<'_>) -> String {
    let may_have_it = job.is_expiring || job.rules.policy.expires_at.is_some();
    if may_have_it { ERASED.to_owned() } else { String::new() }
}
