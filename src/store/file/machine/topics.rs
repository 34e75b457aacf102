//! Reads of topics, and transitions of many of their jobs at once.

use super::{Machine, Write};
use crate::{
    job::{Event, JobId, State, Topic, Topics, UnixMillis, next},
    store::{
        Counts, JobPosition, JobRef, MAX_BATCH, Now, Period, ReadyJobs, ReservedPage, Steps,
        TopicPage, TopicPeek, Usage,
        file::index::{Entry, IndexKey, Slot},
        topics::overdue,
    },
};

impl Machine {
    pub fn topics(&self, now: Now, page: &TopicPage) -> Vec<(Topic, TopicPeek)> {
        let first = page.prefix.parse::<Topic>().ok();
        let from = self.index.topics_from(first.as_ref(), page.after.as_ref());
        let from = from.skip_while(|topic| topic.as_str() < page.prefix.as_str());
        let mine = from.take_while(|topic| topic.as_str().starts_with(&page.prefix));
        mine.take(page.limit).map(|topic| (topic.clone(), self.topic(now, topic))).collect()
    }

    pub fn topic(&self, now: Now, topic: &Topic) -> TopicPeek {
        let first = self.index.first(topic, State::Delayed);
        let next_due_at = first.map(|slot| self.index.entry(slot).at);
        TopicPeek {
            counts: self.counts(topic),
            next_due_at,
            overdue: overdue(next_due_at, now.floor),
            oldest_ready_age: self.index.earliest_ready(topic).map(|at| now.floor.since(at)),
        }
    }

    /// Returns the usage of a topic without its finished jobs.
    pub fn topic_usage(&self, topic: &Topic) -> Usage {
        let states = State::ALL.into_iter().filter(|state| *state != State::Finished);
        let jobs = states.map(|state| self.index.count(topic, state)).sum();
        Usage { jobs, bytes: self.index.bytes(topic) }
    }

    pub fn state(&self, id: &JobId) -> Option<State> {
        self.index.find(id).map(|slot| self.index.entry(slot).state)
    }

    pub fn jobs(&self) -> u64 {
        self.index.jobs()
    }

    fn counts(&self, topic: &Topic) -> Counts {
        Counts::from_fn(|state| self.index.count(topic, state))
    }

    /// Returns jobs of one state in order, with a time of the set in this period.
    pub fn keys(
        &self,
        topic: &Topic,
        state: State,
        period: Period,
        after: Option<&JobPosition>,
    ) -> impl Iterator<Item = IndexKey> {
        let after = after.and_then(|after| IndexKey::parse(state, after.at, &after.tie));
        self.index.between(topic, state, (period.from, after), period.before)
    }

    pub fn entry(&self, slot: Slot) -> &Entry {
        self.index.entry(slot)
    }

    pub fn id(&self, slot: Slot) -> JobId {
        self.index.id(slot)
    }

    /// Counts the jobs that [`keys`](Self::keys) returns, up to `limit`; returns the position of
    /// the last one if more follow.
    pub fn count_keys(
        &self,
        topic: &Topic,
        state: State,
        period: Period,
        (after, limit): (Option<&JobPosition>, usize),
    ) -> (u64, Option<JobPosition>) {
        let after = after.and_then(|after| IndexKey::parse(state, after.at, &after.tie));
        let from = (period.from, after);
        let all = self.index.count_between(topic, state, from, period.before);
        if all <= limit {
            return (all as u64, None);
        }
        let last = limit.checked_sub(1);
        let last = last.and_then(|n| self.index.nth_between(topic, state, from, period.before, n));
        (limit as u64, last.map(|key| key.position()))
    }

    /// Returns the number of delayed jobs that fall due in each step.
    pub fn count_due(&self, topic: &Topic, steps: &Steps) -> Vec<u64> {
        let count = |n| {
            let (from, end) = (steps.begin(n), steps.begin(n + 1));
            self.index.count_between(topic, State::Delayed, (Some(from), None), Some(end)) as u64
        };
        (0..steps.count).map(count).collect()
    }

    /// Returns a page of reserved jobs after `cursor`, which is the `next` of the previous page.
    pub fn held_page(&self, topic: &Topic, cursor: Option<&str>) -> ReservedPage {
        let after = cursor.and_then(|text| text.split_once(' '));
        let after = after.and_then(|(at, tie)| {
            IndexKey::parse(State::Reserved, UnixMillis::new(at.parse().ok()?), tie)
        });
        let mut page = ReservedPage::default();
        for key in self.index.after(topic, State::Reserved, after).take(MAX_BATCH) {
            let id = self.index.id(key.slot);
            let reservation = self.attempt(key.slot).reservation;
            page.held.push(JobRef { id, reservation, topics: Topics::ALL });
            page.next = Some(format!("{} {}", key.at().get(), key.tie()));
        }
        page.next = page.next.filter(|_| page.held.len() == MAX_BATCH);
        page
    }

    /// Deletes up to `limit` jobs of a topic and state, in the order of the file.
    pub fn purge(
        &mut self,
        topic: &Topic,
        state: State,
        limit: usize,
        writes: &mut Vec<Write>,
    ) -> u64 {
        let mut done = 0;
        while done < limit
            && let Some(first) = self.index.first(topic, state)
        {
            for slot in self.index.neighbours(first, limit - done) {
                self.purge_one(slot, writes);
                done += 1;
            }
        }
        done as u64
    }

    pub fn purge_one(&mut self, slot: Slot, writes: &mut Vec<Write>) {
        let state = self.index.entry(slot).state;
        debug_assert_eq!(next(Some(state), Event::Delete { kept: false }), Ok(None));
        self.end(slot, writes);
    }

    pub fn kick_dead(
        &mut self,
        now: Now,
        topic: &Topic,
        limit: usize,
        writes: &mut Vec<Write>,
    ) -> ReadyJobs {
        let mut ready = ReadyJobs::NONE;
        while ready.count < limit as u64
            && let Some(slot) = self.index.first(topic, State::Dead)
        {
            ready = ready.plus(self.kick_at(slot, now, writes));
        }
        ready
    }
}
