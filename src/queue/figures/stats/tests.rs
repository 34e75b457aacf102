use super::*;

fn topic(name: impl ToString) -> Topic {
    name.to_string().parse().expect("a topic")
}

fn put(stats: &Stats, name: impl ToString) {
    stats.count([&topic(name)], |since| since.put += 1);
}

fn shown(stats: &Stats, name: &str) -> Option<u64> {
    let shown = stats.shown();
    shown.into_iter().find(|(topic, _)| topic.as_str() == name).map(|(_, counters)| counters.put)
}

#[test]
fn a_topic_beyond_the_cap_counts_with_the_others() {
    let stats = Stats::default();
    (0..SHOWN_TOPICS + 50).for_each(|n| put(&stats, n));
    assert_eq!(stats.shown().len(), SHOWN_TOPICS + 1);
    assert_eq!((shown(&stats, "0"), shown(&stats, OTHER)), (Some(1), Some(50)));
    assert_eq!(stats.of(&topic(SHOWN_TOPICS + 1)).put, 1, "the API tells of each");
    put(&stats, "0");
    put(&stats, SHOWN_TOPICS);
    assert_eq!((shown(&stats, "0"), shown(&stats, OTHER)), (Some(2), Some(51)));
    let sum: u64 = stats.shown().iter().map(|(_, counters)| counters.put).sum();
    assert_eq!(sum, stats.sum().put);
}

#[test]
fn an_idle_topic_yields_its_room_only_on_demand() {
    let stats = Stats::default();
    let age = |name: &str| {
        let mut topics = stats.lock();
        let shown = topics.all.get_mut(&topic(name)).and_then(|entry| entry.shown.as_mut());
        let shown = shown.expect("it is shown");
        shown.is_used = false;
        shown.used_at = Instant::now().checked_sub(IDLE).expect("an hour of uptime");
    };
    put(&stats, "idle");
    age("idle");
    assert_eq!(shown(&stats, "idle"), Some(1), "there is room");
    (1..SHOWN_TOPICS).for_each(|n| put(&stats, n));
    age("idle");
    put(&stats, "late");
    assert_eq!((shown(&stats, "late"), shown(&stats, OTHER)), (None, Some(1)));
    assert_eq!(shown(&stats, "idle"), None, "it left at the reading before");
    put(&stats, "late");
    assert_eq!((shown(&stats, "late"), shown(&stats, OTHER)), (Some(1), Some(1)));
}

#[test]
fn a_topic_with_the_name_of_the_rest_is_counted_in_the_rest() {
    let stats = Stats::default();
    put(&stats, OTHER);
    assert_eq!((shown(&stats, OTHER), stats.shown().len()), (Some(1), 1));
    assert_eq!(stats.of(&topic(OTHER)).put, 1);
}

#[test]
fn a_returned_job_counts_as_not_popped() {
    let stats = Stats::default();
    stats.count([&topic("t"), &topic("t")], |since| since.popped += 1);
    stats.count([&topic("t")], |since| since.returned += 1);
    assert_eq!((stats.of(&topic("t")).popped, stats.totals().popped), (1, 2));
}
