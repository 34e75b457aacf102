//! Promotion: acts on overdue deadlines and returns the next one.

use super::{Machine, Write};
use crate::{
    job::{After, Due, Event, Millis, Priority, State, Topic, UnixMillis, next},
    store::{
        Next, Now, Peek, PromoteCounts, ReadyJobs,
        file::index::{Attempt, Entry, Slot},
    },
};

impl Machine {
    /// Promotes up to `limit` overdue deadlines, except those of finished jobs. Returns the counts
    /// of each topic, and the number of deadlines. No caller waits for the end of a finished job,
    /// so [`forget_finished`](Self::forget_finished) comes after the promotes of all buckets.
    pub fn promote(
        &mut self,
        now: Now,
        limit: usize,
        writes: &mut Vec<Write>,
    ) -> (Vec<(Topic, PromoteCounts)>, usize) {
        let mut topics: Vec<(Topic, PromoteCounts)> = Vec::new();
        let mut done = 0;
        // Many jobs may expire at once. They must not delay other deadlines, and must not wait for
        // ever.
        let has_expired = self.index.first_expired(now.floor).is_some();
        let for_deadlines = if has_expired { limit - limit / 4 } else { limit };
        while done < for_deadlines
            && let Some(slot) = self.index.first_due(now.floor)
        {
            let counts = self.counts_of(slot, &mut topics);
            if self.promote_one(now, slot, counts, writes) {
                self.count_moved(slot, &mut topics);
            }
            done += 1;
        }
        while done < limit
            && let Some(slot) = self.index.first_expired(now.floor)
        {
            let counts = self.counts_of(slot, &mut topics);
            if self.expire(slot, now, writes) {
                counts.moved += 1;
                self.count_moved(slot, &mut topics);
            } else {
                counts.dead += 1;
            }
            done += 1;
        }
        (topics, done)
    }

    /// Returns the counts of the job's topic.
    fn counts_of<'a>(
        &self,
        slot: Slot,
        topics: &'a mut Vec<(Topic, PromoteCounts)>,
    ) -> &'a mut PromoteCounts {
        let topic = self.index.topic(slot);
        let known = topics.iter().position(|(name, _)| name == topic);
        let index = known.unwrap_or_else(|| {
            topics.push((topic.clone(), PromoteCounts::default()));
            topics.len() - 1
        });
        &mut topics[index].1
    }

    /// Counts a job that is ready in its topic because it has moved there.
    fn count_moved(&self, slot: Slot, topics: &mut Vec<(Topic, PromoteCounts)>) {
        let ready = &mut self.counts_of(slot, topics).ready;
        *ready = ready.plus(ReadyJobs::one(self.priority(slot)));
    }

    /// Ends an expired job; returns whether it moves to another topic. If it stays, nothing is
    /// written: its death follows from the row on disk, and happens again after a restart.
    pub(super) fn expire(&mut self, slot: Slot, now: Now, writes: &mut Vec<Write>) -> bool {
        let event = Event::Expire { moves: self.moves(slot) };
        let entry = self.index.entry_mut(slot);
        let state = next(Some(entry.state), event).expect("an expiry is never refused");
        let (due_at, policy) = (entry.at, &entry.kind.policy);
        let expires_at = policy.expires_at.unwrap_or(due_at);
        let none = || Box::new(Attempt::none(due_at, policy.ttr));
        let attempt = entry.attempt.get_or_insert_with(none);
        (attempt.due_at, attempt.job_expired) = (due_at, true);
        self.die(slot, expires_at);
        let moves = self.move_dead(slot, now, writes).is_some();
        debug_assert_eq!(state, Some(self.index.entry(slot).state));
        moves
    }

    /// Deletes up to `limit` finished jobs past their retention; returns their number.
    pub fn forget_finished(&mut self, now: Now, limit: usize, writes: &mut Vec<Write>) -> usize {
        let mut done = 0;
        while done < limit
            && let Some(slot) = self.index.first_finished(now.floor)
        {
            debug_assert_eq!(next(Some(State::Finished), Event::Promote(After::Now)), Ok(None));
            self.end(slot, writes);
            done += 1;
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
        let entry = self.index.entry(slot);
        let (was, deadline) = (entry.state, entry.at);
        let (after, due_at) = match (&entry.attempt, was) {
            (Some(attempt), State::Reserved) => {
                let due_at = deadline.after(self.backoff_delay(slot, attempt.number));
                (self.after(slot, attempt.number, (due_at, now.reached(due_at))), due_at)
            }
            _ => (After::Now, deadline),
        };
        let state = next(Some(was), Event::Promote(after)).expect("a promote is never refused");
        if was == State::Reserved {
            moves.expired += 1;
            let expires_before = self.index.entry(slot).kind.policy.has_expired_by(due_at);
            let attempt = self.attempt_mut(slot);
            (attempt.expired, attempt.job_expired) = (true, expires_before);
        }
        match state {
            None => {
                moves.gone += 1;
                self.end(slot, writes);
            }
            Some(_) if after.dies() => {
                self.die(slot, deadline);
                let has_moved = self.move_dead(slot, now, writes).is_some();
                moves.moved += u64::from(has_moved);
                moves.dead += u64::from(!has_moved);
                return has_moved;
            }
            Some(state) => {
                self.index.place(slot, state, due_at);
                if state == State::Ready {
                    moves.ready = moves.ready.plus(ReadyJobs::one(self.priority(slot)));
                }
            }
        }
        false
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
        let is_over = is_spent(entry, attempt) || entry.kind.policy.has_expired_by(due_at);
        match (is_over, due) {
            (true, _) if self.moves(slot) => After::Moved,
            (true, _) => After::Spent,
            (false, Due::Now) => After::Now,
            (false, Due::Later) => After::Later,
        }
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
