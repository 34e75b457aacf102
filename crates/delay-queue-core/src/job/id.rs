//! Job ids, given by clients or generated.

use std::sync::atomic::{AtomicU64, Ordering};

use super::time::UnixMillis;
use crate::name;

name! {
    /// The id of a job: `[A-Za-z0-9._:-]{1,128}`, except `.` and `..`.
    JobId, b"._:-", "A-Z a-z 0-9 . _ : -"
}

/// Generator of ids for jobs without one: positive 63-bit numbers in decimal, growing with time.
///
/// 42 bits of Unix milliseconds (until the year 2109), then 21 bits that start at random in each
/// millisecond and count up. Rarely, two servers generate the same id; the store refuses the second
/// put like any other duplicate, and the queue then generates another id. Uniqueness rests on the
/// store's check, never on this clock.
#[derive(Debug, Default)]
pub struct IdMaker {
    last: AtomicU64,
}

impl IdMaker {
    /// Bits below those of the millisecond.
    const LOW_BITS: u32 = 21;

    /// Returns the next id that `fits`, greater than all earlier ones of this generator even if
    /// `now` went back. Tries one number after another.
    pub fn next(&self, now: UnixMillis, random: u32, fits: impl Fn(&JobId) -> bool) -> JobId {
        let low = u64::from(random) & ((1 << Self::LOW_BITS) - 1);
        let fresh = ((now.get() << Self::LOW_BITS) | low) & (u64::MAX >> 1);
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let same_millisecond = last >> Self::LOW_BITS >= fresh >> Self::LOW_BITS;
            let first = if same_millisecond { last + 1 } else { fresh };
            let (number, id) = (first..)
                .map(|number| (number, JobId(itoa::Buffer::new().format(number).into())))
                .find(|(_, id)| fits(id))
                .expect("every bucket has ids that are 63-bit numbers");
            match self.last.compare_exchange_weak(
                last,
                number,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return id,
                Err(now_last) => last = now_last,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_ids_are_positive_and_grow_also_when_the_clock_goes_back() {
        let maker = IdMaker::default();
        let times = [1_763_690_000_000, 1_763_690_000_000, 1_763_690_000_005, 1_763_680_000_000];
        let ids: Vec<i64> = times
            .iter()
            .map(|&at| maker.next(UnixMillis::new(at), u32::MAX, |_| true))
            .map(|id| id.as_str().parse().expect("a made id is a decimal 64-bit number"))
            .collect();
        assert!(ids[0] > 0);
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        let made_at = |id: i64| id.unsigned_abs() >> IdMaker::LOW_BITS;
        assert_eq!([made_at(ids[0]), made_at(ids[2])], [times[0], times[2]]);
    }

    #[test]
    fn ids_with_other_characters_are_refused_with_a_reason() {
        let long = "a".repeat(129);
        for text in ["", ".", "..", "a/b", "a{b}", "a\0b", "ä", "a b", "%61", long.as_str()] {
            let error = text.parse::<JobId>().expect_err(text);
            assert!(error.to_string().contains("1 to 128 characters of A-Z"), "{error}");
        }
        for text in ["a", "...", "A-z.0_9:", &"a".repeat(128)] {
            assert_eq!(text.parse::<JobId>().expect(text).as_str(), text);
        }
    }
}
