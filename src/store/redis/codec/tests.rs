use proptest::prelude::*;

use super::*;
use crate::job::Millis;

fn new_job(body: Vec<u8>, policy: Policy) -> NewJob {
    let id = "a".parse().expect("an id");
    NewJob { policy, ..NewJob::new(id, "t".parse().expect("a topic"), body) }
}

fn policy(text: &str) -> Policy {
    text.parse().expect("a policy")
}

fn stored(job: &NewJob) -> Vec<u8> {
    fuzzing::stored(job, UnixMillis::new(1_763_690_000_000))
}

fn attempt() -> Attempt {
    Attempt {
        attempt: 2,
        has_history: false,
        is_snoozed: false,
        reservation: Some(Reservation::from_bits(0x1234_5678_9abc_def0)),
        due_at: UnixMillis::new(1_763_690_000_000),
        died_at: UnixMillis::new(0),
        ttr: Millis::new(60_000),
        error: Some("no answer".to_owned()),
    }
}

#[test]
fn records_are_pinned_since_stored_jobs_are_read_by_them() {
    let job = new_job(b"{}".to_vec(), Policy::STANDARD);
    assert_eq!(String::from_utf8_lossy(&stored(&job)), PINNED[0]);
    assert_eq!(attempt().text(&rules(&job)), PINNED[1]);
    let job = new_job(b"{}".to_vec(), policy("t=5000;m=3;d=0;b=list:0,120000"));
    assert_eq!(String::from_utf8_lossy(&stored(&job)), PINNED[2]);
}

const PINNED: [&str; 3] = [
    "4 19aa41dae80b532 99c52597a3a6bf43 2  t\n{}",
    "1594367304 2 123456789abcdef0 1763690000000 0 60000 99c52597a3a6bf43 2  t\ndfc12e95 no answer",
    "4 19aa41dae80b532 ef4df4f7a3a6bf43 2 t=5000;m=3;d=0;b=list:0,120000 t\n{}",
];

#[test]
fn a_time_of_any_century_survives_its_record() {
    let job = new_job(b"{}".to_vec(), policy("t=5000;m=3"));
    for millis in [0, 1_763_690_000_000, (1 << 44) - 1, 1 << 44, 253_402_300_799_999] {
        let created_at = UnixMillis::new(millis);
        let read =
            PoolRecord::parse(&job.id, fuzzing::stored(&job, created_at)).expect("its own record");
        assert_eq!(read.created_at, created_at);
    }
}

#[test]
fn an_error_text_that_was_cut_or_has_lost_its_blank_is_noticed() {
    let job = new_job(b"{}".to_vec(), policy("t=5000;m=3"));
    let whole = Attempt { error: Some("timeout".to_owned()), ..attempt() }.text(&rules(&job));
    assert!(Attempt::parse(&job.id, &whole).is_ok());
    let begin = whole.find('\n').expect("a line feed") + 1;
    for end in begin + 1..whole.len() {
        assert!(Attempt::parse(&job.id, &whole[..end]).is_err(), "{}", &whole[..end]);
    }
    assert!(Attempt::parse(&job.id, &whole.replace(" timeout", "_timeout")).is_err());
}

#[test]
fn a_changed_character_of_a_record_is_noticed_wherever_it_is() {
    let job = new_job(b"{}".to_vec(), policy("b=list:0,120000"));
    let whole = stored(&job);
    assert!(PoolRecord::parse(&job.id, whole.clone()).is_ok());
    assert!(PoolRecord::parse(&"b".parse().expect("an id"), whole.clone()).is_err());
    for at in 0..whole.len() {
        for other in [b'0', b'7', b'x', b' ', b'\n'] {
            let mut text = whole.clone();
            text[at] = other;
            let same = text == whole;
            assert_eq!(PoolRecord::parse(&job.id, text).is_ok(), same, "byte {at} is {other}");
        }
    }
    let whole = attempt().text(&rules(&job));
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
        let policy = Policy { ttr: Millis::new(ttr), max_attempts: max, backoff, ..Policy::STANDARD };
        let body = if long { [body, vec![b'1'; MAX_INLINE_BODY]].concat() } else { body };
        let job = new_job(body, policy);
        let record = PoolRecord::parse(&job.id, stored(&job)).expect("its own text");
        prop_assert_eq!(record.body, job.body);
        prop_assert_eq!(record.topic, job.topic);
        prop_assert_eq!(record.policy, job.policy);
    }

    #[test]
    fn a_flipped_bit_of_the_body_is_noticed(body in proptest::collection::vec(any::<u8>(), 1..300), at: prop::sample::Index, bit in 0..8_u8) {
        let job = new_job(body.clone(), policy("t=1000;m=1"));
        let mut text = stored(&job);
        let start = text.len() - body.len();
        text[start + at.index(body.len())] ^= 1 << bit;
        prop_assert!(PoolRecord::parse(&job.id, text).is_err());
    }

    #[test]
    fn no_record_panics(text: Vec<u8>, attempt: String) {
        let id = "a".parse().expect("an id");
        let _ = PoolRecord::parse(&id, text);
        let _ = Attempt::parse(&id, &attempt);
    }
}
