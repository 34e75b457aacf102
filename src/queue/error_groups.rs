//! The dead jobs of a topic, counted by their error.

use std::{collections::HashMap, time::Instant};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    bulk::MAX_RUN,
    figures::pattern::{pattern, shortened},
    service::Queue,
};
use crate::{
    job::{JobId, State, Topic, UnixMillis},
    store::{JobFilter, JobRange, StoreResult},
};

/// Number of jobs that a step reads.
const JOBS_PER_STEP: usize = 200;
/// Maximum number of jobs that are examined.
pub const MAX_EXAMINED_ERRORS: usize = 100_000;
/// Maximum number of errors that are told apart, which bounds the memory.
const MAX_ERRORS: usize = 1000;

/// An error, and the dead jobs that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorGroup {
    /// The error of the job `example`; null if its consumers reported none. The middle of a text of
    /// more than 500 characters is omitted.
    pub error: Option<String>,
    /// Number of dead jobs with this error. Texts that differ only in numbers, ids, addresses or
    /// quoted values count as the same.
    pub count: u64,
    /// The one of these jobs that died last.
    pub example: JobId,
}

/// The errors of dead jobs.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "DeadErrors")]
pub struct ErrorGroups {
    /// The errors, those of most jobs first.
    pub errors: Vec<ErrorGroup>,
    /// Number of dead jobs that were examined. A damaged one counts with its damage as the error.
    pub examined: usize,
    /// Whether there are further errors or dead jobs.
    pub more: bool,
}

/// Groups of errors, by pattern, each with the time at which its example died.
#[derive(Default)]
struct Groups {
    by_pattern: HashMap<String, (UnixMillis, ErrorGroup)>,
    /// Whether there was no room for an error.
    is_full: bool,
}

impl Queue {
    /// Groups the dead jobs of a topic by their error; returns up to `limit` groups. Examines at
    /// most [`MAX_EXAMINED_ERRORS`] jobs, for at most ten seconds.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn dead_errors(&self, topic: &Topic, limit: usize) -> StoreResult<ErrorGroups> {
        let begin = Instant::now();
        let (mut groups, mut examined, mut from) = (Groups::default(), 0, None);
        loop {
            let left = MAX_EXAMINED_ERRORS - examined;
            let filter = JobFilter::default();
            let range = JobRange { filter, after: None, limit: JOBS_PER_STEP.min(left) };
            let page = {
                let _turn = self.filter_turn(true).await;
                self.list(topic, State::Dead, from, &range).await?
            };
            examined += page.jobs.len() + page.damaged.len();
            for job in page.jobs {
                groups.add(job.died_at.unwrap_or(job.due_at), job.id, job.error.as_deref());
            }
            for damaged in page.damaged {
                groups.add(UnixMillis::new(0), damaged.id, Some(&damaged.reason));
            }
            from = page.next;
            if from.is_none() || examined >= MAX_EXAMINED_ERRORS || begin.elapsed() > MAX_RUN {
                return Ok(groups.largest(limit, examined, from.is_some()));
            }
        }
    }
}

impl Groups {
    fn add(&mut self, died_at: UnixMillis, id: JobId, error: Option<&str>) {
        let mut pattern = error.map(pattern).unwrap_or_default();
        pattern.shrink_to_fit();
        let error = error.map(shortened);
        let has_room = self.by_pattern.len() < MAX_ERRORS;
        match self.by_pattern.get_mut(&pattern) {
            Some((last, known)) => {
                known.count += 1;
                if *last <= died_at {
                    (*last, known.error, known.example) = (died_at, error, id);
                }
            }
            None if has_room => {
                let group = ErrorGroup { error, count: 1, example: id };
                self.by_pattern.insert(pattern, (died_at, group));
            }
            None => self.is_full = true,
        }
    }

    fn largest(self, limit: usize, examined: usize, has_more: bool) -> ErrorGroups {
        let groups = self.by_pattern.into_values().map(|(_, group)| group);
        let mut errors: Vec<ErrorGroup> = groups.collect();
        errors.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.error.cmp(&b.error)));
        let more = has_more || self.is_full || errors.len() > limit;
        errors.truncate(limit);
        ErrorGroups { errors, examined, more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> JobId {
        text.parse().expect("an id")
    }

    #[test]
    fn the_largest_group_is_first_and_shows_its_last_job() {
        let mut groups = Groups::default();
        for (at, job, error) in [
            (3, "a", Some("no shop 17")),
            (5, "b", None),
            (4, "c", Some("no shop 18")),
            (2, "d", Some("no shop 19")),
        ] {
            groups.add(UnixMillis::new(at), id(job), error);
        }
        let found = groups.largest(1, 4, false);
        let shop = ErrorGroup { error: Some("no shop 18".into()), count: 3, example: id("c") };
        assert_eq!(found, ErrorGroups { errors: vec![shop], examined: 4, more: true });
    }

    #[test]
    fn a_number_in_a_long_error_makes_no_group() {
        let mut groups = Groups::default();
        for n in [9, 10] {
            let error = format!("in line {n}, {}", "and so on, ".repeat(100));
            groups.add(UnixMillis::new(1), id("a"), Some(&error));
        }
        assert_eq!(groups.largest(2, 2, false).errors.len(), 1);
    }

    #[test]
    fn errors_without_room_are_reported() {
        let mut groups = Groups::default();
        for n in 0..=MAX_ERRORS {
            // Each has a pattern of its own: digits would make them one.
            let name: String = n.to_string().bytes().map(|c| char::from(c - b'0' + b'g')).collect();
            groups.add(UnixMillis::new(1), id("a"), Some(&format!("no {name}")));
        }
        let found = groups.largest(usize::MAX, MAX_ERRORS + 1, false);
        assert_eq!((found.errors.len(), found.more), (MAX_ERRORS, true));
    }
}
