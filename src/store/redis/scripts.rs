//! The transitions as scripts, one file each under `scripts/`.

use redis::{Cmd, Script};

use super::{codec::reservation_text, keys::Keys};
use crate::{
    job::{Millis, TopicPattern},
    store::{Claim, Guarded},
};

/// What sets a word about a topic: no transition of a job, so without the prelude.
pub const SET_TOPIC: &str = include_str!("scripts/set_topic.lua");

/// What changes access tokens: the same.
pub const CHANGE_TOKEN: &str = include_str!("scripts/change_token.lua");

/// What notes when they were used: the same.
pub const NOTE_TOKEN_USES: &str = include_str!("scripts/note_token_uses.lua");

/// What renews a server's lease: the same.
pub const RENEW_LEASE: &str = include_str!("scripts/renew_lease.lua");

/// What notes that a loss of jobs is accepted: the same.
pub const ACCEPT_LOSS: &str = include_str!("scripts/accept_loss.lua");

/// What gives a bucket another incarnation: the same.
pub const SET_INCARNATION: &str = include_str!("scripts/set_incarnation.lua");

const PRELUDE: &str = include_str!("scripts/prelude.lua");
const RECORDS: &str = include_str!("scripts/records.lua");
const MOVES: &str = include_str!("scripts/moves.lua");
const GUARD: &str = include_str!("scripts/guard.lua");
const TOOLS: &str = include_str!("scripts/tools.lua");
const PEEK: &str = include_str!("scripts/peek.lua");
const EACH_BUCKET: &str = include_str!("scripts/each_bucket.lua");
const MAKE: &str =
    "local made\nlocal function tools()\n  made = made or make()\n  return made\nend";

/// One script: its text, and the hash by which Redis knows it.
pub struct Transition {
    text: String,
    hash: String,
    confirmed: bool,
}

/// A script of jobs that not every caller may reach: as it is, and behind a guard. One that all
/// callers may call for all topics costs nothing more.
pub struct Guardable {
    open: Transition,
    guarded: Transition,
    /// How many arguments a job has.
    stride: usize,
}

/// All of them.
pub struct Scripts {
    pub put: Transition,
    pub restore: Transition,
    pub pop: Transition,
    pub unpop: Transition,
    pub held: Transition,
    pub finish: Guardable,
    pub release: Guardable,
    pub touch: Guardable,
    pub bury: Guardable,
    pub kick: Guardable,
    pub delete: Guardable,
    pub reschedule: Guardable,
    pub promote: Transition,
    pub get: Guardable,
    pub kick_dead: Transition,
    pub purge: Transition,
    pub list: Transition,
    pub topic: Transition,
    pub due_counts: Transition,
    pub weigh: Transition,
    pub usage: Transition,
    pub topics: Transition,
    pub mend: Transition,
    pub mend_sets: Transition,
}

impl Scripts {
    pub fn new() -> Self {
        let transition = |shared: &str, own: &str, confirmed| {
            let text = format!("{PRELUDE}\n{shared}\n{own}\n{EACH_BUCKET}");
            Transition { hash: Script::new(&text).get_hash().to_owned(), text, confirmed }
        };
        let script = |own: &str, confirmed| {
            let own = format!("local function transition()\n{own}\nend");
            transition(&format!("{RECORDS}\n{MOVES}"), &own, confirmed)
        };
        // To make a function takes a good part of a command's time. So those that are called most
        // make theirs once a call and not for each bucket, and those of the shared parts when they
        // need them.
        let often = |own: &str| {
            let tools = format!("local function make()\n{RECORDS}\n{MOVES}\n{TOOLS}end\n{MAKE}");
            transition(&tools, own, true)
        };
        let guardable = |own: &str, stride| {
            let guard = format!("local seek, whereabouts = find, locate\n{GUARD}");
            let own = format!("local function transition()\n{own}\nend");
            let shared = format!("{RECORDS}\n{MOVES}");
            Guardable {
                open: transition(&shared, &own, true),
                guarded: transition(&shared, &format!("{own}\n{guard}"), true),
                stride,
            }
        };
        let often_guardable = |own: &str, stride| {
            let guard = "local function seek(...) return tools().find(...) end\n\
                         local function whereabouts(...) return tools().locate(...) end";
            let guarded = often(&format!("{own}\n{guard}\n{GUARD}"));
            Guardable { open: often(own), guarded, stride }
        };
        let write = |own| script(own, true);
        // What only reads, and what follows from the deadlines: if a failover takes it back, the
        // next timer does it again.
        let other = |own| script(own, false);
        Self {
            put: often(include_str!("scripts/put.lua")),
            restore: write(include_str!("scripts/restore.lua")),
            pop: often(include_str!("scripts/pop.lua")),
            unpop: write(include_str!("scripts/unpop.lua")),
            held: other(include_str!("scripts/held.lua")),
            finish: often_guardable(include_str!("scripts/finish.lua"), 2),
            release: guardable(include_str!("scripts/release.lua"), 4),
            touch: guardable(include_str!("scripts/touch.lua"), 4),
            bury: guardable(include_str!("scripts/bury.lua"), 3),
            kick: guardable(include_str!("scripts/kick.lua"), 1),
            delete: guardable(include_str!("scripts/delete.lua"), 1),
            reschedule: guardable(include_str!("scripts/reschedule.lua"), 5),
            promote: other(include_str!("scripts/promote.lua")),
            get: guardable(include_str!("scripts/get.lua"), 1).unconfirmed(),
            kick_dead: write(include_str!("scripts/kick_dead.lua")),
            purge: write(include_str!("scripts/purge.lua")),
            list: other(include_str!("scripts/list.lua")),
            topic: other(&format!("{PEEK}\n{}", include_str!("scripts/topic.lua"))),
            due_counts: other(include_str!("scripts/due_counts.lua")),
            weigh: other(include_str!("scripts/weigh.lua")),
            usage: other(include_str!("scripts/usage.lua")),
            topics: other(&format!("{PEEK}\n{}", include_str!("scripts/topics.lua"))),
            mend: write(include_str!("scripts/mend.lua")),
            mend_sets: write(include_str!("scripts/mend_sets.lua")),
        }
    }
}

impl Guardable {
    /// For what writes nothing.
    fn unconfirmed(mut self) -> Self {
        (self.open.confirmed, self.guarded.confirmed) = (false, false);
        self
    }

    /// The script for these jobs: behind the guard if any of their callers is limited to topics.
    pub fn of<'a, J: Guarded + 'a>(&self, mut jobs: impl Iterator<Item = &'a J>) -> &Transition {
        let is_limited = jobs.any(|job| job.topics().patterns().is_some());
        if is_limited { &self.guarded } else { &self.open }
    }

    /// What the guard takes, if `script` is behind it.
    pub fn fill<J: Guarded>(&self, script: &Transition, cmd: &mut Cmd, jobs: &[J]) {
        if script.hash != self.guarded.hash {
            return;
        }
        cmd.arg(self.stride).arg(jobs.len());
        for job in jobs {
            let patterns = job.topics().patterns().map(|patterns| {
                let texts: Vec<&str> = patterns.iter().map(TopicPattern::as_str).collect();
                // Of no topic: an empty text would be all of them.
                if texts.is_empty() { " ".to_owned() } else { texts.join(" ") }
            });
            cmd.arg(patterns.unwrap_or_default());
        }
    }
}

impl Transition {
    /// The call by hash, or with the whole text for a Redis that does not know the hash (yet, or
    /// again). `fill` adds the arguments of one bucket.
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
        cmd.arg(script).arg(6 * buckets.len());
        for keys in buckets.clone() {
            cmd.arg(&keys.pool).arg(&keys.attempts).arg(&keys.bucket);
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

    /// Whether its answer must mean what `store.ack` says.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }
}

/// The arguments of one [`Claim`].
pub fn held(cmd: &mut Cmd, held: &Claim) {
    cmd.arg(held.id.as_str()).arg(reservation_text(held.reservation));
}

/// A span in milliseconds; empty if there is none.
pub fn millis_text(span: Option<Millis>) -> String {
    span.map_or_else(String::new, |span| span.get().to_string())
}
