//! Scripts of the transitions, each in a file under `scripts/`.

pub mod assemble;

use redis::{Cmd, Script};

use self::assemble::{guarded, unguarded};
use super::{codec::reservation_text, keys::Keys};
use crate::{
    job::{Millis, TopicPattern},
    store::{JobRef, JobRequest},
};

// Scripts on keys that belong to no bucket.
pub const SET_TOPIC: &str = include_str!("scripts/set_topic.lua");
pub const CHANGE_TOKEN: &str = include_str!("scripts/change_token.lua");
pub const CHANGE_SCHEDULES: &str = include_str!("scripts/change_schedules.lua");
pub const SCHEDULE_TEXTS: &str = include_str!("scripts/schedule_texts.lua");
pub const MEND_SCHEDULES: &str = include_str!("scripts/mend_schedules.lua");
pub const NOTE_TOKEN_USES: &str = include_str!("scripts/note_token_uses.lua");
pub const RENEW_LEASE: &str = include_str!("scripts/renew_lease.lua");
pub const ACCEPT_LOSS: &str = include_str!("scripts/accept_loss.lua");
pub const SET_INCARNATION: &str = include_str!("scripts/set_incarnation.lua");

/// Text of a script, and the hash by which Redis knows it.
pub struct Transition {
    text: String,
    hash: String,
    confirmed: bool,
    adds_jobs: bool,
}

/// A script in two forms: for callers that may access all topics, and with a check of each job's
/// topic.
pub struct Guardable {
    open: Transition,
    guarded: Transition,
    /// Number of arguments per job.
    stride: usize,
}

pub struct Scripts {
    pub put: Transition,
    pub fire: Transition,
    pub pop: Transition,
    pub unpop: Transition,
    pub held: Transition,
    pub states: Transition,
    pub load: Transition,
    pub swap: Transition,
    pub swap_overdue: Transition,
    pub swap_arrivals: Transition,
    pub finish: Guardable,
    pub touch: Guardable,
    pub delete: Guardable,
    pub promote: Transition,
    pub get: Guardable,
    pub kick_dead: Transition,
    pub purge: Transition,
    pub kick_matching: Transition,
    pub purge_matching: Transition,
    pub count_matching: Transition,
    pub list: Transition,
    pub topic: Transition,
    pub due_counts: Transition,
    pub topic_usage: Transition,
    pub usage: Transition,
    pub topics: Transition,
    pub mend: Transition,
    pub mend_sets: Transition,
    pub walk: Transition,
}

impl Scripts {
    pub fn new() -> Self {
        let write = |path| Transition::new(unguarded(path), true);
        // Reads and promotions need no confirmation: if a failover undoes a promotion, the next
        // timer repeats it.
        let unconfirmed = |path| Transition::new(unguarded(path), false);
        let guardable = |path, stride| Guardable {
            open: write(path),
            guarded: Transition::new(guarded(path), true),
            stride,
        };
        Self {
            put: write("put").adding_jobs(),
            fire: write("fire").adding_jobs(),
            pop: write("pop"),
            unpop: write("unpop"),
            held: unconfirmed("held"),
            states: unconfirmed("states"),
            load: unconfirmed("load"),
            swap: write("swap"),
            // A part of a promotion.
            swap_overdue: unconfirmed("swap"),
            swap_arrivals: write("swap").adding_jobs(),
            finish: guardable("finish", 2),
            touch: guardable("touch", 4),
            delete: guardable("delete", 2),
            promote: unconfirmed("promote"),
            get: guardable("get", 1).unconfirmed(),
            kick_dead: write("kick_dead"),
            purge: write("purge"),
            kick_matching: write("kick_matching"),
            purge_matching: write("purge_matching"),
            count_matching: unconfirmed("count_matching"),
            list: unconfirmed("list"),
            topic: unconfirmed("topic"),
            due_counts: unconfirmed("due_counts"),
            topic_usage: unconfirmed("topic_usage"),
            usage: unconfirmed("usage"),
            topics: unconfirmed("topics"),
            mend: write("mend"),
            mend_sets: write("mend_sets"),
            walk: unconfirmed("walk"),
        }
    }
}

impl Guardable {
    /// Returns a script that only reads.
    fn unconfirmed(mut self) -> Self {
        (self.open.confirmed, self.guarded.confirmed) = (false, false);
        self
    }

    /// Returns the script for these jobs: with the check if a caller may access only some topics.
    pub fn of<'a, J: JobRequest + 'a>(&self, mut jobs: impl Iterator<Item = &'a J>) -> &Transition {
        let is_limited = jobs.any(|job| job.topics().patterns().is_some());
        if is_limited { &self.guarded } else { &self.open }
    }

    /// Adds the arguments of the check (`shared/guard.lua`), if `script` has it.
    pub fn fill<J: JobRequest>(&self, script: &Transition, cmd: &mut Cmd, jobs: &[J]) {
        if script.hash != self.guarded.hash {
            return;
        }
        cmd.arg(self.stride).arg(jobs.len());
        for job in jobs {
            let patterns = job.topics().patterns().map(|patterns| {
                let texts: Vec<&str> = patterns.iter().map(TopicPattern::as_str).collect();
                // An empty text would mean all topics, although this caller may access none.
                if texts.is_empty() { " ".to_owned() } else { texts.join(" ") }
            });
            cmd.arg(patterns.unwrap_or_default());
        }
    }
}

impl Transition {
    fn new(text: String, confirmed: bool) -> Self {
        let hash = Script::new(&text).get_hash().to_owned();
        Self { hash, text, confirmed, adds_jobs: false }
    }

    /// Returns a script that creates jobs.
    fn adding_jobs(self) -> Self {
        Self { adds_jobs: true, ..self }
    }

    /// Builds the call with the script's hash, or with its text for a Redis that does not know the
    /// hash. `fill` adds the arguments of one bucket.
    pub fn call<'a>(
        &self,
        buckets: impl ExactSizeIterator<Item = &'a Keys> + Clone,
        now: &str,
        as_text: bool,
        mut fill: impl FnMut(&mut Cmd, usize),
    ) -> Cmd {
        let (command, script) = match as_text {
            false => ("EVALSHA", &self.hash),
            true => ("EVAL", &self.text),
        };
        let mut cmd = redis::cmd(command);
        cmd.arg(script).arg(7 * buckets.len());
        for keys in buckets.clone() {
            cmd.arg(&keys.pool).arg(&keys.attempts).arg(&keys.bucket).arg(&keys.ends);
            cmd.arg(&keys.topics).arg(&keys.bodies).arg(&keys.absent);
        }
        cmd.arg(now);
        let mut counts = Vec::with_capacity(buckets.len());
        for index in 0..buckets.len() {
            let before = cmd.args_iter().len();
            fill(&mut cmd, index);
            counts.push(cmd.args_iter().len() - before);
        }
        for count in counts {
            cmd.arg(count);
        }
        cmd
    }

    /// Returns whether the script creates jobs.
    pub fn adds_jobs(&self) -> bool {
        self.adds_jobs
    }

    /// Returns whether the reply waits for the confirmation that `store.ack` demands.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }
}

/// Adds the arguments of one [`JobRef`].
pub fn add_job_ref(cmd: &mut Cmd, held: &JobRef) {
    cmd.arg(held.id.as_str()).arg(reservation_text(held.reservation));
}

/// Formats a span in milliseconds, empty if there is none.
pub fn millis_text(span: Option<Millis>) -> String {
    span.map_or_else(String::new, |span| span.get().to_string())
}
