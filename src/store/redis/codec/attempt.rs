//! Attempt records; `codec.rs` defines their form.

use super::{error_text, history::MARK, is_sound, parse_error, rules};
use crate::{
    job::{History, Job, JobId, Millis, NewJob, Reservation, State, UnixMillis},
    store::StoreError,
};

/// Mark of a job that a consumer popped and gave back uncounted while it had no counted attempt.
const SNOOZED: &str = "s";

/// Bytes of most attempt records before their rules.
const NUMBERS_ROOM: usize = 80;

/// Prime that divides the sum of an attempt record; the remainder is its check.
const MODULUS: u64 = 2_147_483_647;

/// Attempt record, without its rules.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub attempt: u32,
    /// Whether the job may have a history.
    pub has_history: bool,
    /// Whether a consumer gave the job back uncounted while it had no counted attempt.
    pub is_snoozed: bool,
    pub reservation: Option<Reservation>,
    pub due_at: UnixMillis,
    pub died_at: UnixMillis,
    pub ttr: Millis,
    pub error: Option<String>,
}

impl Attempt {
    /// Parses the attempt record of the job `id`; returns `None` before the first pop, and after a
    /// kick.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn parse(id: &JobId, text: &str) -> Result<Option<Self>, StoreError> {
        if text.is_empty() || text == MARK {
            return Ok(None);
        }
        let damaged = || StoreError::damaged("attempt record that is damaged");
        Self::parse_verified(id, text).ok_or_else(damaged).map(Some)
    }

    /// Parses a record and verifies its checksums; returns `None` if it is damaged.
    fn parse_verified(id: &JobId, text: &str) -> Option<Self> {
        let (header, error) = text.split_once('\n')?;
        let (found, rules) = Self::parse_header(header)?;
        is_sound(id, rules).then_some(())?;
        Some(Self { error: parse_error(error).ok()?, ..found })
    }

    /// Parses a record and verifies the check of its numbers. Also returns the rules in it,
    /// unverified. A damaged error is left out.
    pub fn parse_numbers(text: &str) -> Option<(Self, &str)> {
        let (header, error) = text.split_once('\n').unwrap_or((text, ""));
        let (found, rules) = Self::parse_header(header)?;
        Some((Self { error: parse_error(error).unwrap_or_default(), ..found }, rules))
    }

    fn parse_header(header: &str) -> Option<(Self, &str)> {
        let mut fields = header.splitn(7, ' ');
        let mut field = || fields.next();
        let (own, attempt, reservation) = (field()?, field()?, field()?);
        let (due_at, died_at, ttr, rules) = (field()?, field()?, field()?, field()?);
        let marked = attempt.strip_suffix(SNOOZED).unwrap_or(attempt);
        let number = marked.strip_suffix(MARK).unwrap_or(marked);
        let found = Self {
            attempt: number.parse().ok()?,
            has_history: number.len() < marked.len(),
            is_snoozed: marked.len() < attempt.len(),
            reservation: match reservation {
                "-" => None,
                reservation => Some(reservation.parse().ok()?),
            },
            due_at: due_at.parse().map(UnixMillis::new).ok()?,
            died_at: died_at.parse().map(UnixMillis::new).ok()?,
            ttr: ttr.parse().map(Millis::new).ok()?,
            error: None,
        };
        (own.parse() == Ok(found.check())).then_some((found, rules))
    }

    /// Returns the attempt of a job from another store; `None` before its first pop, unless it has
    /// expired or kept the error with which it died in another topic.
    pub fn from_job(job: &Job) -> Option<Self> {
        let has_record = job.was_popped() || job.state == State::Dead || job.error.is_some();
        has_record.then(|| Self {
            attempt: job.attempt,
            has_history: !History::from_job(job).is_empty(),
            is_snoozed: job.is_snoozed,
            reservation: job.reservation,
            due_at: job.due_at,
            died_at: job.died_at.unwrap_or(UnixMillis::new(0)),
            ttr: if job.state == State::Reserved { job.ttr } else { job.policy.ttr },
            error: job.error.clone(),
        })
    }

    /// Formats the attempt record of a job from another store; empty if it has none.
    pub fn text_of(job: &Job, put: &NewJob) -> String {
        match Self::from_job(job) {
            Some(attempt) => attempt.text(&rules(put)),
            None if History::from_job(job).is_empty() => String::new(),
            None => MARK.to_owned(),
        }
    }

    /// Formats the attempt record of a job with these rules.
    pub fn text(&self, rules: &str) -> String {
        let error = error_text(self.error.as_deref());
        let mut digits = itoa::Buffer::new();
        let mut text = String::with_capacity(NUMBERS_ROOM + rules.len() + error.len());
        text.extend([digits.format(self.check()), " "]);
        text.push_str(digits.format(self.attempt));
        text.extend(Some(MARK).filter(|_| self.has_history));
        text.extend(Some(SNOOZED).filter(|_| self.is_snoozed));
        match self.reservation {
            None => text.push_str(" -"),
            Some(reservation) => text.extend([" ", &reservation.to_string()]),
        }
        for number in [self.due_at.get(), self.died_at.get(), self.ttr.get()] {
            text.extend([" ", digits.format(number)]);
        }
        text.extend([" ", rules, "\n", &error]);
        text
    }

    /// Computes the same checksum as `attempt_checksum` in `shared/prelude.lua`. A change of one
    /// digit always changes the checksum.
    fn check(&self) -> u64 {
        let reservation = self.reservation.map_or(0, Reservation::bits);
        let terms = [
            (u64::from(self.attempt), 3),
            (reservation >> 36, 5),
            (reservation >> 12 & 0xff_ffff, 7),
            (reservation & 0xfff, 11),
            (self.due_at.get(), 13),
            (self.died_at.get(), 17),
            (self.ttr.get(), 19),
        ];
        terms.into_iter().map(|(n, weight)| n % MODULUS * weight).sum::<u64>() % MODULUS
    }
}
