//! Promotion: acts on overdue deadlines and returns the next one.
//!
//! No caller waits for the end of a retention, so [`Machine::forget`] comes after the promotes of
//! all buckets.

use super::{Machine, Write};
use crate::{
    job::{After, Due, Event, Millis, Priority, State, Topic, UnixMillis, next},
    store::{
        Next, Now, Peek, PromoteCounts, ReadyJobs,
        file::index::{Attempt, Class, Entry, Slot},
    },
};

/// Counts of a promote by topic.
pub type TopicCounts = Vec<(Topic, PromoteCounts)>;

impl Machine {
    /// Promotes up to `limit` overdue deadlines, except ends of retentions, and stops after
    /// `max_writes` writes. Adds the counts of each topic to `topics`; returns the number of
    /// deadlines.
    pub fn promote(
        &mut self,
        now: Now,
        (limit, max_writes): (usize, usize),
        topics: &mut TopicCounts,
        writes: &mut Vec<Write>,
    ) -> usize {
        let mut done = 0;
        let most = writes.len() + max_writes;
        // Many jobs may expire at once. They must not delay other deadlines, and must not wait for
        // ever.
        let has_expired = self.index.first_expired(now.floor).is_some();
        let for_deadlines = if has_expired { limit - limit / 4 } else { limit };
        while done < for_deadlines
            && writes.len() < most
            && let Some(slot) = self.index.first_due(Class::Living, now.floor)
        {
            let counts = self.counts_of(slot, topics);
            if self.promote_one(now, slot, counts, writes) {
                self.count_moved(slot, topics);
            }
            done += 1;
        }
        while done < limit
            && writes.len() < most
            && let Some(slot) = self.index.first_expired(now.floor)
        {
            let counts = self.counts_of(slot, topics);
            if self.expire(slot, now, writes) {
                counts.moved += 1;
                self.count_moved(slot, topics);
            } else {
                counts.dead += 1;
            }
            done += 1;
        }
        done
    }

    /// Returns the counts of the job's topic.
    fn counts_of<'a>(&self, slot: Slot, topics: &'a mut TopicCounts) -> &'a mut PromoteCounts {
        let topic = self.index.topic(slot);
        let known = topics.iter().position(|(name, _)| name == topic);
        let index = known.unwrap_or_else(|| {
            topics.push((topic.clone(), PromoteCounts::default()));
            topics.len() - 1
        });
        &mut topics[index].1
    }

    /// Counts a job that is ready in its topic because it has moved there.
    fn count_moved(&self, slot: Slot, topics: &mut TopicCounts) {
        let ready = &mut self.counts_of(slot, topics).ready;
        *ready = ready.plus(ReadyJobs::one(self.priority(slot)));
    }

    /// Ends an expired job; returns whether it moves to another topic. If it stays, nothing is
    /// written: its death follows from the row on disk, and happens again after a restart.
    pub(super) fn expire(&mut self, slot: Slot, now: Now, writes: &mut Vec<Write>) -> bool {
        let event = Event::Expire { moves: self.moves(slot) };
        let expires_at = self.index.expires_at(slot);
        let entry = self.index.entry_mut(slot);
        let state = next(Some(entry.state), event).expect("an expiry is never refused");
        let (due_at, policy) = (entry.at, &entry.kind.policy);
        let none = || Box::new(Attempt::none(due_at, policy.ttr));
        let attempt = entry.attempt.get_or_insert_with(none);
        (attempt.due_at, attempt.job_expired) = (due_at, true);
        self.die(slot, expires_at.unwrap_or(due_at));
        let moves = self.move_dead(slot, now, writes).is_some();
        debug_assert_eq!(state, Some(self.index.entry(slot).state));
        moves
    }

    /// Deletes up to `limit` dead or finished jobs past their retention; returns their number.
    pub fn forget(
        &mut self,
        now: Now,
        (class, limit): (Class, usize),
        topics: &mut TopicCounts,
        writes: &mut Vec<Write>,
    ) -> usize {
        let mut done = 0;
        while done < limit
            && let Some(first) = self.index.first_due(class, now.floor)
        {
            for slot in self.index.due_neighbours(first, limit - done, now.floor) {
                let state = self.index.entry(slot).state;
                debug_assert_eq!(next(Some(state), Event::Promote(After::Now)), Ok(None));
                if state == State::Dead {
                    self.counts_of(slot, topics).gone += 1;
                }
                self.end(slot, writes);
                done += 1;
            }
        }
        done
    }

    /// Acts on the deadline of one job; returns whether it died and moved to another topic. A
    /// backoff counts from the end of the TTR, so the result does not depend on when this runs.
    fn promote_one(
        &mut self,
        now: Now,
        slot: Slot,
        moves: &mut PromoteCounts,
        writes: &mut Vec<Write>,
    ) -> bool {
        let (was, deadline) = (self.index.entry(slot).state, self.index.entry(slot).at);
        let (after, due_at) = self.consequence(now, slot);
        let state = next(Some(was), Event::Promote(after)).expect("a promote is never refused");
        if was == State::Reserved {
            moves.expired += 1;
            let expires_before = self.index.has_expired_by(slot, due_at);
            let attempt = self.attempt_mut(slot);
            (attempt.expired, attempt.job_expired) = (true, expires_before);
        }
        match state.expect("a delayed or reserved job stays") {
            _ if after.dies() => {
                self.die(slot, deadline);
                let has_moved = self.move_dead(slot, now, writes).is_some();
                moves.moved += u64::from(has_moved);
                moves.dead += u64::from(!has_moved);
                return has_moved;
            }
            state => {
                self.index.place(slot, state, due_at);
                if state == State::Ready {
                    moves.ready = moves.ready.plus(ReadyJobs::one(self.priority(slot)));
                }
            }
        }
        false
    }

    /// Returns the consequence of the deadline of a delayed or reserved job, and its next due time.
    fn consequence(&self, now: Now, slot: Slot) -> (After, UnixMillis) {
        let entry = self.index.entry(slot);
        match (&entry.attempt, entry.state) {
            (Some(attempt), State::Reserved) => {
                let due_at = entry.at.after(self.backoff_delay(slot, attempt.number));
                (self.after(slot, attempt.number, (due_at, now.reached(due_at))), due_at)
            }
            _ => (After::Now, entry.at),
        }
    }

    /// Acts again, after the jobs were read from the file, on deaths and ended TTRs up to `until`,
    /// which were counted but not written. Moves were written.
    pub fn repeat(&mut self, until: Now) {
        let mut writes = Vec::new();
        for slot in self.index.reserved() {
            let is_over = self.index.entry(slot).at <= until.floor;
            if is_over && self.consequence(until, slot).0 != After::Moved {
                self.promote_one(until, slot, &mut PromoteCounts::default(), &mut writes);
            }
        }
        for slot in self.index.expired(until.floor) {
            if !self.moves(slot) {
                self.expire(slot, until, &mut writes);
            }
        }
        debug_assert!(writes.is_empty(), "{writes:?}");
        self.index.keep_changes();
    }

    pub fn peek(&self, now: Now, topics: &[Topic]) -> Peek {
        Peek {
            next: self.next_deadline(now),
            ready: topics.iter().map(|topic| self.ready_jobs(topic)).collect(),
        }
    }

    fn ready_jobs(&self, topic: &Topic) -> ReadyJobs {
        let first = self.index.first(topic, State::Ready);
        let highest = first.map_or(Priority::MIN, |slot| self.priority(slot));
        ReadyJobs { count: self.index.count(topic, State::Ready), highest }
    }

    pub fn priority(&self, slot: Slot) -> Priority {
        self.index.entry(slot).kind.policy.priority
    }

    pub fn backoff_delay(&self, slot: Slot, attempt: u32) -> Millis {
        let backoff = self.index.entry(slot).kind.policy.backoff.as_ref();
        backoff.map_or(Millis::ZERO, |backoff| backoff.delay(&self.index.id(slot), attempt))
    }

    /// Returns the consequence of attempt number `attempt`, if the next one would be due at
    /// `due_at`. An attempt that does not count has the number 0.
    pub fn after(&self, slot: Slot, attempt: u32, (due_at, due): (UnixMillis, Due)) -> After {
        let entry = self.index.entry(slot);
        let is_over = is_spent(entry, attempt) || self.index.has_expired_by(slot, due_at);
        match (is_over, due) {
            (true, _) if self.moves(slot) => After::Moved,
            (true, _) => After::Spent,
            (false, Due::Now) => After::Now,
            (false, Due::Later) => After::Later,
        }
    }

    /// Returns the next time at which a job may die or a TTR ends.
    pub fn next_death(&self) -> Option<UnixMillis> {
        self.index.next_death()
    }

    pub fn next_deadline(&self, now: Now) -> Option<Next> {
        self.index.next_deadline().map(|at| Next::seen(at, now.micros))
    }
}

/// Returns whether attempt number `attempt` was the last one.
pub fn is_spent(entry: &Entry, attempt: u32) -> bool {
    let most = entry.kind.policy.max_attempts;
    most > 0 && attempt >= most
}
