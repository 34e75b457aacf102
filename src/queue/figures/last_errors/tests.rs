use super::*;

fn note(errors: &LastErrors, at: u64, topic: &str, id: &str, error: &str) {
    let (topic, id) = (topic.parse().expect("a topic"), id.parse().expect("an id"));
    errors.note(UnixMillis::new(at), &topic, id, State::Delayed, error);
}

fn seen(errors: &LastErrors) -> Vec<(String, String, u64)> {
    let all = errors.all().into_iter();
    all.map(|one| (one.topic.to_string(), one.id.to_string(), one.times)).collect()
}

#[test]
fn the_last_error_is_first_and_the_same_one_is_counted() {
    let errors = LastErrors::default();
    note(&errors, 1, "a", "1", "refused");
    note(&errors, 2, "b", "2", "refused");
    note(&errors, 3, "a", "3", "refused");
    assert_eq!(seen(&errors), [("a".into(), "3".into(), 2), ("b".into(), "2".into(), 1)]);
}

#[test]
fn errors_that_differ_in_numbers_ids_or_addresses_are_one_entry() {
    let errors = LastErrors::default();
    for (n, varying) in [
        "10.0.3.17:8443 after 132 ms, 5f2c1a17-93b1-4e0a-8c57-2f6f9d1b0c17, 0x7fd889",
        "10.0.3.9:80 after 7 ms, abcdefab-93b1-4e0a-8c57-ffffffffffff, 0xab12",
        "[2001:db8::ff]:443 after 1.5 ms, deadbeef12, 0x0",
    ]
    .into_iter()
    .enumerate()
    {
        let address = varying.replace(['[', ']'], "");
        note(&errors, 1, "a", &n.to_string(), &format!("no answer of {address} in line {n}"));
    }
    assert_eq!(seen(&errors), [("a".into(), "2".into(), 3)]);
    assert!(errors.all()[0].error.contains("2001:db8::ff"), "{:?}", errors.all());
    for other in ["refused:10.0.0.1", "timeout:10.0.0.1", "timeout of host1.example.com"] {
        note(&errors, 2, "b", "1", other);
    }
    assert_eq!(errors.all().len(), 4);
}

#[test]
fn errors_that_differ_in_quoted_values_are_one_entry() {
    let errors = LastErrors::default();
    for error in
        ["no `shop` of 'Ann' in \"a b\"", "no `till` of 'Bob' in \"\"", "no '' of \"x\" in 'y'"]
    {
        note(&errors, 1, "a", "1", error);
    }
    assert_eq!(errors.all().len(), 1);
    for other in ["can't pay Ann's bill", "can't pay Bob's bill", "of 'Ann\n' in", "of 'Bob\n' in"]
    {
        note(&errors, 2, "b", "1", other);
    }
    assert_eq!(errors.all().len(), 5);
}

#[test]
fn the_errors_of_one_topic_leave_room_for_others() {
    let errors = LastErrors::default();
    note(&errors, 1, "quiet", "1", "refused");
    for word in ('a'..='z').chain('A'..='Z') {
        note(&errors, 2, "flood", "2", &format!("no {word}"));
    }
    let seen = seen(&errors);
    assert_eq!(seen.len(), KEPT_PER_TOPIC + 1);
    assert_eq!(seen[KEPT_PER_TOPIC], ("quiet".into(), "1".into(), 1));
    for topic in 0..100 {
        note(&errors, 3, &topic.to_string(), "3", "refused");
    }
    assert_eq!(errors.all().len(), KEPT);
}
