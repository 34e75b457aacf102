//! Errors of handlers that decide about the job.

use std::{any::Any, error::Error, time::Duration};

use super::handler::Outcome;

/// Any error that a handler may return.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Longest text of an error that the server takes.
const MAX_BYTES: usize = 4096;

/// Error of a handler that makes the job dead, without further attempts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Bury(String);

impl Bury {
    /// Returns the error with a reason, which the server stores with the job.
    pub fn new(reason: impl Into<String>) -> Self {
        Bury(reason.into())
    }
}

/// Error of a handler that gives the job back for later, without counting the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("snoozed for {0:?}")]
pub struct Snooze(Duration);

impl Snooze {
    /// Returns the error with the time until the next attempt.
    pub fn new(delay: Duration) -> Self {
        Snooze(delay)
    }
}

/// Returns the outcome of a handler that returned an error.
pub(super) fn outcome<E: Into<BoxError> + 'static>(error: E) -> Outcome {
    #[cfg(feature = "anyhow")]
    if let Some(error) = (&error as &dyn Any).downcast_ref::<anyhow::Error>() {
        // As a BoxError, it would hide the type of what it contains.
        return match (error.downcast_ref::<Bury>(), error.downcast_ref::<Snooze>()) {
            (Some(bury), _) => Outcome::Bury(cut(bury.0.clone())),
            (_, Some(snooze)) => Outcome::Snooze(snooze.0),
            _ => Outcome::Release(cut(format!("{error:#}"))),
        };
    }
    let error: BoxError = error.into();
    let mut text = String::new();
    let mut next: Option<&(dyn Error + 'static)> = Some(&*error);
    while let Some(error) = next {
        if let Some(bury) = error.downcast_ref::<Bury>() {
            return Outcome::Bury(cut(bury.0.clone()));
        }
        if let Some(snooze) = error.downcast_ref::<Snooze>() {
            return Outcome::Snooze(snooze.0);
        }
        let message = error.to_string();
        // Many errors repeat their source.
        if text.is_empty() {
            text = message;
        } else if !text.ends_with(&message) {
            text = format!("{text}: {message}");
        }
        next = error.source();
    }
    Outcome::Release(cut(text))
}

/// Returns the outcome of a handler that panicked.
pub(super) fn panicked(payload: &(dyn Any + Send)) -> Outcome {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with a value that is no text");
    Outcome::Release(cut(format!("the handler panicked: {text}")))
}

/// Shortens a text to what the server takes.
pub(super) fn cut(mut text: String) -> String {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the shop does not answer")]
    struct Shop(#[source] BoxError);

    fn shop(cause: impl Into<BoxError>) -> Outcome {
        outcome(Shop(cause.into()))
    }

    #[test]
    fn an_error_releases_with_the_texts_of_its_causes() {
        let expected = "the shop does not answer: timeout".to_owned();
        assert_eq!(shop("timeout"), Outcome::Release(expected.clone()));
        let error = anyhow::anyhow!("timeout").context("the shop does not answer");
        assert_eq!(outcome(error), Outcome::Release(expected));
    }

    #[test]
    fn bury_and_snooze_are_found_inside_other_errors() {
        let bury = Outcome::Bury("no such shop".into());
        assert_eq!(outcome(Bury::new("no such shop")), bury);
        assert_eq!(shop(Bury::new("no such shop")), bury);
        assert_eq!(outcome(anyhow::Error::from(Bury::new("no such shop"))), bury);
        assert_eq!(outcome(anyhow::Error::from(Bury::new("no such shop")).context("shop")), bury);
        let snooze = Outcome::Snooze(Duration::from_secs(7));
        assert_eq!(outcome(BoxError::from(Snooze::new(Duration::from_secs(7)))), snooze);
        assert_eq!(shop(Snooze::new(Duration::from_secs(7))), snooze);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let Outcome::Release(text) = outcome(format!("x{}", "é".repeat(5000))) else {
            panic!("another outcome")
        };
        assert_eq!(text.len(), 4095);
    }
}
