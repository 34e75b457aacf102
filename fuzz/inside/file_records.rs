//! Fuzz target of the rows of the file store.

use std::{cell::RefCell, collections::HashMap};

use arbitrary::Unstructured;
use rusqlite::{Connection, types::Value};

use super::{Records, parse_ending, schema::tables};
use crate::{
    fuzzing,
    job::{Ending, History, Job, State, UnixMillis},
    store::file::{
        index::{Arrival, Attempt},
        machine::{ErrorText, HistoryChange, Write},
    },
};

const COLUMNS: [(&str, &str); 20] = [
    ("pool", "serial"),
    ("pool", "id"),
    ("pool", "topic"),
    ("pool", "created_at"),
    ("pool", "due_at"),
    ("pool", "policy"),
    ("pool", "body_checksum"),
    ("pool", "checksum"),
    ("pool", "body"),
    ("attempts", "serial"),
    ("attempts", "state"),
    ("attempts", "at"),
    ("attempts", "number"),
    ("attempts", "reservation"),
    ("attempts", "due_at"),
    ("attempts", "died_at"),
    ("attempts", "ttr"),
    ("attempts", "checksum"),
    ("attempts", "error"),
    ("attempts", "error_checksum"),
];

thread_local! {
    static RECORDS: RefCell<Records> = RefCell::new(in_memory());
}

fn in_memory() -> Records {
    let connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(&tables()).expect("the tables");
    connection.set_prepared_statement_cache_capacity(64);
    let file = tempfile::tempfile().expect("a file");
    Records {
        connection,
        in_transaction: false,
        quarantined: HashMap::new(),
        damaged: HashMap::new(),
        file,
    }
}

/// Checks that a job reads back as written. If a field of its rows is changed, the job must read
/// the same or be reported as damaged.
pub fn file_records(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(job) = fuzzing::job(&mut input) else { return };
    let Ok(serial) = input.int_in_range(1..=1_u64 << 40) else { return };
    RECORDS.with_borrow_mut(|records| {
        records.write(&writes(serial, &job), true).map_err(|(_, cause)| cause).expect("written");
        let loaded = load(records);
        let [arrival] = &loaded[..] else { panic!("{loaded:?}") };
        assert_eq!(arrival.serial, serial);
        check(records, arrival, &job);
        let expected = has_row(&job).then(|| attempt(&job));
        assert_eq!(arrival.attempt.as_deref(), expected.as_ref());
        if expected.is_some() {
            assert_eq!((arrival.state, arrival.at), (stored_state(job.state), job.at()));
        }
        let past = records.read_error_and_history(serial).expect("its history");
        assert_eq!((past.error, past.history), (job.error.clone(), History::from_job(&job)));
        for _ in 0..2 {
            if change_field(records, &mut input).is_err() {
                break;
            }
            let loaded = load(records);
            let is_sound = |arrival: &&Arrival| records.read(arrival.serial).is_ok();
            loaded.iter().filter(is_sound).for_each(|arrival| check(records, arrival, &job));
            loaded.iter().for_each(|arrival| drop(records.read_error_and_history(arrival.serial)));
        }
        records.roll_back();
        // Removes all rows of this job, so that the next input starts with an empty store.
        records.damaged.clear();
        records.quarantined.clear();
    });
}

fn writes(serial: u64, job: &Job) -> Vec<Write> {
    let (created_at, due_at) = (job.created_at, job.due_at);
    let mut writes = vec![Write::Insert { serial, job: job.unpopped(), created_at, due_at }];
    if let Some(Ending { outcome, result, .. }) = job.ending.clone() {
        let (at, attempt, retention) = (job.at(), attempt(job), None);
        let history = HistoryChange::restore(History::from_job(job));
        writes.push(Write::Finish { serial, at, attempt, outcome, result, retention, history });
    } else if has_row(job) {
        let (state, at, error) = (job.state, job.at(), ErrorText::Set(job.error.clone()));
        let history = HistoryChange::restore(History::from_job(job));
        writes.push(Write::Attempt { serial, state, at, attempt: attempt(job), error, history });
    }
    writes
}

fn has_row(job: &Job) -> bool {
    job.was_popped() || job.ending.is_some() || !job.history.is_empty()
}

fn attempt(job: &Job) -> Attempt {
    let ended = job.ending.as_ref().map(|ending| ending.at);
    Attempt {
        number: job.attempt,
        is_snoozed: job.is_snoozed,
        reservation: job.reservation,
        died_at: ended.or(job.died_at).unwrap_or(UnixMillis::new(0)),
        was_kicked: true,
        ..Attempt::none(job.due_at, job.ttr)
    }
}

/// Returns the state as rows store it. A ready job is stored as delayed, since its due time makes
/// it ready.
fn stored_state(state: State) -> State {
    if state == State::Ready { State::Delayed } else { state }
}

fn load(records: &mut Records) -> Vec<Arrival> {
    let mut loaded = Vec::new();
    records.load(UnixMillis::new(0), |arrival| loaded.push(arrival)).expect("loaded");
    loaded
}

/// Checks that a job reads back as written.
fn check(records: &Records, arrival: &Arrival, job: &Job) {
    assert_eq!((&arrival.id, &arrival.topic), (&job.id, &job.topic));
    assert_eq!(*arrival.policy, job.policy.clone().decisive());
    let record = records.read(arrival.serial).expect("its record");
    match &job.ending {
        None => assert_eq!(record.body, job.body),
        Some(ending) => {
            let read = parse_ending(&record.body);
            assert_eq!(read, Some((ending.outcome, ending.result.clone())));
        }
    }
    assert_eq!((record.created_at, record.policy), (job.created_at, job.policy.clone()));
}

/// Sets a field of a row to another value, if the column accepts it.
fn change_field(records: &Records, input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let (table, column) = input.choose(&COLUMNS)?;
    let value = match input.int_in_range(0..=4)? {
        0 => Value::Null,
        1 => Value::Integer(input.arbitrary()?),
        2 => Value::Real(input.arbitrary()?),
        3 => Value::Text(input.arbitrary()?),
        _ => Value::Blob(input.arbitrary()?),
    };
    let sql = format!("UPDATE {table} SET {column} = ?");
    // Fails for a value of another type, since the tables are strict.
    drop(records.run(&sql, [value]));
    Ok(())
}
