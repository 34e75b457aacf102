//! Limit of requests per second, minute or hour.

use std::time::{Duration, Instant};

/// Unused requests add up for this long and may then be sent together.
const BURST: Duration = Duration::from_millis(100);

/// Token bucket of one push on this server.
pub struct Limiter {
    available: f64,
    filled: Instant,
    /// Maximum of `available`.
    most: f64,
}

impl Limiter {
    /// Creates a limiter that allows the first request at once.
    pub fn new(now: Instant) -> Self {
        Self { available: 1.0, filled: now, most: 1.0 }
    }

    /// Takes up to `wanted` requests where `count` are allowed in each `period`, and returns how
    /// many it took.
    ///
    /// # Errors
    /// The time until the next request is allowed, if none is now.
    pub fn take(
        &mut self,
        (count, period): (usize, Duration),
        wanted: usize,
        now: Instant,
    ) -> Result<usize, Duration> {
        if count == 0 {
            return Err(period);
        }
        #[expect(clippy::cast_precision_loss, reason = "at most a million")]
        let per_second = count as f64 / period.as_secs_f64();
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.most = (per_second * BURST.as_secs_f64()).max(1.0);
        self.available = (self.available + elapsed * per_second).min(self.most);
        self.filled = now;
        if self.available < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.available) / per_second));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 to 100,000"
        )]
        let taken = (self.available as usize).min(wanted);
        #[expect(clippy::cast_precision_loss, reason = "at most 100,000")]
        let spent = taken as f64;
        self.available -= spent;
        Ok(taken)
    }

    /// Returns requests that were taken and not sent.
    pub fn give_back(&mut self, unused: usize) {
        #[expect(clippy::cast_precision_loss, reason = "at most 100,000")]
        let unused = unused as f64;
        self.available = (self.available + unused).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_requests_are_allowed_than_the_rate_says() {
        let start = Instant::now();
        for (count, seconds) in [(100, 1), (30, 60), (1_000, 3600), (5_000, 1)] {
            let limit = (count, Duration::from_secs(seconds));
            let (mut limiter, mut at, mut sent) = (Limiter::new(start), start, 0);
            while at < start + limit.1 {
                match limiter.take(limit, 7, at) {
                    Ok(taken) => sent += taken,
                    Err(wait) => at += wait + Duration::from_micros(1),
                }
            }
            let burst = (count / 10).max(1);
            assert!((count - 1..=count + burst).contains(&sent), "{count}: {sent}");
        }
    }

    #[test]
    fn unused_requests_are_given_back() {
        let start = Instant::now();
        let mut limiter = Limiter::new(start);
        let limit = (10, Duration::from_secs(1));
        assert_eq!(limiter.take(limit, 5, start), Ok(1));
        assert!(limiter.take(limit, 5, start).is_err());
        limiter.give_back(1);
        assert_eq!(limiter.take(limit, 5, start), Ok(1));
        assert_eq!(limiter.take((0, limit.1), 5, start), Err(limit.1));
    }
}
