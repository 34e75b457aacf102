use bytes::Bytes;
use proptest::{option, prelude::*};

use super::{super::fuzzing::stored_finished, *};
use crate::job::State;

const CREATED: u64 = 1_763_690_000_000;

fn at(seconds: u64) -> UnixMillis {
    UnixMillis::new(CREATED + seconds * 1_000)
}

/// Returns a job that was due 2 s after its put, popped a second later, and finished after another.
fn job() -> (Job, Ending) {
    let past = PastAttempt {
        attempt: 1,
        started_at: at(3),
        ended_at: at(4),
        outcome: AttemptOutcome::Finished,
        error: None,
        consumer: None,
    };
    let policy: Policy = "t=5000;f=30d".parse().expect("a policy");
    let ending = Ending { at: at(4), outcome: Outcome::Finished, result: None };
    let job = Job {
        id: "a".parse().expect("an id"),
        topic: "t".parse().expect("a topic"),
        body: Bytes::new(),
        state: State::Finished,
        attempt: 1,
        is_snoozed: false,
        due_at: at(2),
        created_at: at(0),
        ttr: policy.ttr,
        policy,
        reservation: Some(Reservation::from_bits(0x1234_5678_9abc_def0)),
        reserved_until: None,
        died_at: None,
        error: None,
        ending: Some(ending.clone()),
        consumer: None,
        started_at: None,
        history: vec![past],
    };
    (job, ending)
}

fn fields(job: &Job, ending: &Ending) -> FinishedFields {
    let record = PoolRecord::parse(&job.id, stored_finished(job, ending)).expect("its own record");
    record.finished.expect("a finished job")
}

#[test]
fn records_are_pinned_since_stored_jobs_are_read_by_them() {
    let (job, ending) = job();
    let result = Some(Bytes::from("[1]"));
    let never = Job { attempt: 0, reservation: None, history: Vec::new(), ..job.clone() };
    let deleted = Ending { outcome: Outcome::Deleted, ..ending.clone() };
    let pinned: [&[u8]; 3] = [
        b"6\x0c\x04\x27\xfd\x01\x9a\xa4\x1d\xae\x80\x12\x34\x56\x78\x9a\xbc\xde\xf0 t=5000;f=30d t f1 2000 1000\n",
        b"6\x6a\xea\xc8\x8b\x01\x9a\xa4\x1d\xae\x80\x12\x34\x56\x78\x9a\xbc\xde\xf04c2f32b8:3 t=5000;f=30d t f1 2000 1000\n[1]",
        b"6\x52\x52\x71\xe8\x01\x9a\xa4\x1d\xae\x80\0\0\0\0\0\0\0\0 t=5000;f=30d t d0 2000 \n",
    ];
    let records = [
        stored_finished(&job, &ending),
        stored_finished(&job, &Ending { result, ..ending.clone() }),
        stored_finished(&never, &deleted),
    ];
    for (record, pinned) in records.iter().zip(pinned) {
        assert_eq!(record.escape_ascii().to_string(), pinned.escape_ascii().to_string());
    }
}

#[test]
fn a_history_that_does_not_follow_from_the_record_is_beside_it() {
    let (job, ending) = job();
    assert_eq!(separate_history(&job, &ending), "");
    let change = |change: fn(&mut PastAttempt)| {
        let mut job = job.clone();
        change(&mut job.history[0]);
        job
    };
    let others = [
        Job { history: vec![job.history[0].clone(); 2], ..job.clone() },
        change(|past| past.attempt = 2),
        change(|past| past.outcome = AttemptOutcome::TimedOut),
        change(|past| past.ended_at = at(5)),
        change(|past| past.error = Some("x".to_owned())),
    ];
    for other in others {
        assert_eq!(separate_history(&other, &ending), history_text(&other), "{:?}", other.history);
        assert_eq!(fields(&other, &ending).history(ending.at), None);
    }
}

#[test]
fn a_changed_byte_of_a_record_is_noticed_wherever_it_is() {
    let (job, ending) = job();
    let whole = stored_finished(&job, &Ending { result: Some("[1]".into()), ..ending });
    assert!(PoolRecord::parse(&job.id, whole.clone()).is_ok());
    assert!(PoolRecord::parse(&"b".parse().expect("an id"), whole.clone()).is_err());
    for place in 0..whole.len() {
        for other in [0, b'0', b'5', b'x', b' ', b'\n', 0xff] {
            let mut record = whole.clone();
            record[place] = other;
            let same = record == whole;
            assert_eq!(PoolRecord::parse(&job.id, record).is_ok(), same, "byte {place} is {other}");
        }
        assert!(PoolRecord::parse(&job.id, whole[..place].to_vec()).is_err(), "{place} bytes");
    }
}

proptest! {
    #[test]
    fn a_record_survives_its_form(times in any::<[u32; 4]>(), first in 0..UnixMillis::LAST.get() / 2, attempt: u32, bits in option::of(1..u64::MAX), consumer in option::of("[A-Za-z0-9._:@/-]{1,64}"), result in option::of("[0-9]{1,5000}")) {
        let [created_at, due_at, started_at, ended] = times.map(|time| UnixMillis::new(first + u64::from(time)));
        let (job, ending) = job();
        let consumer = consumer.map(|name| name.parse().expect("a name"));
        let past = PastAttempt { attempt, started_at, ended_at: started_at.max(ended), consumer, ..job.history[0].clone() };
        let ending = Ending { at: ended, result: result.map(Bytes::from), ..ending };
        let reservation = bits.map(Reservation::from_bits);
        let job = Job { created_at, due_at, attempt, reservation, history: vec![past], ..job };
        let record = stored_finished(&job, &ending);
        let read = PoolRecord::parse(&job.id, record).expect("its own record");
        let fields = read.finished.expect("a finished job");
        let history = fields.history(ending.at).expect("the only attempt");
        prop_assert_eq!(history.attempts, job.history);
        prop_assert_eq!((fields.attempt, fields.due_at), (attempt, due_at));
        prop_assert_eq!((fields.reservation, fields.outcome), (reservation, Outcome::Finished));
        prop_assert_eq!((read.created_at, read.policy), (created_at, job.policy));
        prop_assert_eq!(Some(read.body).filter(|result| !result.is_empty()), ending.result);
    }

    #[test]
    fn no_record_panics(mut record: Vec<u8>) {
        record.insert(0, VERSION);
        let _ = result_length(&record);
        let _ = PoolRecord::parse(&"a".parse().expect("an id"), record);
    }
}
