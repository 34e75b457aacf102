//! The times at which a refused put is tried again, as far as this server has tried it.

use std::collections::HashMap;

use crate::job::{Millis, ScheduleName, UnixMillis};

/// First and longest wait between two tries.
const FIRST_WAIT: Millis = Millis::new(1_000);
const LONGEST_WAIT: Millis = Millis::new(30_000);
/// Maximum number of schedules whose waits are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// Waits of the schedules whose puts are refused.
#[derive(Default)]
pub struct Retries {
    /// The next instant of each schedule, which a success moves, and the last wait.
    waits: HashMap<ScheduleName, (UnixMillis, Millis)>,
}

/// The times of a schedule that decide when a refused put is tried again.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// The next instant of the schedule.
    pub next: UnixMillis,
    /// The latest time of another try; `None` if a later one loses no instant.
    pub last_try: Option<UnixMillis>,
}

impl Retries {
    /// Returns when a server must look at a schedule whose put was refused at `now`.
    pub fn look_at(&mut self, name: &ScheduleName, retry: Retry, now: UnixMillis) -> UnixMillis {
        let wait = match self.waits.get(name) {
            Some((next, last)) if *next == retry.next => {
                Millis::new(last.get() * 2).min(LONGEST_WAIT)
            }
            _ => FIRST_WAIT,
        };
        if self.waits.len() >= MAX_REMEMBERED {
            self.waits.clear();
        }
        self.waits.insert(name.clone(), (retry.next, wait));
        let at = now.after(wait);
        retry.last_try.map_or(at, |last| at.min(last).max(now.after(FIRST_WAIT)))
    }

    /// Returns whether a put was refused while `next` was the next instant of the schedule.
    pub fn was_refused(&self, name: &ScheduleName, next: UnixMillis) -> bool {
        self.waits.get(name).is_some_and(|(refused, _)| *refused == next)
    }

    /// Forgets the waits of a schedule whose put succeeded.
    pub fn forget(&mut self, name: &ScheduleName) {
        self.waits.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_000_000;

    fn name() -> ScheduleName {
        "s".parse().expect("a name")
    }

    fn retry(next: u64, last_try: Option<u64>) -> Retry {
        Retry { next: UnixMillis::new(next), last_try: last_try.map(UnixMillis::new) }
    }

    /// Returns the waits in seconds of tries that are all refused, from `START` on.
    fn waits(retries: &mut Retries, retry: Retry, tries: usize) -> Vec<u64> {
        let mut now = UnixMillis::new(START);
        let wait = |_| {
            let at = retries.look_at(&name(), retry, now);
            let wait = at.since(now).get() / 1_000;
            now = at;
            wait
        };
        (0..tries).map(wait).collect()
    }

    #[test]
    fn waits_double_up_to_half_a_minute() {
        let mut retries = Retries::default();
        assert_eq!(waits(&mut retries, retry(1, None), 8), [1, 2, 4, 8, 16, 30, 30, 30]);
    }

    #[test]
    fn waits_begin_again_after_a_success() {
        let mut retries = Retries::default();
        waits(&mut retries, retry(1, None), 4);
        // Another server has put the job of the instant.
        assert_eq!(waits(&mut retries, retry(2, None), 4), [1, 2, 4, 8]);
        retries.forget(&name());
        assert_eq!(waits(&mut retries, retry(2, None), 2), [1, 2]);
    }

    #[test]
    fn no_wait_exceeds_the_last_try_unless_it_is_within_a_second() {
        let mut retries = Retries::default();
        let last_try = Some(START + 59_000);
        assert_eq!(
            waits(&mut retries, retry(START, last_try), 8),
            [1, 2, 4, 8, 16, 28, 1, 1],
            "after the last try comes one at the next instant that is missed"
        );
    }
}
