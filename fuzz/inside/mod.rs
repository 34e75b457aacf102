//! Fuzz targets that `fuzz/` runs. Each target accepts any bytes and panics if a promise is broken.
//!
//! The library contains them only when it is built for fuzzers or tests. The targets call private
//! code, so each file is a module of the code that it tests. A unit test replays the corpus, so
//! that known faults are detected without a fuzzer.

mod values;

use std::str::FromStr;

use arbitrary::{Error, Result, Unstructured};
use bytes::Bytes;

use crate::job::{
    AttemptOutcome, Backoff, Consumer, Ending, Headers, Job, MAX_CONSUMER, MAX_DURATION,
    MAX_HISTORY, Millis, Outcome, PastAttempt, Policy, Priority, Reservation, State, Topic,
    UnixMillis, cut_error,
};

pub use self::values::{backoff, durations};
pub use crate::{
    cli::export_lines,
    http::fuzzing::{cursors, http_batch, http_put, http_requests},
    store::{
        file::{file_pages, file_records},
        redis::redis_records,
    },
};

/// Characters of names. None of them has a meaning in a stored format.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/// Returns a job that obeys the rules of stores.
pub(crate) fn job(input: &mut Unstructured<'_>) -> Result<Job> {
    let state = *input.choose(&State::ALL)?;
    let (reserved, dead) = (state == State::Reserved, state == State::Dead);
    let finished = state == State::Finished;
    let attempt = input.int_in_range(u32::from(reserved || dead)..=u32::MAX)?;
    let popped = attempt > 0;
    let expires_after = if input.arbitrary()? { Some(span(input)?) } else { None };
    let policy = Policy {
        ttr: span(input)?,
        max_attempts: input.arbitrary()?,
        backoff: if input.arbitrary()? { Some(any_backoff(input)?) } else { None },
        dead_retention: span(input)?,
        finished_retention: if input.arbitrary()? { span(input)? } else { Millis::ZERO },
        priority: Priority::new(input.int_in_range(0..=9)?).unwrap_or_default(),
        expires_after,
        expires_at: if expires_after.is_some() { Some(time(input)?) } else { None },
        dead_to: if input.arbitrary()? { Some(name(input)?) } else { None },
        dead_from: if input.arbitrary()? { Some(name(input)?) } else { None },
        scheduled_at: if input.arbitrary()? { Some(time(input)?) } else { None },
        traceparent: match input.arbitrary::<(u128, u64, u8)>()? {
            (0, ..) | (_, 0, _) => None,
            (trace, span, flags) => {
                // The specification of `traceparent` defines these flags.
                format!("00-{trace:032x}-{span:016x}-{:02x}", flags & 3).parse().ok()
            }
        },
        headers: if input.arbitrary()? { headers(input)? } else { Headers::NONE },
    };
    Ok(Job {
        id: name(input)?,
        topic: name(input)?,
        body: if finished { Bytes::new() } else { body(input)?.into() },
        state,
        attempt,
        is_snoozed: popped && !finished && input.arbitrary()?,
        due_at: time(input)?,
        created_at: time(input)?,
        ttr: if reserved { span(input)? } else { policy.ttr },
        policy,
        reservation: match popped && input.arbitrary()? {
            true => Some(Reservation::from_bits(input.int_in_range(1..=u64::MAX)?)),
            false => None,
        },
        reserved_until: if reserved { Some(time(input)?) } else { None },
        died_at: if dead { Some(time(input)?) } else { None },
        error: match popped && !finished && input.arbitrary()? {
            true => Some(input.arbitrary::<String>()?).filter(|text| !text.is_empty()),
            false => None,
        },
        ending: if finished { Some(ending(input)?) } else { None },
        consumer: if reserved && input.arbitrary()? { Some(consumer(input)?) } else { None },
        started_at: if reserved && input.arbitrary()? { Some(time(input)?) } else { None },
        history: if input.arbitrary()? { history(input)? } else { Vec::new() },
    })
}

fn ending(input: &mut Unstructured<'_>) -> Result<Ending> {
    let (at, with_result) = (time(input)?, input.arbitrary()?);
    let outcome = match with_result {
        true => Outcome::Finished,
        false => *input.choose(&[Outcome::Finished, Outcome::ResultDropped, Outcome::Deleted])?,
    };
    Ok(Ending { at, outcome, result: if with_result { Some(body(input)?.into()) } else { None } })
}

fn consumer(input: &mut Unstructured<'_>) -> Result<Consumer> {
    let name: Topic = name(input)?;
    let end = name.as_str().len().min(MAX_CONSUMER);
    name.as_str()[..end].parse().map_err(|_| Error::IncorrectFormat)
}

fn history(input: &mut Unstructured<'_>) -> Result<Vec<PastAttempt>> {
    let all = [
        AttemptOutcome::Released,
        AttemptOutcome::ReleasedUncounted,
        AttemptOutcome::TimedOut,
        AttemptOutcome::Buried,
        AttemptOutcome::Finished,
    ];
    let past = |input: &mut Unstructured<'_>| {
        let started_at = time(input)?;
        Ok(PastAttempt {
            attempt: input.arbitrary()?,
            started_at,
            ended_at: started_at.max(time(input)?),
            outcome: *input.choose(&all)?,
            error: cut_error(input.arbitrary()?),
            consumer: if input.arbitrary()? { Some(consumer(input)?) } else { None },
        })
    };
    (0..input.int_in_range(0..=MAX_HISTORY)?).map(|_| past(input)).collect()
}

fn headers(input: &mut Unstructured<'_>) -> Result<Headers> {
    let name: Topic = name(input)?;
    Ok(Headers::new(vec![(name.to_string(), "a; b\t%".to_owned())]).unwrap_or_default())
}

pub(crate) fn name<T: FromStr>(input: &mut Unstructured<'_>) -> Result<T> {
    let length = input.int_in_range(1..=128)?.min(input.len());
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte % 64)]);
    let text: String = input.bytes(length)?.iter().map(letter).collect();
    text.parse().map_err(|_| Error::IncorrectFormat)
}

fn time(input: &mut Unstructured<'_>) -> Result<UnixMillis> {
    input.int_in_range(0..=UnixMillis::LAST.get()).map(UnixMillis::new)
}

fn span(input: &mut Unstructured<'_>) -> Result<Millis> {
    input.int_in_range(1..=MAX_DURATION.get()).map(Millis::new)
}

/// Returns JSON. Some bodies are too long for a record of the job pool in Redis, which stores them
/// separately.
fn body(input: &mut Unstructured<'_>) -> Result<String> {
    let is_long = input.ratio(1, 8)?;
    let text: &str = input.arbitrary()?;
    let times = if is_long { 5000 / text.len().max(1) } else { 1 };
    Ok(serde_json::to_string(&text.repeat(times)).expect("text is JSON"))
}

fn any_backoff(input: &mut Unstructured<'_>) -> Result<Backoff> {
    let text = if input.arbitrary()? {
        let count = input.int_in_range(1..=100)?;
        let values: Result<Vec<String>> =
            (0..count).map(|_| Ok(span(input)?.get().to_string())).collect();
        format!("list:{}", values?.join(","))
    } else {
        let (initial, max) = (span(input)?.get(), span(input)?.get());
        let (factor, jitter): (f64, f64) = (input.arbitrary()?, input.arbitrary()?);
        format!("exp:{initial}:{factor}:{max}:{jitter}")
    };
    text.parse().map_err(|_| Error::IncorrectFormat)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    type Target = fn(&[u8]);

    const TARGETS: [(&str, Target); 10] = [
        ("backoff", super::backoff),
        ("cursors", super::cursors),
        ("durations", super::durations),
        ("export_lines", super::export_lines),
        ("file_pages", super::file_pages),
        ("file_records", super::file_records),
        ("http_batch", super::http_batch),
        ("http_put", super::http_put),
        ("http_requests", super::http_requests),
        ("redis_records", super::redis_records),
    ];

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let name = |entry: fs::DirEntry| {
            let path = entry.path();
            path.file_stem().expect("a name").to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
        names.sort();
        names
    }

    #[test]
    fn every_target_passes_its_corpus() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
        let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names(&fuzz.join("corpus")), known);
        assert_eq!(names(&fuzz.join("fuzz_targets")), known);
        for (name, target) in TARGETS {
            let corpus = fs::read_dir(fuzz.join("corpus").join(name)).expect("a corpus");
            let mut inputs = 0;
            for input in corpus {
                let path = input.expect("an entry").path();
                let bytes = fs::read(&path).expect("an input");
                let ran = std::panic::catch_unwind(|| target(&bytes));
                assert!(ran.is_ok(), "{}", path.display());
                inputs += 1;
            }
            assert!(inputs > 0, "the corpus of {name} is empty");
        }
    }
}
