//! The stored form of a history. Each store adds its own checksum and version. Persisted: must stay
//! stable, or both versions must be raised.
//!
//! The first line is the running attempt: `<reservation or -> <started at or -> <consumer or !>`.
//! Each entry follows as `<attempt> <started at> <ended at> <letter of the outcome> <consumer or !>
//! <bytes of the error> <error>` and a line feed. An error may contain line feeds. Times are in
//! Unix milliseconds. `store/redis/scripts/shared/history.lua` reads and writes the hold.

use std::fmt::{self, Write};

use super::{AttemptOutcome, History, Hold, MAX_HISTORY, PastAttempt, cut_error};
use crate::job::{Consumer, UnixMillis};

const LETTERS: [(AttemptOutcome, char); 5] = [
    (AttemptOutcome::Released, 'r'),
    (AttemptOutcome::ReleasedUncounted, 'u'),
    (AttemptOutcome::TimedOut, 'e'),
    (AttemptOutcome::Buried, 'b'),
    (AttemptOutcome::Finished, 'f'),
];

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hold {
            None => f.write_str("- - !\n")?,
            Some(Hold { reservation, started_at, consumer }) => {
                write!(f, "{reservation} ")?;
                match started_at {
                    None => f.write_char('-')?,
                    Some(at) => f.write_str(itoa::Buffer::new().format(at.get()))?,
                }
                writeln!(f, " {}", name(consumer.as_ref()))?;
            }
        }
        self.attempts.iter().try_for_each(|attempt| entry(f, attempt))
    }
}

fn entry(f: &mut fmt::Formatter<'_>, past: &PastAttempt) -> fmt::Result {
    let letter = LETTERS.iter().find(|(known, _)| *known == past.outcome).map_or('r', |(_, l)| *l);
    let mut digits = itoa::Buffer::new();
    for number in [u64::from(past.attempt), past.started_at.get(), past.ended_at.get()] {
        f.write_str(digits.format(number))?;
        f.write_char(' ')?;
    }
    f.write_char(letter)?;
    let error = past.error.as_deref().unwrap_or("");
    for word in [name(past.consumer.as_ref()), digits.format(error.len()), error] {
        f.write_char(' ')?;
        f.write_str(word)?;
    }
    f.write_char('\n')
}

/// Returns the stored name of a consumer: `!` if it gave none, since `!` is not a valid name.
fn name(consumer: Option<&Consumer>) -> &str {
    consumer.map_or("!", Consumer::as_str)
}

impl History {
    /// Parses a text whose checksum was verified; returns `None` if it does not have this form.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, mut rest) = text.split_once('\n')?;
        let mut history = Self { hold: hold(first)?, attempts: Vec::new() };
        while !rest.is_empty() {
            let (attempt, behind) = past_attempt(rest)?;
            history.attempts.push(attempt);
            rest = behind;
        }
        (history.attempts.len() <= MAX_HISTORY).then_some(history)
    }
}

fn hold(line: &str) -> Option<Option<Hold>> {
    let mut fields = line.split(' ');
    let (reservation, started, name) = (fields.next()?, fields.next()?, fields.next()?);
    if fields.next().is_some() {
        return None;
    }
    let started_at = match started {
        "-" => None,
        started => Some(time(started)?),
    };
    let consumer = consumer(name)?;
    match reservation {
        "-" => Some(None),
        held => Some(Some(Hold { reservation: held.parse().ok()?, started_at, consumer })),
    }
}

/// Parses an entry; also returns the text after it.
fn past_attempt(text: &str) -> Option<(PastAttempt, &str)> {
    let mut fields = text.splitn(7, ' ');
    let mut field = || fields.next();
    let (attempt, started, ended) = (field()?, field()?, field()?);
    let (letter, name, length, rest) = (field()?, field()?, field()?, field()?);
    let length: usize = length.parse().ok()?;
    let (error, rest) = rest.split_at_checked(length)?;
    let past = PastAttempt {
        attempt: attempt.parse().ok()?,
        started_at: time(started)?,
        ended_at: time(ended)?,
        outcome: LETTERS.iter().find(|(_, l)| letter.parse() == Ok(*l)).map(|(known, _)| *known)?,
        error: cut_error(error),
        consumer: consumer(name)?,
    };
    Some((past, rest.strip_prefix('\n')?))
}

fn consumer(name: &str) -> Option<Option<Consumer>> {
    if name == "!" { Some(None) } else { name.parse().ok().map(Some) }
}

fn time(text: &str) -> Option<UnixMillis> {
    text.parse().ok().map(UnixMillis::new)
}

#[cfg(test)]
mod tests;
