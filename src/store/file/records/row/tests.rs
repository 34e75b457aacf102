use super::*;

const JOB: PoolRow<'_> = PoolRow {
    serial: 7,
    id: "job:7",
    topic: "t",
    created_at: 1_800_000_000_000,
    due_at: 1_800_000_060_000,
    policy: "d=86400000",
    body_checksum: 0x1234_5678,
};
const ATTEMPT: AttemptRow = AttemptRow {
    serial: 7,
    state: State::Reserved,
    at: 1_800_000_060_000,
    number: 1,
    reservation: Some(-5),
    due_at: 1_800_000_000_000,
    died_at: 0,
    ttr: 60_000,
};

#[test]
fn the_checksums_are_pinned() {
    assert_eq!(JOB.checksum(&mut Vec::new()), -1_118_815_312);
    assert_eq!(ATTEMPT.checksum(), 1_974_494_131);
    assert_eq!(text_checksum(Some("ttr expired")), -799_519_813);
    assert_eq!(topic_checksum("t", 1, Some("{}")), 183_183_229);
}

#[test]
fn rows_of_schema_4_keep_their_checksums() {
    let standard = PoolRow { policy: "60000,20,86400000,", ..JOB };
    assert_eq!(standard.checksum(&mut Vec::new()), 104_756_771);
    let sum = |policy: &str| PoolRow { policy, ..JOB }.checksum(&mut Vec::new());
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let whole = format!("60000,20,86400000/{trace},list:0,120000");
    let others = ["60001,20,86400000,", "60000,21,86400000,", "60000,20,86400001,"];
    let backoff = ["60000,20,86400000,list:0", &format!("60000,20,86400000/{trace},"), &whole];
    let all: Vec<i64> = others.into_iter().chain(backoff).map(sum).collect();
    assert!(!all.contains(&104_756_771));
    assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), all.len());
}

#[test]
fn every_field_is_under_the_checksum() {
    let sum = |row: PoolRow<'_>| row.checksum(&mut Vec::new());
    let others = [
        PoolRow { serial: 8, ..JOB },
        PoolRow { id: "job:8", ..JOB },
        PoolRow { id: "job:", topic: "7t", ..JOB },
        PoolRow { topic: "u", ..JOB },
        PoolRow { created_at: 0, ..JOB },
        PoolRow { due_at: 0, ..JOB },
        PoolRow { policy: "", ..JOB },
        PoolRow { policy: "d=86400000;m=1", ..JOB },
        PoolRow { body_checksum: 0, ..JOB },
    ];
    for other in others {
        assert_ne!(sum(other), sum(JOB), "{other:?}");
    }
    let others = [
        AttemptRow { serial: 8, ..ATTEMPT },
        AttemptRow { state: State::Dead, ..ATTEMPT },
        AttemptRow { at: 0, ..ATTEMPT },
        AttemptRow { number: 2, ..ATTEMPT },
        AttemptRow { reservation: None, ..ATTEMPT },
        AttemptRow { reservation: Some(0), ..ATTEMPT },
        AttemptRow { due_at: 0, ..ATTEMPT },
        AttemptRow { died_at: 1, ..ATTEMPT },
        AttemptRow { ttr: 0, ..ATTEMPT },
    ];
    for other in others {
        assert_ne!(other.checksum(), ATTEMPT.checksum(), "{other:?}");
    }
    assert_ne!(text_checksum(Some("")), text_checksum(Some("a")));
    assert_ne!(topic_checksum("t", 1, None), topic_checksum("t", 0, None));
}
