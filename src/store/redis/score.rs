//! Scores of ready jobs; `scripts/shared/score.lua` defines them.

use crate::job::Priority;

/// Distance between two priorities. Mirrored in `shared/score.lua`.
const PRIORITY_STEP: f64 = 8_796_093_022_208.0;

/// Returns the priority in the score of a ready job. Accepts any number, because another program
/// may have written the score.
pub fn priority_of_ready(score: f64) -> Priority {
    let steps = (score / PRIORITY_STEP).floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 9")]
    let number = (f64::from(Priority::STANDARD.get()) - steps).clamp(0.0, 9.0) as u8;
    Priority::new(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_has_the_priority_of_its_job() {
        for priority in Priority::from_highest() {
            let steps = 4 - i64::from(priority.get());
            for time in [0, 1_763_690_060_000, (1 << 43) - 1] {
                #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
                let score = (time + steps * (1 << 43)) as f64;
                assert_eq!(priority_of_ready(score), priority, "{time}");
            }
        }
    }

    #[test]
    fn any_number_is_some_priority() {
        for score in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e300, 1e300] {
            assert!(priority_of_ready(score) <= Priority::MAX, "{score}");
        }
    }
}
