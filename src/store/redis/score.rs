//! Scores of jobs in the sets of their topics; `scripts/shared/score.lua` defines them.

use crate::job::{Policy, Priority, State, UnixMillis};

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

/// Returns the time in a score; `None` if the score is outside its range, because another program
/// wrote it.
pub fn time_of(state: State, score: f64) -> Option<UnixMillis> {
    let (lowest, end) = match state {
        State::Ready => (-5.0 * PRIORITY_STEP, 5.0 * PRIORITY_STEP),
        _ => (0.0, 1e14),
    };
    if !(lowest..end).contains(&score) {
        return None;
    }
    let time = if state == State::Ready { score.rem_euclid(PRIORITY_STEP) } else { score };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1e14")]
    Some(UnixMillis::new(time.floor() as u64))
}

/// Returns the score of a job with this policy, as text with all its digits.
pub fn score_text(state: State, time: UnixMillis, policy: &Policy) -> String {
    let time = i128::from(time.get());
    let above_standard = i128::from(policy.priority.get()) - i128::from(Priority::STANDARD.get());
    match state {
        State::Ready => (time - above_standard * (1 << 43)).to_string(),
        State::Delayed if above_standard != 0 => {
            format!("{time}.{:04}", above_standard.rem_euclid(10) * 625)
        }
        State::Dead if above_standard != 0 || policy.expires_after.is_some() => format!("{time}.5"),
        _ => time.to_string(),
    }
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
    fn a_score_has_the_time_of_its_job() {
        for priority in Priority::from_highest() {
            let policy = Policy { priority, ..Policy::STANDARD };
            for time in [0, 1_763_690_060_000, (1 << 43) - 1].map(UnixMillis::new) {
                for state in [State::Delayed, State::Ready, State::Reserved, State::Dead] {
                    let score: f64 = score_text(state, time, &policy).parse().expect("a score");
                    assert_eq!(time_of(state, score), Some(time), "{state:?} {priority}");
                }
                let ready = score_text(State::Ready, time, &policy).parse().expect("a score");
                assert_eq!(priority_of_ready(ready), priority);
            }
        }
        assert_eq!(time_of(State::Ready, 1e14), None);
        assert_eq!(time_of(State::Dead, -1.0), None);
    }

    #[test]
    fn any_number_is_some_priority() {
        for score in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e300, 1e300] {
            assert!(priority_of_ready(score) <= Priority::MAX, "{score}");
        }
    }
}
