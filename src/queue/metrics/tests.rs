use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::{job::UnixMillis, store::Counts};

fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

fn survey(topics: impl IntoIterator<Item = (String, u64)>) -> Survey {
    let peek = |ready| TopicPeek {
        counts: Counts { ready, ..Counts::default() },
        oldest_ready_age: Some(Millis::new(ready)),
        ..TopicPeek::default()
    };
    let topics = topics.into_iter().map(|(name, ready)| (topic(&name), peek(ready)));
    Survey {
        as_of: UnixMillis::new(0),
        topics: topics.collect::<BTreeMap<_, _>>(),
        unavailable: Vec::new(),
        servers: None,
        took: Duration::ZERO,
    }
}

#[test]
fn the_largest_topics_are_shown_and_the_rest_summed() {
    let small = (0..1_000).map(|n| (format!("small-{n:04}"), 1));
    let large = (0..SHOWN_TOPICS as u64 - 10).map(|n| (format!("z-large-{n}"), 100 + n));
    let survey = survey(small.chain(large));
    let shown = shown(&survey, &HashSet::new());
    assert_eq!(shown.len(), SHOWN_TOPICS + 1);
    let large = shown.iter().filter(|(name, _)| name.starts_with("z-large")).count();
    assert_eq!(large, SHOWN_TOPICS - 10);
    assert_eq!(shown[9].0, "small-0009", "ties are broken by name");
    let (name, rest) = shown.last().expect("the rest");
    assert_eq!((*name, rest.counts.ready), (OTHER, 990));
    let all: u64 = shown.iter().map(|(_, peek)| peek.counts.ready).sum();
    assert_eq!(all, survey.topics.values().map(|peek| peek.counts.ready).sum::<u64>());
}

#[test]
fn which_topics_are_shown_does_not_change_with_every_job() {
    let counts = |more: u64| (0..1_000).map(move |n| (format!("{n}"), 8 + (n * more) % 8));
    let (before, after) = (survey(counts(3)), survey(counts(5)));
    let names = |survey| {
        let shown = shown(survey, &HashSet::new());
        shown.into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&before), names(&after));
}

#[test]
fn a_topic_with_the_name_of_the_rest_is_counted_in_the_rest() {
    let survey = survey([("a".to_owned(), 1), (OTHER.to_owned(), 2), ("z".to_owned(), 3)]);
    let shown = shown(&survey, &HashSet::new());
    let shown: Vec<_> = shown.iter().map(|(name, peek)| (*name, peek.counts.ready)).collect();
    assert_eq!(shown, [("a", 1), ("z", 3), (OTHER, 2)]);
}

#[test]
fn paused_topics_do_not_raise_the_oldest_age_of_the_rest() {
    let survey = survey((0..1_000).map(|n| (format!("t-{n:04}"), 1 + n % 2)));
    let paused = survey.topics.keys().skip(1).step_by(2).cloned().collect();
    let shown = shown(&survey, &paused);
    assert_eq!(shown.last().expect("the rest").1.oldest_ready_age, Some(Millis::new(1)));
    assert_eq!(
        shown[0].1.oldest_ready_age,
        Some(Millis::new(2)),
        "a paused topic that is listed separately keeps its age"
    );
}
