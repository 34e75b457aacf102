//! Moves dead jobs to the topic that their policy names.

use super::{ErrorText, HistoryChange, Machine, Write};
use crate::{
    job::{PolicyFields, State, Topic, UnixMillis},
    store::file::index::Slot,
};

impl Machine {
    /// Makes a job that has just died ready in another topic. Its history and its error stay. Needs
    /// no room on a full disk: in the row of the job, both topics and the texts of `dead_to` and
    /// `dead_from` change places.
    pub(super) fn move_to(
        &mut self,
        slot: Slot,
        topic: Topic,
        at: UnixMillis,
        writes: &mut Vec<Write>,
    ) {
        let (entry, from) = (self.index.entry(slot), self.index.topic(slot).clone());
        debug_assert_eq!(entry.state, State::Dead);
        let (serial, mut policy) = (entry.serial, entry.kind.policy.clone());
        let fields = PolicyFields { dead_from: Some(from), ..PolicyFields::default() };
        policy.set(fields.clone());
        self.index.change_topic(slot, topic.clone(), &policy, at);
        writes.push(Write::Move { serial, topic, due_at: at, policy: fields });
        let attempt = self.attempt_mut(slot);
        let has_row = attempt.has_row();
        (attempt.number, attempt.is_snoozed, attempt.reservation) = (0, false, None);
        (attempt.due_at, attempt.died_at) = (at, UnixMillis::new(0));
        // A job that was never popped has no row. If such a job has moved, loading takes it for
        // expired.
        if has_row {
            attempt.was_kicked = true;
            let history =
                HistoryChange { timed_out: attempt.timed_out, ..HistoryChange::default() };
            self.write_attempt(slot, ErrorText::Keep, history, writes);
            self.drop_hold(slot);
        }
    }
}
