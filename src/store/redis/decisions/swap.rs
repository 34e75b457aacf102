//! Edits as arguments of `swap.lua`.

use bytes::Bytes;
use delay_queue_core::{
    Now,
    decide::{AttemptEdit, Edit, Ended, Place},
};
use redis::Cmd;

use super::loaded::Loaded;
use crate::{
    job::{AttemptOutcome, Job, PastAttempt, PolicyFields, State, Topic, UnixMillis, cut_error},
    store::{
        Transitioned,
        redis::{
            codec::{Attempt, Rules, long_body, parse_time, text_of_history},
            score::score_text,
        },
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
    header: String,
    body: Option<Bytes>,
    rules: Rules,
    state: State,
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
        let is_forgotten = attempts == AttemptEdit::Forgotten;
        let is_change = attempts == AttemptEdit::Unheld;
        let (mut attempt, history) = match attempts {
            AttemptEdit::Kept | AttemptEdit::Forgotten => (None, String::new()),
            AttemptEdit::Unheld => {
                let attempt = job.attempt.clone();
                (attempt.map(|attempt| Attempt { reservation: None, ..attempt }), String::new())
            }
            AttemptEdit::Ended(ended) => end(job, now, ended)?,
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
        let expiry = match (state, policy.expires_at, job.rules.policy.expires_at) {
            (State::Delayed | State::Ready, Some(at), _) => at.get().to_string(),
            (_, _, Some(_)) => "-".to_owned(),
            (_, _, None) => String::new(),
        };
        let attempt = match (attempt, is_forgotten) {
            (Some(attempt), _) => attempt.text(&rules_text),
            (None, true) => job.forgotten_attempt().to_owned(),
            (None, false) => String::new(),
        };
        // A job that keeps its place keeps it whatever the clock shows.
        let stays = job.texts.state == Some(state) && job.due_at == at;
        let ready_score = match stays || now.believed < now.floor {
            true => String::new(),
            false => score_text(State::Ready, at, policy),
        };
        let is_longer =
            header.len() + rules.length() > job.texts.header().len() + job.rules.length();
        Some(Self {
            job,
            attempt,
            history,
            grows: if is_change { is_new && is_longer } else { body.is_some() },
            header,
            body,
            state,
            at,
            score: score_text(state, at, policy),
            ready_score,
            topic: match rules.topic == job.rules.topic {
                true => job.topic.clone(),
                false => rules.topic.clone(),
            },
            rules,
            expires_at: expiry,
        })
    }

    /// Returns whether a full Redis refuses the edit.
    pub fn grows(&self) -> bool {
        self.grows
    }

    /// Returns the job after the edit, which leaves it delayed or ready; `None` if its creation
    /// time is damaged, or bodies were not loaded.
    pub fn job(&self, done: Transitioned) -> Option<Job> {
        let created_at = parse_time(self.job.created.as_ref()?)?;
        let attempt = self.job.attempt.as_ref();
        let (history, _) = self.job.history();
        Some(history.into_job(Job {
            id: self.job.id.clone(),
            topic: done.topic,
            body: self.job.body.clone()?,
            state: done.state,
            attempt: attempt.map_or(0, |attempt| attempt.attempt),
            is_snoozed: attempt.is_some_and(|attempt| attempt.is_snoozed),
            due_at: done.due_at,
            created_at,
            ttr: self.rules.policy.ttr,
            policy: self.rules.policy.clone(),
            reservation: None,
            reserved_until: None,
            died_at: None,
            error: attempt.and_then(|attempt| attempt.error.clone()),
            ending: None,
            consumer: None,
            started_at: None,
            history: Vec::new(),
        }))
    }

    /// Adds the arguments of one job.
    pub fn fill(&self, cmd: &mut Cmd) {
        let texts = &self.job.texts;
        let (old_state, old_topic) = (texts.state.map_or("", State::name), self.job.topic.as_str());
        let words = [
            old_state,
            old_topic,
            &texts.score,
            self.state.name(),
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
            None if self.job.rules.has_long_body() => b"s",
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
            }
            let dead_from = Some(job.topic.clone());
            rules.policy.set(PolicyFields { dead_from, ..PolicyFields::default() });
            rules.topic = to;
            (State::Ready, at)
        }
    }
}

/// Returns the attempt record of a job whose attempt ends now, and its history, which is empty if
/// it stays; `None` if the job has no such record.
fn end(job: &Loaded<'_>, now: Now, ended: Ended) -> Option<(Option<Attempt>, String)> {
    let attempt = job.attempt.as_ref()?;
    let Ended { number, is_snoozed, outcome, error, cause } = ended;
    let history = new_history(job, now, outcome, error.as_deref());
    let attempt = Attempt {
        attempt: number,
        has_history: attempt.has_history || !history.is_empty(),
        is_snoozed,
        reservation: None,
        due_at: job.due_at,
        error: cause.map(str::to_owned).or(error),
        ..attempt.clone()
    };
    Some((Some(attempt), history))
}

/// Formats the history with the attempt that ends now; empty if the history stays.
fn new_history(job: &Loaded<'_>, now: Now, outcome: AttemptOutcome, error: Option<&str>) -> String {
    let (mut history, running) = job.history();
    let end = PastAttempt {
        attempt: job.attempt.as_ref().map_or(0, |attempt| attempt.attempt),
        started_at: UnixMillis::new(0),
        ended_at: now.floor,
        outcome,
        error: error.and_then(cut_error),
        consumer: None,
    };
    if history.end(running, end) { text_of_history(job.id, &history) } else { String::new() }
}
