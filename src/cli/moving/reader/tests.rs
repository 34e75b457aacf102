//! Tests that exports are read back unchanged, and that damaged ones are refused.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{
    cli::moving::job_line::JobLine,
    job::{
        AttemptOutcome, Ending, Millis, Outcome, PastAttempt, Policy, Reservation, State,
        UnixMillis,
    },
};

fn time() -> impl Strategy<Value = UnixMillis> {
    (0..2_000_000_000_000_u64).prop_map(UnixMillis::new)
}

fn span() -> impl Strategy<Value = Millis> {
    (1..100_000_000_u64).prop_map(Millis::new)
}

fn job() -> impl Strategy<Value = Job> {
    let state = (0..State::ALL.len()).prop_map(|n| State::ALL[n]);
    let body = prop_oneof![
        any::<String>().prop_map(|text| serde_json::to_string(&text).expect("JSON")),
        Just("{\n \"a\" :\r\t[1e2, 1E+2, 0.10] }".to_owned()),
    ];
    let backoff = proptest::option::of("list:[1-9][0-9]{0,5}|exp:1000:2:60000:0[.]5");
    let texts = ("[A-Za-z0-9._:-]{1,20}", "[a-z]{1,9}", body, backoff);
    let times = (time(), time(), time(), time());
    let spans = (span(), span(), span());
    let past = (any::<u32>(), 0..5_u32, any::<u64>(), proptest::option::of(any::<String>()));
    (texts, state, times, spans, past).prop_filter_map("a name", |(texts, state, t, s, past)| {
        let (reserved, dead) = (state == State::Reserved, state == State::Dead);
        let finished = state == State::Finished;
        let result = Some(Bytes::from(texts.2.clone())).filter(|_| past.2 % 2 == 1);
        let attempt = past.1 + u32::from(reserved || dead);
        Some(Job {
            id: texts.0.parse().ok()?,
            topic: texts.1.parse().ok()?,
            body: if finished { Bytes::new() } else { texts.2.into() },
            state,
            attempt,
            is_snoozed: false,
            due_at: t.0,
            created_at: t.1,
            ttr: if reserved { s.0 } else { s.1 },
            policy: Policy {
                ttr: s.1,
                max_attempts: past.0,
                backoff: texts.3.map(|text| text.parse().expect("a backoff")),
                dead_retention: s.2,
                ..if past.2 % 2 == 1 { whole() } else { Policy::STANDARD }
            },
            reservation: (attempt > 0).then(|| Reservation::from_bits(past.2).untagged()),
            reserved_until: reserved.then_some(t.2),
            died_at: dead.then_some(t.3),
            error: past.3.filter(|_| !finished),
            ending: finished.then_some(Ending { at: t.3, outcome: Outcome::Finished, result }),
            consumer: reserved.then(|| "worker@host/1".parse().expect("a name")),
            started_at: reserved.then_some(t.3),
            history: (past.1 > 2).then(|| past_attempt(t)).into_iter().collect(),
        })
    })
}

fn past_attempt(times: (UnixMillis, UnixMillis, UnixMillis, UnixMillis)) -> PastAttempt {
    PastAttempt {
        attempt: 1,
        started_at: times.0.min(times.1),
        ended_at: times.0.max(times.1),
        outcome: AttemptOutcome::Buried,
        error: Some("a\nb".to_owned()),
        consumer: None,
    }
}

fn whole() -> Policy {
    include_str!("../../../../crates/delay-queue-core/src/job/policy/whole.txt")
        .parse()
        .expect("a policy")
}

/// Returns a complete export of these jobs and no schedules.
fn export_of(jobs: &[Job], buckets: u16) -> Vec<u8> {
    export_with(jobs, buckets, &[])
}

/// Returns a complete export of these jobs and schedules.
fn export_with(jobs: &[Job], buckets: u16, schedules: &[&str]) -> Vec<u8> {
    let (mut all, mut sums) = (Vec::new(), Sums::default());
    let mut write = |sums: &mut Sums, line: Line<'_>| {
        let text = [serde_json::to_vec(&line).expect("JSON"), b"\n".to_vec()].concat();
        sums.add(&line, &text);
        all.extend(text);
    };
    let (format, store) = (FORMAT.to_owned(), "file:/data".to_owned());
    write(&mut sums, Line::Head(Head { format, version: VERSION, store, buckets }));
    let buckets = Buckets::try_from(buckets).expect("a number of buckets");
    for bucket in buckets.all() {
        for job in jobs.iter().filter(|job| buckets.of(&job.id) == bucket) {
            write(&mut sums, Line::Job(JobLine::new(job).expect("a job")));
        }
        let section = sums.section();
        write(&mut sums, Line::Section(section));
    }
    let topic = TopicLine {
        topic: "t".parse().expect("t"),
        paused: true,
        paused_until: None,
        defaults: None,
        push: None,
    };
    write(&mut sums, Line::Topic(topic));
    for line in schedules {
        let line = serde_json::from_str(line).expect("a schedule");
        write(&mut sums, Line::Schedule(Box::new(line)));
    }
    let total = sums.total();
    write(&mut sums, Line::Total(total));
    all
}

/// Returns the jobs of an export that is read to its end.
fn read(text: &[u8]) -> Result<Vec<Job>, Damage> {
    let (mut reader, mut jobs, mut complete) = (Reader::open(text)?, Vec::new(), false);
    while let Some(item) = reader.next()? {
        assert!(!complete, "there is an item after the end");
        complete = matches!(item, Item::Total);
        if let Item::Job(job) = item {
            jobs.push(*job);
        }
    }
    assert!(complete, "the export ended without a total");
    Ok(jobs)
}

proptest! {
    #[test]
    fn an_export_is_read_back_unchanged(jobs in proptest::collection::vec(job(), 0..9), n in 1..5_u16) {
        let text = export_of(&jobs, n);
        let buckets = Buckets::try_from(n).expect("a number of buckets");
        let mut jobs = jobs;
        jobs.sort_by_key(|job| buckets.of(&job.id));
        prop_assert_eq!(read(&text).expect("a valid export"), jobs);
    }

    #[test]
    fn a_flipped_bit_is_detected(job in job(), at: prop::sample::Index, bit in 0..8_u8) {
        let mut text = export_of(&[job], 2);
        let at = at.index(text.len());
        text[at] ^= 1 << bit;
        prop_assert!(read(&text).is_err(), "byte {} of {}", at, String::from_utf8_lossy(&text));
    }

    #[test]
    fn a_truncated_export_is_refused(job in job(), at: prop::sample::Index) {
        let text = export_of(&[job], 2);
        prop_assert!(read(&text[..at.index(text.len())]).is_err());
    }
}

#[test]
fn the_export_format_stays_compatible() {
    let text = String::from_utf8(export_of(&[pinned()], 1)).expect("text");
    assert_eq!(text, PINNED);
}

#[test]
fn the_lines_of_schedules_stay_compatible() {
    let text = String::from_utf8(export_with(&[], 1, &SCHEDULES)).expect("text");
    let lines: Vec<&str> = text.lines().skip(3).collect();
    assert_eq!(lines[..2], SCHEDULES.map(|line| format!("{{\"schedule\":{line}}}")));
    assert!(lines[2].contains(r#""topics":1,"schedules":2,"crc32""#), "{}", lines[2]);
    assert_eq!(read(text.as_bytes()).expect("a valid export"), []);
}

#[test]
fn schedules_out_of_order_and_twice_are_refused() {
    let [one, two] = SCHEDULES;
    for wrong in [[two, one], [one, one]] {
        let refused = read(&export_with(&[], 1, &wrong)).expect_err("damage").to_string();
        assert!(refused.starts_with("line 5: schedules must be in the order"), "{refused}");
    }
}

const SCHEDULES: [&str; 2] = [
    r#"{"name":"a.b","topic":"t","every":1.25,"body":"null","policy":{},"next":"2026-01-31T12:00:00.250Z"}"#,
    WHOLE_SCHEDULE,
];

const WHOLE_SCHEDULE: &str = r#"{"name":"report","topic":"reports","cron":"0 9 * * MON-FRI","timezone":"Europe/Berlin","start":"2026-01-01T00:00:00.000Z","end":"2031-01-01T00:00:00.000Z","jitter":30,"overlap":"skip","missed":"all","body":"{ \"a\":1e2 }","policy":{"priority":7,"ttr":90},"headers":{"x-a":"b"},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","paused":true,"put_until":"2026-01-29T08:00:00.000Z","last":{"instant":"2026-01-30T08:00:00.000Z","due_at":"2026-01-30T08:00:07.123Z"}}"#;

fn pinned() -> Job {
    Job {
        id: "close:4711".parse().expect("an id"),
        topic: "orders".parse().expect("a topic"),
        body: "{\"order\":\n4711}".into(),
        state: State::Reserved,
        attempt: 2,
        is_snoozed: false,
        due_at: UnixMillis::new(1_763_690_060_000),
        created_at: UnixMillis::new(1_763_690_000_000),
        ttr: Millis::new(90_000),
        policy: Policy {
            backoff: Some("list:120000,600000".parse().expect("a backoff")),
            traceparent: Some(TRACEPARENT.parse().expect("a traceparent")),
            ..Policy::STANDARD
        },
        reservation: Some("5f0c9d1e2b3a4000".parse().expect("a reservation")),
        reserved_until: Some(UnixMillis::new(1_763_690_150_003)),
        died_at: None,
        error: Some("ttr expired".to_owned()),
        ending: None,
        consumer: None,
        started_at: None,
        history: Vec::new(),
    }
}

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

const PINNED: &str = r#"{"head":{"format":"delay-queue export","version":1,"store":"file:/data","buckets":1}}
{"job":{"id":"close:4711","topic":"orders","state":"reserved","body":"{\"order\":\n4711}","due_at":1763690060000,"created_at":1763690000000,"ttr_ms":60000,"max_attempts":20,"backoff":"list:120000,600000","dead_retention_ms":1209600000,"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","attempt":2,"reservation":"5f0c9d1e2b3a4000","reserved_until":1763690150003,"reserved_ttr_ms":90000,"error":"ttr expired"}}
{"section":{"bucket":0,"jobs":1,"crc32":"4e8ca7d8"}}
{"topic":{"topic":"t","paused":true,"defaults":null}}
{"total":{"jobs":1,"topics":1,"crc32":"ff4640fa"}}
"#;
