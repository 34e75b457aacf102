//! Promotion: acts on overdue deadlines and returns the next one.

use super::{Machine, Write};
use crate::{
    job::{After, Due, Event, Millis, State, Topic, next},
    store::{
        Next, Now, Peek, PromoteCounts,
        file::index::{Entry, Slot},
    },
};

impl Machine {
    /// Acts on up to `limit` overdue deadlines of all but finished jobs; returns the counts of each
    /// topic, and the number of deadlines. Nothing waits for the end of a finished job, so
    /// [`forget_finished`](Self::forget_finished) comes after the promotes of all buckets.
    pub fn promote(
        &mut self,
        now: Now,
        limit: usize,
        writes: &mut Vec<Write>,
    ) -> (Vec<(Topic, PromoteCounts)>, usize) {
        let mut topics: Vec<(Topic, PromoteCounts)> = Vec::new();
        let mut done = 0;
        while done < limit
            && let Some(slot) = self.index.first_due(now.floor)
        {
            let topic = self.index.topic(slot);
            let known = topics.iter().position(|(name, _)| name == topic);
            let index = known.unwrap_or_else(|| {
                topics.push((topic.clone(), PromoteCounts::default()));
                topics.len() - 1
            });
            self.promote_one(now, slot, &mut topics[index].1, writes);
            done += 1;
        }
        (topics, done)
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

    /// Acts on the deadline of one job. A backoff counts from the end of the TTR, so the result
    /// does not depend on when this runs.
    fn promote_one(
        &mut self,
        now: Now,
        slot: Slot,
        moves: &mut PromoteCounts,
        writes: &mut Vec<Write>,
    ) {
        let entry = self.index.entry(slot);
        let (was, deadline) = (entry.state, entry.at);
        let (after, due_at) = match (&entry.attempt, was) {
            (Some(attempt), State::Reserved) => {
                let due_at = deadline.after(self.backoff_delay(slot, attempt.number));
                (after(entry, attempt.number, now.reached(due_at)), due_at)
            }
            _ => (After::Now, deadline),
        };
        let state = next(Some(was), Event::Promote(after)).expect("a promote is never refused");
        if was == State::Reserved {
            moves.expired += 1;
            self.attempt_mut(slot).expired = true;
        }
        match state {
            None => {
                moves.gone += 1;
                self.end(slot, writes);
            }
            Some(State::Dead) => {
                moves.dead += 1;
                self.die(slot, deadline);
            }
            Some(state) => {
                moves.ready += u64::from(state == State::Ready);
                self.index.place(slot, state, due_at);
            }
        }
    }

    pub fn peek(&self, now: Now, topics: &[Topic]) -> Peek {
        Peek {
            next: self.next_deadline(now),
            ready: topics.iter().map(|topic| self.index.count(topic, State::Ready)).collect(),
        }
    }

    pub fn backoff_delay(&self, slot: Slot, attempt: u32) -> Millis {
        let backoff = self.index.entry(slot).kind.policy.backoff.as_ref();
        backoff.map_or(Millis::ZERO, |backoff| backoff.delay(&self.index.id(slot), attempt))
    }

    pub fn next_deadline(&self, now: Now) -> Option<Next> {
        self.index.next_deadline().map(|at| Next::seen(at, now.micros))
    }
}

pub fn after(entry: &Entry, attempt: u32, due: Due) -> After {
    let most = entry.kind.policy.max_attempts;
    let spent = most > 0 && attempt >= most;
    match (spent, due) {
        (true, _) => After::Spent,
        (false, Due::Now) => After::Now,
        (false, Due::Later) => After::Later,
    }
}
