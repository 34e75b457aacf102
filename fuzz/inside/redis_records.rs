//! Fuzz target of the records of Redis.

use arbitrary::Unstructured;

use super::{
    Attempt, PoolRecord, finished_header, history_text, parse_history, record_header, rules,
    separate_history, sum,
};
use crate::{
    fuzzing,
    job::{Ending, History, Job, JobId, NewJob, OnConflict, Schedule, UnixMillis},
};

/// Returns the record of a job, with its body appended as scripts do.
pub fn stored(job: &NewJob, created_at: UnixMillis) -> Vec<u8> {
    [&record_header(job, created_at)[..], b"\n", &job.body].concat()
}

/// Returns the record of a finished job, with its result appended as scripts do.
pub fn stored_finished(job: &Job, ending: &Ending) -> Vec<u8> {
    let result = ending.result.as_deref().unwrap_or_default();
    [&finished_header(job, ending)[..], b"\n", result].concat()
}

/// Checks that a job reads back as written, and that a damaged record is refused. Reading any text
/// with a valid checksum must not panic, and writing the result again must give the same text.
pub fn redis_records(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(job) = fuzzing::job(&mut input) else { return };
    if let Some(ending) = &job.ending {
        check_finished(&mut input, &job, ending);
        return;
    }
    let new = job.unpopped();
    let text = stored(&new, job.created_at);
    let read = PoolRecord::parse(&job.id, text.clone()).expect("its own record");
    assert_eq!(new_job(&job.id, &read, new.schedule), new);
    assert_eq!(read.created_at, job.created_at);
    assert_eq!(parse_history(&job.id, history_text(&job).as_bytes()), History::from_job(&job));
    let attempt = Attempt::from_job(&job).map(|attempt| attempt.text(&rules(&new)));
    if let Some(text) = &attempt {
        let read = Attempt::parse(&job.id, text).expect("its own record").expect("popped");
        let found = (read.attempt, read.reservation, read.due_at, read.error.clone());
        assert_eq!(found, (job.attempt, job.reservation, job.due_at, job.error.clone()));
        assert_eq!(read.text(&rules(&new)), *text);
    }
    check_damaged(&mut input, &job.id, text, attempt.unwrap_or_default());
    let rest = String::from_utf8_lossy(input.take_rest()).into_owned();
    check_any_text(&job.id, &rest);
}

/// Checks that the record of a finished job reads back as written.
fn check_finished(input: &mut Unstructured<'_>, job: &Job, ending: &Ending) {
    let text = stored_finished(job, ending);
    let read = PoolRecord::parse(&job.id, text.clone()).expect("its own record");
    let fields = read.finished.expect("a finished job");
    let found = (fields.attempt, fields.due_at, fields.reservation, fields.outcome);
    assert_eq!(found, (job.attempt, job.due_at, job.reservation, ending.outcome));
    let beside = parse_history(&job.id, separate_history(job, ending).as_bytes());
    assert_eq!(fields.history(ending.at).unwrap_or(beside), History::from_job(job));
    let result = Some(read.body).filter(|result| !result.is_empty());
    assert_eq!((read.created_at, result), (job.created_at, ending.result.clone()));
    assert_eq!((&read.policy, &read.topic), (&job.policy, &job.topic));
    check_damaged(input, &job.id, text, String::new());
}

/// Returns the job of a record, which does not contain the schedule.
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

/// Changes some bytes of both records, or cuts them, and checks that the damage is detected.
fn check_damaged(input: &mut Unstructured<'_>, id: &JobId, mut record: Vec<u8>, attempt: String) {
    let (whole, mut bytes) = (record.clone(), attempt.clone().into_bytes());
    for _ in 0..input.int_in_range(0..=4).unwrap_or(0) {
        let Ok((at, byte)) = input.arbitrary::<(u16, u8)>() else { break };
        for text in [&mut record, &mut bytes] {
            let length = text.len().max(1);
            if let Some(target) = text.get_mut(usize::from(at) % length) {
                *target = byte;
            }
        }
    }
    if input.ratio(1, 4).unwrap_or(false) {
        let half = |text: &[u8]| text.len() / 2;
        record.truncate(half(&record));
        bytes.truncate(half(&bytes));
    }
    let is_unchanged = record == whole;
    assert_eq!(PoolRecord::parse(id, record).is_ok(), is_unchanged);
    let Ok(text) = String::from_utf8(bytes) else { return };
    // The check digits detect one changed digit, but not always several, since they are no hash.
    let changed = text.bytes().zip(attempt.bytes()).filter(|(one, other)| one != other).count();
    let read = Attempt::parse(id, &text);
    // A record cut after the line feed has no error.
    let is_excused = text == attempt || changed > 1 || text.ends_with('\n');
    assert!(is_excused || matches!(read, Err(_) | Ok(None)), "{text:?}");
}

/// Reads any text as rules with a valid checksum, as if the checksum had not detected the damage.
fn check_any_text(id: &JobId, text: &str) {
    let (rules, body) = text.split_once('\n').unwrap_or((text, ""));
    let rules = format!("{}{rules}", sum(&[id.as_str(), " ", rules]));
    let record = format!("4 000000000000000 {rules}\n{body}").into_bytes();
    if let Ok(read) = PoolRecord::parse(id, record) {
        let new = new_job(id, &read, Schedule::At(read.created_at));
        let rewritten = PoolRecord::parse(id, stored(&new, read.created_at));
        let rewritten = rewritten.expect("a rewritten record");
        assert_eq!(new_job(id, &rewritten, new.schedule), new);
    }
    let history = format!("1 {} {text}", sum(&[id.as_str(), " ", text]));
    let read = parse_history(id, history.as_bytes());
    assert_eq!(History::parse(&read.to_string()), Some(read));
    let _ = Attempt::parse(id, &format!("{body} {rules}\n{text}"));
}
