//! Reads of topics, and calls on many jobs of a topic.

use delay_queue::{
    job::{Setting, SettingKind},
    store::SettingCondition,
};

use crate::store::prelude::*;

/// Returns the sorted names of all topics, without repetitions.
async fn names(bench: &Bench) -> Vec<String> {
    let names: BTreeSet<Topic> =
        bench.topics().await.into_iter().map(|(_, topic, _)| topic).collect();
    names.iter().map(Topic::to_string).collect()
}

pub async fn a_topic_exists_from_its_first_to_its_last_job(bench: Bench) {
    assert!(names(&bench).await.is_empty());
    for way in ["finish", "delete", "retention", "purge", "replace", "release"] {
        let popped = bench.popped(job("a", "t")).await;
        assert_eq!(names(&bench).await, ["t"]);
        let (name, hold) = (popped.id, Some(popped.reservation));
        match way {
            "finish" => bench.finish(&name, hold).await.expect("finish"),
            "retention" => {
                bench.bury(&name, hold).await.expect("bury");
                bench.promote_after(RETENTION).await;
            }
            "purge" => {
                let purge = Purge { topic: topic("t"), state: State::Reserved, limit: 9 };
                assert_eq!(bench.call::<verb::Purge>(bench.bucket(&name), purge).await, 1);
            }
            "replace" => {
                bench.unpop(&name, popped.reservation).await.expect("given back");
                let on_conflict = OnConflict::Replace;
                bench.put(NewJob { on_conflict, ..job("a", "t") }).await.expect("replaced");
            }
            "release" => drop(bench.release(&name, hold, Some(HOUR)).await.expect("release")),
            _ => {}
        }
        if ["delete", "replace", "release"].contains(&way) {
            assert_eq!(names(&bench).await, ["t"], "{way}");
            bench.delete(&name).await.expect("delete");
        }
        assert_eq!(names(&bench).await, [""; 0], "the topic exists after its last job: {way}");
    }
}

pub async fn a_delayed_job_that_should_be_ready_is_reported_with_its_age(bench: Bench) {
    bench.put(delayed("a", "t", MINUTE)).await.expect("put");
    let bucket = bench.bucket(&id("a"));
    let overdue = async || bench.store.topic(bucket, topic("t")).await.expect("topic").overdue;
    assert_eq!(overdue().await, None);
    bench.advance(MINUTE);
    assert_eq!(overdue().await, None, "a job that is due at this moment is reported");
    bench.advance(SECOND);
    assert_eq!(overdue().await, Some(SECOND));
    bench.promote().await;
    assert_eq!(overdue().await, None, "a ready job is reported");
}

pub async fn counts_are_exact_in_every_state(bench: Bench) {
    for number in 0..10 {
        bench.put(delayed(&format!("d{number}"), "t", HOUR)).await.expect("put");
        bench.put(kept(job(&format!("r{number}"), "t"), HOUR)).await.expect("put");
    }
    bench.advance(SECOND);
    let popped = bench.pop("t", 5).await;
    bench.finish(&popped[4].id, None).await.expect("finish");
    for job in &popped[..2] {
        bench.bury(&job.id, Some(job.reservation)).await.expect("bury");
    }
    let expected = Counts { delayed: 10, ready: 5, reserved: 2, dead: 2, finished: 1 };
    assert_eq!(bench.counts("t").await, expected);
    let mut by_name = Counts::default();
    let (mut next_due, mut oldest) = (None, None);
    for bucket in bench.store.buckets().all() {
        let page = TopicPage { limit: 9, ..TopicPage::default() };
        for (name, peek) in bench.store.topics(bucket, page).await.expect("topics") {
            by_name = by_name.plus(peek.counts);
            next_due = next_due.max(peek.next_due_at);
            oldest = oldest.max(peek.oldest_ready_age);
            assert_eq!(bench.store.topic(bucket, name).await.expect("topic"), peek);
        }
    }
    assert_eq!((by_name, next_due, oldest), (expected, Some(START.after(HOUR)), Some(SECOND)));
    assert_eq!(bench.counts("nobody").await, Counts::default());
}

pub async fn topics_come_in_the_order_of_their_names_page_by_page(bench: Bench) {
    let (bucket, ids) = bench.ids(7);
    for (id, topic) in ids.iter().zip(["b", "a.2", "a.1", "a", "c", "a.10", "ab"]) {
        bench.put(job(id.as_str(), topic)).await.expect("put");
    }
    let page = async |prefix: &str, after: Option<&str>, limit| {
        let after = after.map(topic);
        let page = TopicPage { prefix: prefix.to_owned(), after, limit };
        let topics = bench.store.topics(bucket, page).await.expect("topics");
        topics.into_iter().map(|(topic, _)| topic.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page("", None, 100).await, ["a", "a.1", "a.10", "a.2", "ab", "b", "c"]);
    assert_eq!(page("", None, 2).await, ["a", "a.1"]);
    assert_eq!(page("", Some("a.1"), 2).await, ["a.10", "a.2"]);
    assert_eq!(page("a.", None, 100).await, ["a.1", "a.10", "a.2"]);
    assert_eq!(page("a.", Some("a.10"), 100).await, ["a.2"]);
    assert_eq!(page("a.", Some("a"), 100).await, ["a.1", "a.10", "a.2"]);
    assert_eq!(page("a.", Some("b"), 100).await, Vec::<String>::new());
    assert_eq!(page("x", None, 100).await, Vec::<String>::new());
}

pub async fn delayed_jobs_are_counted_by_due_time(bench: Bench) {
    for minute in 1..=9 {
        let delay = Millis::new(minute * MINUTE.get());
        for copy in 0..minute {
            bench.put(delayed(&format!("{minute}.{copy}"), "t", delay)).await.expect("put");
        }
    }
    bench.put(job("ready", "t")).await.expect("put");
    let due = |minute: u64| START.after(Millis::new(minute * MINUTE.get()));
    let mut counts = vec![0; 4];
    for bucket in bench.store.buckets().all() {
        let steps = Steps { from: due(2), step: Millis::new(2 * MINUTE.get()), count: 4 };
        let found = bench.store.due_counts(bucket, topic("t"), steps).await.expect("counts");
        assert_eq!(found.len(), 4);
        counts.iter_mut().zip(found).for_each(|(sum, count)| *sum += count);
        let before = Steps { from: due(0), step: Millis::new(1), count: 500 };
        let none = bench.store.due_counts(bucket, topic("t"), before).await.expect("counts");
        assert_eq!(none, vec![0; 500]);
    }
    assert_eq!(counts, [2 + 3, 4 + 5, 6 + 7, 8 + 9]);
}

pub async fn pages_neither_skip_nor_repeat_remaining_jobs(bench: Bench) {
    // Many jobs have the same time, and some have others.
    for number in 0..90 {
        let delay = if number % 3 == 0 { Millis::new(number * 1000 + 1000) } else { MINUTE };
        bench.put(delayed(&format!("job:{number}"), "t", delay)).await.expect("put");
    }
    let range = |limit| JobRange { limit, ..JobRange::default() };
    let ids = |jobs: Vec<Job>| jobs.into_iter().map(|job| job.id).collect::<Vec<_>>();
    let quiet = ids(bench.list_all("t", State::Delayed, range(4), async |_| ()).await);
    assert_eq!(quiet.len(), 90);
    // Deletes the last job of each page, at which the next page begins.
    let mut gone = 0;
    let seen = bench.list_all("t", State::Delayed, range(4), async |page: &JobPage| {
        if let Some(last) = page.jobs.last() {
            bench.delete(&last.id).await.expect("delete");
            gone += 1;
        }
    });
    assert_eq!(ids(seen.await), quiet, "jobs are missing, repeated, or in another order");
    assert!(gone > 0);
    let left = bench.list_all("t", State::Delayed, range(1_000), async |_| ()).await;
    assert_eq!(left.len(), 90 - gone);
    assert!(left.iter().all(|job| job.state == State::Delayed));
    assert_eq!(bench.list_all("t", State::Ready, range(4), async |_| ()).await, []);
}

pub async fn a_purge_removes_one_state_in_bounded_steps(bench: Bench) {
    let (bucket, ids) = bench.ids(30);
    for (number, id) in ids.iter().enumerate() {
        let delay = if number < 25 { MINUTE } else { Millis::ZERO };
        bench.put(delayed(id.as_str(), "t", delay)).await.expect("put");
    }
    let mut steps = Vec::new();
    while steps.last() != Some(&0) {
        let purge = Purge { topic: topic("t"), state: State::Delayed, limit: 10 };
        steps.push(bench.call::<verb::Purge>(bucket, purge).await);
    }
    assert_eq!(steps, [10, 10, 5, 0]);
    assert_eq!(bench.counts("t").await, Counts { ready: 5, ..Counts::default() });
    let shown = peek_in(&*bench.store, bucket, vec![]).await.expect("look");
    assert_eq!(shown.next, None, "a deadline remains after the purge");
    bench.put(delayed("0", "t", MINUTE)).await.expect("the id is free");
}

pub async fn topic_settings_are_kept_and_have_a_version(bench: Bench) {
    let first = changes_since(&bench, TopicSettings::default()).await;
    assert!(first.paused.is_empty() && first.defaults.is_empty());
    assert_eq!(bench.store.settings(first.version).await.expect("settings"), None);
    let own = PolicyFields { max_attempts: Some(3), ..PolicyFields::default() };
    bench.store.set_paused(topic("t"), true).await.expect("pause");
    bench.store.set_defaults(topic("t"), Some(own.clone())).await.expect("set");
    bench.store.set_paused(topic("u"), true).await.expect("pause");
    bench.store.set_paused(topic("u"), false).await.expect("resume");
    let second = changes_since(&bench, first).await;
    assert_eq!(second.paused, [(topic("t"), Pause::OPEN)].into());
    assert_eq!(second.defaults, [(topic("t"), own)].into());

    let bench = bench.reopen().await;
    let third = changes_since(&bench, TopicSettings::default()).await;
    assert_eq!((&third.paused, &third.defaults), (&second.paused, &second.defaults));
    bench.store.set_defaults(topic("t"), None).await.expect("the defaults are removed");
    let fourth = changes_since(&bench, third).await;
    assert!(fourth.defaults.is_empty() && fourth.paused.len() == 1);
}

pub async fn a_pause_ends_at_its_time_without_ending_others(bench: Bench) {
    let end = async |bench: &Bench, name, until| {
        bench.store.end_pause(topic(name), until).await.expect("an end")
    };
    let paused = async |bench: &Bench| {
        changes_since(bench, TopicSettings::default()).await.paused.into_iter().collect::<Vec<_>>()
    };
    let pause = async |bench: &Bench, name, end| {
        bench.store.pause_until(topic(name), end).await.expect("a pause")
    };
    let until = pause(&bench, "t", Schedule::In(MINUTE)).await;
    assert_eq!(until, START.after(MINUTE));
    let timed = (topic("t"), Pause { until: Some(until) });
    assert_eq!(paused(&bench).await, std::slice::from_ref(&timed));

    let bench = bench.reopen().await;
    bench.advance(Millis::new(MINUTE.get() - 1));
    let before = changes_since(&bench, TopicSettings::default()).await;
    assert_eq!(end(&bench, "t", until).await, Millis::new(1), "the time until its end");
    assert_eq!(bench.store.settings(before.version).await.expect("settings"), None);
    assert_eq!(before.paused, [timed.clone()].into());
    bench.advance(Millis::new(1));
    end(&bench, "t", START).await;
    assert_eq!(paused(&bench).await, [timed], "the pause was ended by the end of another pause");
    assert_eq!(end(&bench, "t", until).await, Millis::ZERO);
    assert!(changes_since(&bench, before).await.paused.is_empty());

    // Ending a pause does nothing if the topic was resumed, or paused without an end.
    let until = pause(&bench, "t", Schedule::At(START)).await;
    assert_eq!(until, START, "an imported pause has another end");
    bench.store.set_paused(topic("t"), true).await.expect("pause");
    end(&bench, "t", until).await;
    assert_eq!(paused(&bench).await, [(topic("t"), Pause::OPEN)]);
    bench.store.set_paused(topic("t"), false).await.expect("resume");
    end(&bench, "t", until).await;
    assert!(paused(&bench).await.is_empty());
}

/// Returns the current settings, read by a server that has the settings `known`.
async fn changes_since(bench: &Bench, mut known: TopicSettings) -> TopicSettings {
    let news = bench.store.settings(known.version).await.expect("settings");
    news.map(|news| known.apply(news));
    known
}

pub async fn a_change_of_settings_names_exactly_its_topics(bench: Bench) {
    let own = |attempts| PolicyFields { max_attempts: Some(attempts), ..PolicyFields::default() };
    for number in 0..600 {
        let topic = topic(&format!("t{number}"));
        bench.store.set_defaults(topic, Some(own(number))).await.expect("set");
    }
    let known = changes_since(&bench, TopicSettings::default()).await;
    assert_eq!(known.defaults.len(), 600);

    let changed = async |known: &TopicSettings| {
        let news = bench.store.settings(known.version).await.expect("settings");
        let Some(SettingsChanges::Changed { settings, .. }) = news else {
            panic!("not only the changes were read: {news:?}")
        };
        settings
    };
    bench.store.set_paused(topic("t7"), true).await.expect("pause");
    bench.store.set_defaults(topic("t8"), None).await.expect("the defaults are removed");
    bench.store.set_paused(topic("t7"), false).await.expect("resume");
    bench.store.set_paused(topic("t7"), true).await.expect("pause");
    let of = |name, pause, defaults: Option<PolicyFields>| {
        let [defaults_of, push_of] = [topic(name), topic(name)];
        let defaults = Setting::defaults(defaults_of, defaults.as_ref());
        [Setting::pause(topic(name), pause), defaults, Setting::push(push_of, None)]
    };
    let mut found = changed(&known).await;
    let order = |kind| SettingKind::ALL.iter().position(|one| *one == kind);
    found.sort_by_key(|setting| (setting.topic.clone(), order(setting.kind)));
    assert_eq!(found, [of("t7", Some(Pause::OPEN), Some(own(7))), of("t8", None, None)].concat());
    let known = changes_since(&bench, known).await;
    assert_eq!((known.defaults.len(), known.paused.len()), (599, 1));
    // These changes need more than one page of the log.
    for number in 0..600 {
        bench.store.set_paused(topic(&format!("t{number}")), true).await.expect("pause");
    }
    assert_eq!(changed(&known).await.len(), 600 * SettingKind::ALL.len());
    assert_eq!(changes_since(&bench, known).await.paused.len(), 600);
}

pub async fn a_push_is_kept_like_other_settings(bench: Bench) {
    let text = |concurrency: u16| {
        format!(r#"{{"url":"http://a.example/","concurrency":{concurrency},"timeout_ms":1000}}"#)
    };
    let push = |name, concurrency: u16| Setting {
        topic: topic(name),
        kind: SettingKind::Push,
        text: Some(text(concurrency)),
    };
    let change = async |setting, condition| {
        bench.store.change_setting(setting, condition).await.expect("an answer")
    };
    assert!(change(push("a", 1), SettingCondition::Always).await);
    assert!(change(push("b", 2), SettingCondition::Is(None)).await);
    assert!(!change(push("b", 7), SettingCondition::Is(None)).await);
    bench.store.set_paused(topic("a"), true).await.expect("pause");
    assert!(!change(push("b", 9), SettingCondition::Is(Some(text(1)))).await);
    assert!(change(push("b", 3), SettingCondition::Is(Some(text(2)))).await);
    let known = changes_since(&bench, TopicSettings::default()).await;
    let of = |name| known.pushes.get(&topic(name)).map(|push| push.concurrency);
    assert_eq!((of("a"), of("b"), known.pushes.len()), (Some(1), Some(3), 2));
    assert!(known.paused.contains_key(&topic("a")) && known.defaults.is_empty());
    assert!(change(Setting::push(topic("a"), None), SettingCondition::Always).await);
    let known = changes_since(&bench, known).await;
    assert_eq!((known.pushes.len(), known.paused.len()), (1, 1));
}
