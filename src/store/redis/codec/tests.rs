use proptest::prelude::*;

use super::*;
use crate::job::OnConflict;

fn new_job(body: Vec<u8>, ttr: u64, max_attempts: u32, backoff: Option<Backoff>) -> NewJob {
    NewJob {
        id: "a".parse().expect("an id"),
        topic: "t".parse().expect("a topic"),
        body: body.into(),
        schedule: Schedule::In(Millis::ZERO),
        ttr: Millis::new(ttr),
        max_attempts,
        backoff,
        dead_retention: Millis::ZERO,
        traceparent: None,
        on_conflict: OnConflict::Reject,
    }
}

fn stored(job: &NewJob) -> Vec<u8> {
    let mut text = record(job, UnixMillis::new(1_763_690_000_000));
    text.extend(long_body(&job.body).into_iter().flatten());
    text
}

fn attempt() -> Attempt {
    Attempt {
        attempt: 2,
        reservation: Some(Reservation::from_bits(0x1234_5678_9abc_def0)),
        due_at: UnixMillis::new(1_763_690_000_000),
        died_at: UnixMillis::new(0),
        ttr: Millis::new(60_000),
        error: Some("no answer".to_owned()),
    }
}

#[test]
fn records_are_pinned_since_stored_jobs_are_read_by_them() {
    let job = new_job(b"{}".to_vec(), 60_000, 20, None);
    assert_eq!(String::from_utf8_lossy(&stored(&job)), PINNED[0]);
    assert_eq!(attempt().text(&job), PINNED[1]);
    let mut job = new_job(b"{}".to_vec(), 5000, 3, Some("list:0,120000".parse().expect("one")));
    assert_eq!(String::from_utf8_lossy(&stored(&job)), PINNED[2]);
    (job.ttr, job.max_attempts, job.backoff) = (STANDARD_TTR, STANDARD_MAX_ATTEMPTS, None);
    job.dead_retention = STANDARD_RETENTION;
    assert_eq!(String::from_utf8_lossy(&stored(&job)), PINNED[3]);
}

const PINNED: [&str; 4] = [
    "3 19aa41dae80b532 0fbba40da3a6bf43 2 ,,0, t\n{}",
    "1594367304 2 123456789abcdef0 1763690000000 0 60000 0fbba40da3a6bf43 2 ,,0, t\ndfc12e95 no answer",
    "3 19aa41dae80b532 9615c658a3a6bf43 2 5000,3,0,list:0,120000 t\n{}",
    "3 19aa41dae80b532 98267a3ba3a6bf43 2 ,,, t\n{}",
];

#[test]
fn a_time_of_any_century_survives_its_record() {
    let job = new_job(b"{}".to_vec(), 5000, 3, None);
    for millis in [0, 1_763_690_000_000, (1 << 44) - 1, 1 << 44, 253_402_300_799_999] {
        let created_at = UnixMillis::new(millis);
        let read = Record::parse(&job.id, record(&job, created_at)).expect("its own record");
        assert_eq!(read.created_at, created_at);
    }
}

#[test]
fn an_error_text_that_was_cut_or_has_lost_its_blank_is_noticed() {
    let job = new_job(b"{}".to_vec(), 5000, 3, None);
    let whole = Attempt { error: Some("timeout".to_owned()), ..attempt() }.text(&job);
    assert!(Attempt::parse(&job.id, &whole).is_ok());
    let begin = whole.find('\n').expect("a line feed") + 1;
    for end in begin + 1..whole.len() {
        assert!(Attempt::parse(&job.id, &whole[..end]).is_err(), "{}", &whole[..end]);
    }
    assert!(Attempt::parse(&job.id, &whole.replace(" timeout", "_timeout")).is_err());
}

#[test]
fn a_changed_character_of_a_record_is_noticed_wherever_it_is() {
    let job = new_job(b"{}".to_vec(), 60_000, 20, Some("list:0,120000".parse().expect("one")));
    let whole = stored(&job);
    assert!(Record::parse(&job.id, whole.clone()).is_ok());
    assert!(Record::parse(&"b".parse().expect("an id"), whole.clone()).is_err());
    for at in 0..whole.len() {
        for other in [b'0', b'7', b'x', b' ', b'\n'] {
            let mut text = whole.clone();
            text[at] = other;
            let same = text == whole;
            assert_eq!(Record::parse(&job.id, text).is_ok(), same, "byte {at} is {other}");
        }
    }
    let whole = attempt().text(&job);
    assert!(Attempt::parse(&job.id, &whole).is_ok());
    assert!(Attempt::parse(&"b".parse().expect("an id"), &whole).is_err());
    for at in 0..whole.len() {
        for other in ["0", "7", "x", " ", "\n"] {
            let mut text = whole.clone();
            text.replace_range(at..=at, other);
            let read = Attempt::parse(&job.id, &text);
            assert_eq!(read.is_ok(), text == whole, "byte {at} is {other:?}: {text}");
        }
    }
}

proptest! {
    #[test]
    fn a_record_survives_its_text(body in proptest::collection::vec(any::<u8>(), 1..300), ttr in prop_oneof![Just(60_000), 0..u64::MAX / 2], max in prop_oneof![Just(20), any::<u32>()], list: bool, long: bool) {
        let backoff = list.then(|| "list:0,120000".parse().expect("a backoff"));
        let body = if long { [body, vec![b'1'; INLINE]].concat() } else { body };
        let job = new_job(body, ttr, max, backoff);
        let record = Record::parse(&job.id, stored(&job)).expect("its own text");
        prop_assert_eq!(record.body, job.body);
        prop_assert_eq!(record.topic, job.topic);
        prop_assert_eq!(record.ttr, job.ttr);
        prop_assert_eq!(record.max_attempts, job.max_attempts);
        prop_assert_eq!(record.backoff, job.backoff);
    }

    #[test]
    fn a_flipped_bit_of_the_body_is_noticed(body in proptest::collection::vec(any::<u8>(), 1..300), at: prop::sample::Index, bit in 0..8_u8) {
        let job = new_job(body.clone(), 1000, 1, None);
        let mut text = stored(&job);
        let start = text.len() - body.len();
        text[start + at.index(body.len())] ^= 1 << bit;
        prop_assert!(Record::parse(&job.id, text).is_err());
    }

    #[test]
    fn no_record_panics(text: Vec<u8>, attempt: String) {
        let id = "a".parse().expect("an id");
        let _ = Record::parse(&id, text);
        let _ = Attempt::parse(&id, &attempt);
    }
}
