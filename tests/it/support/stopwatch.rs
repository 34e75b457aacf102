//! Measures time for deadlines that the program must meet, so that a busy machine fails no test.

use std::{
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub struct Stopwatch {
    start: Instant,
    stalled: Duration,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { stalled: stalled(), start: Instant::now() }
    }

    /// Returns the time since the start, without the time for which the machine stalled.
    pub fn elapsed(&self) -> Duration {
        self.without_stalls(self.start.elapsed())
    }

    /// Returns a span since the start, without the time for which the machine stalled. A stall
    /// delays several steps of a test, so it counts more than once.
    pub fn without_stalls(&self, span: Duration) -> Duration {
        const STEPS: u32 = 4;
        span.saturating_sub(STEPS * (stalled() - self.stalled))
    }
}

/// Returns the sum of the delays of a thread that wants to wake up a hundred times a second.
fn stalled() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    static MICROS: AtomicU64 = AtomicU64::new(0);
    static TICKER: Once = Once::new();
    TICKER.call_once(|| {
        thread::spawn(|| {
            loop {
                let slept = Instant::now();
                thread::sleep(TICK); // its delay is the measure
                let late = slept.elapsed().saturating_sub(2 * TICK).as_micros();
                MICROS.fetch_add(u64::try_from(late).expect("a short time"), Ordering::Relaxed);
            }
        });
    });
    Duration::from_micros(MICROS.load(Ordering::Relaxed))
}
