//! Fuzz target of the records of Redis.

use arbitrary::Unstructured;

use super::{
    Attempt, PoolRecord, finished_record, history_text, long_body, parse_history, record, sum,
};
use crate::{
    fuzzing,
    job::{Ending, History, Job, JobId, NewJob, OnConflict, Schedule, UnixMillis},
};

/// Returns a record with its body appended, as scripts return it.
fn stored(job: &NewJob, created_at: UnixMillis) -> Vec<u8> {
    let mut text = record(job, created_at);
    text.extend(long_body(&job.body).into_iter().flatten());
    text
}

/// Checks that a job reads back as written and a damaged record is refused. A record with a sound
/// sum must be read without a panic, and read the same after it was written again.
pub fn redis_records(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(job) = fuzzing::job(&mut input) else { return };
    if let Some(ending) = &job.ending {
        finished(&mut input, &job, ending);
        return;
    }
    let new = job.unpopped();
    let text = stored(&new, job.created_at);
    let read = PoolRecord::parse(&job.id, text.clone()).expect("its own record");
    assert_eq!(new_job(&job.id, &read, new.schedule), new);
    assert_eq!(read.created_at, job.created_at);
    assert_eq!(parse_history(&job.id, history_text(&job).as_bytes()), History::of(&job));
    let attempt = Attempt::of(&job).map(|attempt| attempt.text(&new));
    if let Some(text) = &attempt {
        let read = Attempt::parse(&job.id, text).expect("its own record").expect("popped");
        let found = (read.attempt, read.reservation, read.due_at, read.error.clone());
        assert_eq!(found, (job.attempt, job.reservation, job.due_at, job.error.clone()));
        assert_eq!(read.text(&new), *text);
    }
    damaged(&mut input, &job.id, text, attempt.unwrap_or_default());
    let rest = String::from_utf8_lossy(input.take_rest()).into_owned();
    sealed(&job.id, &rest);
}

/// Checks the same of the record of a finished job.
fn finished(input: &mut Unstructured<'_>, job: &Job, ending: &Ending) {
    let mut text = finished_record(job, ending);
    text.extend(ending.result.as_ref().and_then(long_body).into_iter().flatten());
    let read = PoolRecord::parse(&job.id, text.clone()).expect("its own record");
    let fields = read.finished.expect("a finished job");
    let found = (fields.attempt, fields.due_at, fields.reservation, fields.outcome);
    assert_eq!(found, (job.attempt, job.due_at, job.reservation, ending.outcome));
    let result = Some(read.body).filter(|result| !result.is_empty());
    assert_eq!((read.created_at, result), (job.created_at, ending.result.clone()));
    assert_eq!((&read.policy, &read.topic), (&job.policy, &job.topic));
    damaged(input, &job.id, text, String::new());
}

/// Returns the job of a record; its schedule is stored elsewhere.
fn new_job(id: &JobId, record: &PoolRecord, schedule: Schedule) -> NewJob {
    NewJob {
        id: id.clone(),
        topic: record.topic.clone(),
        body: record.body.clone(),
        schedule,
        policy: record.policy.clone(),
        on_conflict: OnConflict::Reject,
    }
}

/// Reads both records with some bytes changed, or cut.
fn damaged(input: &mut Unstructured<'_>, id: &JobId, mut record: Vec<u8>, attempt: String) {
    let (whole, mut bytes) = (record.clone(), attempt.clone().into_bytes());
    for _ in 0..input.int_in_range(0..=4).unwrap_or(0) {
        let Ok((at, byte)) = input.arbitrary::<(u16, u8)>() else { break };
        for text in [&mut record, &mut bytes] {
            let length = text.len().max(1);
            if let Some(place) = text.get_mut(usize::from(at) % length) {
                *place = byte;
            }
        }
    }
    if input.ratio(1, 4).unwrap_or(false) {
        let left = |text: &[u8]| text.len() / 2;
        record.truncate(left(&record));
        bytes.truncate(left(&bytes));
    }
    let same = record == whole;
    assert_eq!(PoolRecord::parse(id, record).is_ok(), same);
    let Ok(text) = String::from_utf8(bytes) else { return };
    // The check is not a hash: it detects one changed digit, but not every change of several.
    let changed = text.bytes().zip(attempt.bytes()).filter(|(one, other)| one != other).count();
    let read = Attempt::parse(id, &text);
    // A record cut after the line feed has no error.
    let is_excused = text == attempt || changed > 1 || text.ends_with('\n');
    assert!(is_excused || matches!(read, Err(_) | Ok(None)), "{text:?}");
}

/// Reads any text as rules with a valid sum, beyond the protection of checksums.
fn sealed(id: &JobId, text: &str) {
    let (rules, body) = text.split_once('\n').unwrap_or((text, ""));
    let rules = format!("{}{rules}", sum(&[id.as_str(), " ", rules]));
    let record = format!("4 000000000000000 {rules}\n{body}").into_bytes();
    if let Ok(read) = PoolRecord::parse(id, record) {
        let new = new_job(id, &read, Schedule::At(read.created_at));
        let again = PoolRecord::parse(id, stored(&new, read.created_at));
        let again = again.expect("what was read can be written");
        assert_eq!(new_job(id, &again, new.schedule), new);
    }
    let history = format!("1 {} {text}", sum(&[id.as_str(), " ", text]));
    let read = parse_history(id, history.as_bytes());
    assert_eq!(History::parse(&read.to_string()), Some(read));
    let _ = Attempt::parse(id, &format!("{body} {rules}\n{text}"));
}
