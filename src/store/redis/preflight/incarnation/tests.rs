use super::*;

/// Returns whether the bucket answers calls, and how often it was lost.
fn seen(incarnations: &Incarnations, found: Option<&str>, accepted: Option<&str>) -> (bool, u64) {
    seen_by(incarnations, found, accepted, Instant::now())
}

fn seen_by(
    incarnations: &Incarnations,
    found: Option<&str>,
    accepted: Option<&str>,
    asked: Instant,
) -> (bool, u64) {
    let bucket = Bucket::FIRST;
    if !incarnations.is_known(bucket, found, asked) {
        incarnations.judge(bucket, found, accepted, asked);
    }
    let answers = incarnations.refusal(bucket).is_none();
    assert_eq!(answers, incarnations.check().is_ok(), "there is one bucket");
    assert_eq!(answers, incarnations.lost().is_empty());
    (answers, incarnations.data_losses())
}

#[test]
fn a_lost_bucket_refuses_until_restored_or_accepted() {
    let incarnations = Incarnations::new(Buckets::ONE);
    assert_eq!(seen(&incarnations, Some("a"), None), (true, 0), "never seen before");
    assert_eq!(seen(&incarnations, Some("a"), Some("b")), (true, 0), "it has what it had");
    assert_eq!(seen(&incarnations, None, None), (false, 1));
    assert_eq!(seen(&incarnations, None, Some("b")), (false, 1), "accepted, not yet written");
    assert_eq!(seen(&incarnations, Some("c"), Some("b")), (false, 1), "of another server");
    assert_eq!(seen(&incarnations, Some("a"), None), (true, 1), "it is back");
    assert_eq!(seen(&incarnations, Some("c"), None), (false, 2));
    assert_eq!(seen(&incarnations, Some("b"), Some("b")), (true, 2), "accepted");
    assert_eq!(
        seen(&incarnations, Some("d"), Some("d")),
        (true, 2),
        "accepted before it was noticed"
    );
    assert_eq!(seen(&incarnations, None, Some("d")), (false, 3));
}

#[test]
fn an_answer_that_comes_late_changes_nothing() {
    let incarnations = Incarnations::new(Buckets::ONE);
    assert_eq!(seen(&incarnations, Some("a"), None), (true, 0));
    let before = Instant::now();
    assert_eq!(seen(&incarnations, None, None), (false, 1));
    assert_eq!(seen_by(&incarnations, Some("a"), None, before), (false, 1));
    let before = Instant::now();
    assert_eq!(seen(&incarnations, Some("b"), Some("b")), (true, 1));
    assert_eq!(seen_by(&incarnations, None, None, before), (true, 1));
}

#[test]
fn a_bucket_that_was_empty_at_the_start_takes_what_comes_back() {
    let incarnations = Incarnations::new(Buckets::ONE);
    assert_eq!(seen(&incarnations, None, None), (false, 1));
    assert_eq!(seen(&incarnations, Some("a"), None), (true, 1));
}
