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
