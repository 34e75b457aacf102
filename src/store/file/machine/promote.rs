//! Promotion: acts on overdue deadlines and returns the next one.
//!
//! No caller waits for the end of a retention, so [`Machine::forget`] comes after the promotes of
//! all buckets.

use delay_queue_core::decide::{Place, overdue};

use super::{Machine, Write};
use crate::{
    job::{After, Event, Priority, State, Topic, UnixMillis, next},
    store::{
        Lapsed, Next, Now, Peek, ReadyJobs, TopicCounts, counts_of,
        file::index::{Class, Slot},
    },
};

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
            match self.index.entry(slot).state {
                State::Reserved => self.lapse(slot, now, writes).count(topics),
                _ => self.make_ready(slot, topics),
            }
            done += 1;
        }
        while done < limit
            && writes.len() < most
            && let Some(slot) = self.index.first_expired(now.floor)
        {
            self.lapse(slot, now, writes).count(topics);
            done += 1;
        }
        done
    }

    fn make_ready(&mut self, slot: Slot, topics: &mut TopicCounts) {
        let entry = self.index.entry(slot);
        let (was, due_at) = (entry.state, entry.at);
        let state = next(Some(was), Event::Promote(After::Now)).ok().flatten();
        self.index.place(slot, state.expect("a delayed job"), due_at);
        let ready = &mut counts_of(topics, self.index.topic(slot)).ready;
        *ready = ready.plus(ReadyJobs::one(self.priority(slot)));
    }

    /// Acts on the end of a TTR, or on an expiry, that has passed. If the job stays in its topic,
    /// nothing is written: what follows from the row on disk happens again after a restart.
    pub(super) fn lapse(&mut self, slot: Slot, now: Now, writes: &mut Vec<Write>) -> Lapsed {
        let id = self.index.id(slot);
        let job = self.known(slot, &id);
        let edit = overdue(&job, now).ok().flatten().expect(PASSED);
        let lapsed = Lapsed { was: job.state, job: edit.answer(&job) };
        self.apply(slot, edit, None, now, writes);
        lapsed
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
                    counts_of(topics, self.index.topic(slot)).gone += 1;
                }
                self.end(slot, writes);
                done += 1;
            }
        }
        done
    }

    /// Acts again, after the jobs were read from the file, on deaths and ended TTRs up to `until`,
    /// which were counted but not written. Moves were written.
    pub fn repeat(&mut self, until: Now) {
        let mut ended = self.index.reserved();
        ended.retain(|&slot| self.index.entry(slot).at <= until.floor);
        self.repeat_all(&ended, until);
        // Jobs whose TTR has ended may have expired since.
        let expired = self.index.expired(until.floor);
        self.repeat_all(&expired, until);
        self.index.keep_changes();
    }

    fn repeat_all(&mut self, slots: &[Slot], until: Now) {
        let mut writes = Vec::new();
        for &slot in slots {
            let id = self.index.id(slot);
            let edit = overdue(&self.known(slot, &id), until).ok().flatten().expect(PASSED);
            if !matches!(edit.place, Place::Moved { .. }) {
                self.apply(slot, edit, None, until, &mut writes);
            }
        }
        debug_assert!(writes.is_empty(), "{writes:?}");
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

    /// Returns the next time at which a job may die or a TTR ends.
    pub fn next_death(&self) -> Option<UnixMillis> {
        self.index.next_death()
    }

    pub fn next_deadline(&self, now: Now) -> Option<Next> {
        self.index.next_deadline().map(|at| Next::seen(at, now.micros))
    }
}

const PASSED: &str = "its deadline has passed";
