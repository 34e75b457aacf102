//! Waits between repetitions of a call.

use std::time::Duration;

use tokio::time::Instant;

use crate::Error;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Growing waits: 100 ms doubling to 5 s, with full jitter.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Backoff { next: FIRST }
    }

    /// Returns the next wait, at least the one that the server requested.
    pub(crate) fn wait(&mut self, retry_after: Option<Duration>) -> Duration {
        let wait = self.next.mul_f64(rand::random());
        self.next = (self.next * 2).min(LONGEST);
        wait.max(retry_after.unwrap_or_default())
    }
}

/// Repetitions of one call until a deadline.
#[derive(Debug)]
pub(crate) struct Retries {
    backoff: Backoff,
    deadline: Instant,
}

impl Retries {
    pub(crate) fn new(retry_for: Duration) -> Self {
        Retries { backoff: Backoff::new(), deadline: Instant::now() + retry_for }
    }

    /// Waits before the call is repeated after this error.
    ///
    /// # Errors
    ///
    /// Returns the error if a repetition cannot help, or would be too late.
    pub(crate) async fn pause(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_passing() {
            return Err(error);
        }
        let wait = self.backoff.wait(error.retry_after());
        if Instant::now() + wait >= self.deadline {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_five_seconds_with_full_jitter() {
        for expected in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let mut longest = Duration::ZERO;
            for _ in 0..200 {
                let wait = Backoff { next: Duration::from_millis(expected) }.wait(None);
                assert!(wait <= Duration::from_millis(expected));
                longest = longest.max(wait);
            }
            assert!(longest > Duration::from_millis(expected / 2), "{longest:?} of {expected} ms");
        }
        let mut backoff = Backoff::new();
        for _ in 0..9 {
            backoff.wait(None);
        }
        assert_eq!(backoff.next, LONGEST);
    }

    #[test]
    fn a_wait_is_at_least_retry_after() {
        let retry_after = Duration::from_secs(7);
        assert_eq!(Backoff::new().wait(Some(retry_after)), retry_after);
    }
}
