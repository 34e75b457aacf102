//! Waits for conditions that no event reports.

use std::{
    fmt::Debug,
    sync::OnceLock,
    time::{Duration, Instant},
};

pub const PAUSE: Duration = Duration::from_millis(10);

/// Returns the time for which a test waits for a condition: two minutes, multiplied by the factor
/// in the environment variable `TEST_PATIENCE`. Slow or busy machines need a factor above 1.
pub fn patience() -> Duration {
    scaled(Duration::from_secs(120))
}

/// Multiplies a time limit that depends on the machine's speed by the factor in `TEST_PATIENCE`.
pub fn scaled(span: Duration) -> Duration {
    static FACTOR: OnceLock<f64> = OnceLock::new();
    let factor = FACTOR.get_or_init(|| {
        let given = std::env::var("TEST_PATIENCE").unwrap_or_else(|_| "1".to_owned());
        let factor = given.parse().ok().filter(|factor| (0.1..=1000.0).contains(factor));
        factor.unwrap_or_else(|| panic!("TEST_PATIENCE is a factor such as 3, not {given:?}"))
    });
    span.mul_f64(*factor)
}

/// Repeats `ask` until `holds` returns true for its result, and returns this result.
pub async fn until<T: Debug>(mut ask: impl AsyncFnMut() -> T, holds: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + patience();
    loop {
        let answer = ask().await;
        if holds(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "still {answer:?}");
        tokio::time::sleep(PAUSE).await; // no event reports it
    }
}

/// Checks a condition, which may await, until it holds. The other arguments are a message as in
/// `assert!`, for a failure after [`patience`](patience::patience).
macro_rules! eventually {
    ($holds:expr, $($message:tt)+) => {
        eventually!(@ tokio::time::sleep($crate::support::patience::PAUSE).await, $holds, $($message)+)
    };
    (@ $pause:expr, $holds:expr, $($message:tt)+) => {{
        let end = std::time::Instant::now() + $crate::support::patience::patience();
        while !$holds {
            assert!(std::time::Instant::now() < end, $($message)+);
            $pause;
        }
    }};
}

/// Like `eventually!`, for tests that are not asynchronous.
macro_rules! eventually_blocking {
    ($holds:expr, $($message:tt)+) => {
        eventually!(@ std::thread::sleep($crate::support::patience::PAUSE), $holds, $($message)+)
    };
}
