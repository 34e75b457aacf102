use super::*;

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;
const START: u64 = 1_800_000_000 * SECOND;

/// Greatest age of a reading when it arrives, in microseconds.
const SLACK: i64 = 1_000;

/// A watch of one clock, read at chosen seconds after its first reading.
struct Case {
    watch: ClockWatch,
    begin: Instant,
}

impl Case {
    fn new() -> Self {
        let case = Self { watch: ClockWatch::new(1), begin: Instant::now() };
        assert_eq!(case.watch.believed(0), None, "nothing is known before the first reading");
        case.read(0, START);
        case
    }

    fn after(&self, seconds: u64) -> Instant {
        self.begin + Duration::from_secs(seconds)
    }

    fn read(&self, seconds: u64, micros: u64) -> i64 {
        let slack = Duration::from_micros(SLACK.cast_unsigned());
        self.watch.take(0, Reading { micros, at: self.after(seconds), slack })
    }

    /// Returns the seconds from `START` to the latest time.
    fn latest(&self, seconds: u64) -> u64 {
        let believed = self.watch.believed_at(0, self.after(seconds)).expect("a reading");
        (believed.latest.get() * 1_000 - START) / SECOND
    }

    /// Returns the seconds from `START` to the expected time.
    fn expected(&self, seconds: u64) -> u64 {
        let believed = self.watch.believed_at(0, self.after(seconds)).expect("a reading");
        (believed.expected.get() * 1_000 - START) / SECOND
    }
}

#[test]
fn a_steady_clock_is_followed_and_small_steps_are_not_jumps() {
    let case = Case::new();
    assert_eq!(case.read(10, START + 12 * SECOND), (2 * SECOND).cast_signed() + SLACK);
    assert_eq!(case.watch.jumps(), ClockJumps::default());
    assert_eq!(case.latest(10), 12 + TOLERANCE.as_secs());
}

#[test]
fn an_old_reading_never_makes_a_jump_smaller() {
    let case = Case::new();
    case.read(10, START + 10 * SECOND);
    for (back, ago) in [(DAY, 500), (DAY, 0), (2 * DAY, 30)] {
        // The process was delayed by `slack` after the reading.
        let slack = Duration::from_millis(ago);
        let before = START + 10 * SECOND;
        let micros = before - back;
        let reading = Reading { micros, at: case.after(10) + slack, slack };
        let by = case.watch.take(0, reading);
        assert!((0..=1_000_000).contains(&(by + back.cast_signed())), "{by}");
        case.read(10, before);
    }
}

#[test]
fn a_clock_that_is_set_back_is_followed_at_once() {
    let case = Case::new();
    let ahead = 120 * SECOND;
    for seconds in [10, 40, 75] {
        case.read(seconds, START + seconds * SECOND + ahead);
    }
    assert_eq!(case.expected(75), 75 + 120, "the clock has been steady for a minute");
    case.read(76, START + 76 * SECOND);
    assert_eq!(case.latest(77), 77, "no tolerance right after a jump");
    case.read(77, START + 77 * SECOND + DAY);
    assert_eq!(case.latest(78), 78);
    case.read(79, START + 79 * SECOND);
    assert_eq!(case.latest(80), 80, "the clock is right again");
}

#[test]
fn a_jump_before_the_next_reading_gains_at_most_the_tolerance() {
    let case = Case::new();
    assert_eq!(case.latest(20), 20 + TOLERANCE.as_secs());
    assert_eq!(case.expected(20), 20, "the tolerance makes no job early");
}

#[test]
fn the_old_clock_counts_until_the_new_one_is_steady() {
    let case = Case::new();
    case.read(10, START + 10 * SECOND);
    assert_eq!(case.read(11, START + 11 * SECOND + DAY), DAY.cast_signed() + SLACK);
    assert_eq!(case.watch.jumps(), ClockJumps { count: 1, unsteady: true });
    assert_eq!(case.latest(50), 50);
    case.read(50, START + 50 * SECOND + DAY);
    assert_eq!(case.latest(50), 50);
    case.read(72, START + 72 * SECOND + DAY);
    assert_eq!(case.latest(72), 86_400 + 72 + TOLERANCE.as_secs());
    assert_eq!(case.watch.jumps().count, 1);
}

#[test]
fn a_jump_and_its_reversal_count_twice_and_make_no_job_early() {
    let case = Case::new();
    case.read(10, START + 10 * SECOND);
    case.read(11, START + 11 * SECOND + DAY);
    case.read(12, START + 12 * SECOND);
    assert_eq!(case.watch.jumps().count, 2);
    assert_eq!(case.latest(30), 30);
}

#[test]
fn buckets_that_notice_the_same_jump_count_it_once() {
    let watch = ClockWatch::new(2);
    let at = Instant::now();
    let read = |source, seconds: u64, micros| {
        let at = at + Duration::from_secs(seconds);
        watch.take(source, Reading { micros, at, slack: Duration::ZERO })
    };
    for source in [0, 1] {
        read(source, 0, START);
        read(source, 1, START + DAY + SECOND);
    }
    assert_eq!(watch.jumps().count, 1);
}

#[test]
fn a_difference_that_latency_explains_is_not_a_jump() {
    let case = Case::new();
    let slack = Duration::from_secs(9);
    let reading = Reading { micros: START + 2 * SECOND, at: case.after(10), slack };
    assert_eq!(case.watch.take(0, reading), 0);
    assert_eq!(case.watch.jumps().count, 0);
}
