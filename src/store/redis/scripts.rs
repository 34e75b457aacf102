//! The transitions as scripts, one file each under `scripts/`.

use redis::{Cmd, Script};

use super::{codec::reservation_text, keys::Keys};
use crate::{
    job::{JobId, Millis},
    store::Held,
};

/// What sets a word about a topic: no transition of a job, so without the prelude.
pub(super) const SET_TOPIC: &str = include_str!("scripts/set_topic.lua");

/// One script: its text, and the hash by which Redis knows it.
pub(super) struct Transition {
    text: String,
    hash: String,
}

/// All of them.
pub(super) struct Scripts {
    pub(super) put: Transition,
    pub(super) restore: Transition,
    pub(super) pop: Transition,
    pub(super) give_back: Transition,
    pub(super) finish: Transition,
    pub(super) release: Transition,
    pub(super) touch: Transition,
    pub(super) bury: Transition,
    pub(super) kick: Transition,
    pub(super) delete: Transition,
    pub(super) reschedule: Transition,
    pub(super) promote: Transition,
    pub(super) get: Transition,
    pub(super) kick_dead: Transition,
    pub(super) purge: Transition,
    pub(super) list: Transition,
    pub(super) topic: Transition,
    pub(super) topics: Transition,
}

impl Scripts {
    pub(super) fn new() -> Self {
        let transition = |own: &str| {
            let text = format!("{}\n{own}", include_str!("scripts/prelude.lua"));
            Transition { hash: Script::new(&text).get_hash().to_owned(), text }
        };
        Self {
            put: transition(include_str!("scripts/put.lua")),
            restore: transition(include_str!("scripts/restore.lua")),
            pop: transition(include_str!("scripts/pop.lua")),
            give_back: transition(include_str!("scripts/give_back.lua")),
            finish: transition(include_str!("scripts/finish.lua")),
            release: transition(include_str!("scripts/release.lua")),
            touch: transition(include_str!("scripts/touch.lua")),
            bury: transition(include_str!("scripts/bury.lua")),
            kick: transition(include_str!("scripts/kick.lua")),
            delete: transition(include_str!("scripts/delete.lua")),
            reschedule: transition(include_str!("scripts/reschedule.lua")),
            promote: transition(include_str!("scripts/promote.lua")),
            get: transition(include_str!("scripts/get.lua")),
            kick_dead: transition(include_str!("scripts/kick_dead.lua")),
            purge: transition(include_str!("scripts/purge.lua")),
            list: transition(include_str!("scripts/list.lua")),
            topic: transition(include_str!("scripts/topic.lua")),
            topics: transition(include_str!("scripts/topics.lua")),
        }
    }
}

impl Transition {
    /// The call by hash, up to the script's own arguments.
    pub(super) fn by_hash(&self, keys: &Keys, now: &str) -> Cmd {
        call("EVALSHA", &self.hash, keys, now)
    }

    /// The same with the whole text, for a Redis that does not know the hash (yet, or again).
    pub(super) fn by_text(&self, keys: &Keys, now: &str) -> Cmd {
        call("EVAL", &self.text, keys, now)
    }
}

fn call(command: &str, script: &str, keys: &Keys, now: &str) -> Cmd {
    let mut cmd = redis::cmd(command);
    cmd.arg(script).arg(3).arg(&keys.pool).arg(&keys.attempts).arg(&keys.bucket).arg(now);
    cmd
}

/// The arguments of one [`Held`].
pub(super) fn held(cmd: &mut Cmd, held: &Held) {
    cmd.arg(held.id.as_str()).arg(reservation_text(held.reservation));
}

/// The arguments of transitions that need the ids alone.
pub(super) fn ids(cmd: &mut Cmd, ids: &[JobId]) {
    for id in ids {
        cmd.arg(id.as_str());
    }
}

/// A span in milliseconds; empty if there is none.
pub(super) fn millis_text(span: Option<Millis>) -> String {
    span.map_or_else(String::new, |span| span.get().to_string())
}
