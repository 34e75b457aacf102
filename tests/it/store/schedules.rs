use delay_queue::{
    job::ScheduleName,
    store::{
        DueSchedules, Fired, Firing, NewSchedule, ScheduleChange, ScheduleChanged, SchedulePage,
        StoredSchedule,
    },
};

use crate::store::prelude::*;

fn name(text: &str) -> ScheduleName {
    text.parse().expect("a name")
}

fn new(text: &str, next_at: Option<UnixMillis>) -> NewSchedule {
    NewSchedule { text: text.to_owned(), next_at }
}

fn stored(of: &str, text: &str) -> StoredSchedule {
    StoredSchedule { name: name(of), text: text.to_owned() }
}

async fn change(
    bench: &Bench,
    of: &str,
    old: Option<&str>,
    new: Option<NewSchedule>,
) -> ScheduleChanged {
    let change = ScheduleChange { name: name(of), old: old.map(str::to_owned), new };
    let changed = bench.store.change_schedules(vec![change]).await.expect("an outcome");
    assert_eq!(changed.len(), 1);
    changed[0]
}

async fn create(bench: &Bench, of: &str, text: &str, next_at: Option<UnixMillis>) {
    let created = change(bench, of, None, Some(new(text, next_at))).await;
    assert_eq!(created, ScheduleChanged::Done, "{of}");
}

async fn text(bench: &Bench, of: &str) -> Option<String> {
    bench.store.schedule(name(of)).await.expect("a schedule or none").map(|found| found.text)
}

async fn due(bench: &Bench, limit: usize) -> DueSchedules {
    bench.store.due_schedules(limit).await.expect("due schedules")
}

async fn due_names(bench: &Bench, limit: usize) -> (Vec<String>, Option<UnixMillis>) {
    let found = due(bench, limit).await;
    (found.due.into_iter().map(|due| due.name.to_string()).collect(), found.next_at)
}

/// Returns a number of seconds after the start.
fn at(seconds: u64) -> Option<UnixMillis> {
    Some(START.after(Millis::new(seconds * 1_000)))
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn page(bench: &Bench, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
    page_and_more(bench, prefix, after, limit).await.0
}

async fn page_and_more(
    bench: &Bench,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> (Vec<String>, Option<String>) {
    let page = SchedulePage { prefix: prefix.to_owned(), after: after.map(name), limit };
    let found = bench.store.schedules(page).await.expect("a page");
    let names = found.schedules.into_iter().map(|found| found.name.to_string()).collect();
    (names, found.more_after.map(|name| name.to_string()))
}

/// Fires one instant, for a job of this id.
async fn fire(bench: &Bench, schedule: StoredSchedule, new: NewSchedule, job: NewJob) -> Fired {
    let bucket = bench.bucket(&job.id);
    let firing = Firing { schedule, new, job };
    one(bench.call::<verb::Fire>(bucket, vec![firing]).await).expect("no refusal")
}

fn at_start(of: &str) -> NewJob {
    NewJob { schedule: Schedule::At(START), ..job(of, "t") }
}

pub async fn a_schedule_changes_only_if_it_has_the_expected_text(bench: Bench) {
    use ScheduleChanged::{Done, Stale};
    assert_eq!(text(&bench, "a").await, None);
    assert_eq!(change(&bench, "a", Some("one"), Some(new("two", None))).await, Stale);
    assert_eq!(change(&bench, "a", Some("one"), None).await, Stale);
    assert_eq!(change(&bench, "a", None, Some(new("one", Some(START)))).await, Done);
    assert_eq!(change(&bench, "a", None, Some(new("two", None))).await, Stale);
    assert_eq!(change(&bench, "a", Some("two"), Some(new("three", None))).await, Stale);
    assert_eq!(text(&bench, "a").await.as_deref(), Some("one"));
    assert_eq!(change(&bench, "a", Some("one"), Some(new("two", None))).await, Done);
    assert_eq!(due(&bench, 10).await.due, [], "it has no time any more");
    assert_eq!(change(&bench, "a", Some("two"), None).await, Done);
    assert_eq!(text(&bench, "a").await, None);
    assert_eq!(page(&bench, "", None, 10).await, [""; 0]);
}

pub async fn changes_of_one_call_follow_each_other(bench: Bench) {
    use ScheduleChanged::{Done, Stale};
    let change = |old: Option<&str>, text: Option<&str>| ScheduleChange {
        name: name("a"),
        old: old.map(str::to_owned),
        new: text.map(|text| new(text, Some(START))),
    };
    let changes = vec![
        change(None, Some("1")),
        change(None, Some("2")),
        change(Some("1"), Some("3")),
        change(Some("3"), None),
        change(None, Some("4")),
    ];
    let changed = bench.store.change_schedules(changes).await.expect("outcomes");
    assert_eq!(changed, [Done, Stale, Done, Done, Done]);
    assert_eq!(due(&bench, 10).await.due, [stored("a", "4")]);
}

pub async fn due_schedules_come_earliest_first_with_the_time_of_the_next(bench: Bench) {
    let nothing = DueSchedules { now: START, due: vec![], next_at: None, steady_since: None };
    assert_eq!(due(&bench, 10).await, nothing);
    let times = [("c", 3), ("a", 1), ("d", 4), ("b", 2)];
    for (of, seconds) in times {
        create(&bench, of, of, at(seconds)).await;
    }
    create(&bench, "never", "never", None).await;
    assert_eq!(due_names(&bench, 10).await, (vec![], at(1)));
    bench.advance(Millis::new(999));
    assert_eq!(due_names(&bench, 10).await, (vec![], at(1)), "one is due a millisecond early");
    bench.advance(Millis::new(2_001));
    for (limit, expected) in [(10, 3), (3, 3), (2, 2)] {
        let names = owned(&["a", "b", "c"][..expected]);
        assert_eq!(due_names(&bench, limit).await, (names, at(expected as u64 + 1)), "{limit}");
    }
    assert_eq!(due_names(&bench, 0).await, (vec![], at(1)));
    assert_eq!(due(&bench, 1).await.due, [stored("a", "a")]);
}

pub async fn a_look_at_due_schedules_ends_after_a_number_of_bytes(bench: Bench) {
    const MIB: usize = 1 << 20;
    let sizes = [("a", 5), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 1)];
    for ((of, mib), seconds) in sizes.into_iter().zip(0..) {
        create(&bench, of, &of.repeat(mib * MIB), at(seconds)).await;
    }
    bench.advance(MINUTE);
    assert_eq!(due_names(&bench, 10).await, (owned(&["a"]), at(1)), "one, although it is long");
    change(&bench, "a", Some(&"a".repeat(5 * MIB)), None).await;
    assert_eq!(due_names(&bench, 10).await, (owned(&["b", "c", "d", "e"]), at(5)));
    assert_eq!(due_names(&bench, 2).await, (owned(&["b", "c"]), at(3)));
    change(&bench, "b", Some(&"b".repeat(MIB)), Some(new("short", Some(START)))).await;
    assert_eq!(due_names(&bench, 10).await, (owned(&["b", "c", "d", "e", "f"]), None));
}

pub async fn schedules_are_listed_by_name_in_pages(bench: Bench) {
    for of in ["b", "a.2", "Z", "a.10", "a", "a-", "_", "a.1", "ab"] {
        create(&bench, of, of, Some(START)).await;
    }
    let all = page(&bench, "", None, 100).await;
    assert_eq!(all, ["Z", "_", "a", "a-", "a.1", "a.10", "a.2", "ab", "b"]);
    assert_eq!(page(&bench, "a", None, 100).await, all[2..8]);
    assert_eq!(page(&bench, "a.", None, 100).await, all[4..7]);
    assert_eq!(page(&bench, "a.1", None, 100).await, all[4..6]);
    assert_eq!(page(&bench, "c", None, 100).await, [""; 0]);
    assert_eq!(page(&bench, "", Some("a."), 2).await, all[4..6]);
    assert_eq!(page(&bench, "a.", Some("a.1"), 1).await, all[5..6]);
    assert_eq!(page(&bench, "a.", Some("a"), 1).await, all[4..5], "the position may precede it");
    assert_eq!(page(&bench, "a.", Some("b"), 1).await, [""; 0]);
    let mut after = None;
    for of in &all {
        let (next, more_after) = page_and_more(&bench, "", after.as_deref(), 1).await;
        assert_eq!(next, std::slice::from_ref(of));
        assert_eq!(more_after.as_ref(), Some(of).filter(|of| *of != "b"));
        after = more_after;
    }
    let more_after = async |prefix, limit| page_and_more(&bench, prefix, None, limit).await.1;
    assert_eq!(more_after("a.", 2).await.as_deref(), Some("a.10"));
    assert_eq!(more_after("a.", 3).await, None, "names with another prefix do not follow");
}

pub async fn a_page_of_schedules_ends_after_a_number_of_bytes(bench: Bench) {
    const MIB: usize = 1 << 20;
    for (of, mib) in [("a", 5), ("b", 2), ("c", 2), ("d", 1), ("e", 1)] {
        create(&bench, of, &of.repeat(mib * MIB), None).await;
    }
    let found = async |after, limit| page_and_more(&bench, "", after, limit).await;
    assert_eq!(found(None, 10).await, (owned(&["a"]), Some("a".to_owned())));
    assert_eq!(found(Some("a"), 10).await, (owned(&["b", "c"]), Some("c".to_owned())));
    assert_eq!(found(Some("a"), 1).await, (owned(&["b"]), Some("b".to_owned())));
    assert_eq!(found(Some("b"), 10).await, (owned(&["c", "d", "e"]), None), "it is the last one");
}

#[tokio::test]
async fn a_text_that_is_not_utf_8_can_be_put_off_replaced_and_removed() {
    let bench = Bench::redis().await;
    for (of, seconds) in [("a", 1), ("b", 2), ("c", 3)] {
        create(&bench, of, of, at(seconds)).await;
    }
    let damage = || command(&bench, r#"HSET {dq:schedules}:all a "\xff""#);
    damage();
    bench.advance(MINUTE);
    assert_eq!(due_names(&bench, 10).await, (owned(&["a", "b", "c"]), None));
    assert_eq!(page(&bench, "", None, 10).await, ["a", "b", "c"]);
    let found = text(&bench, "a").await.expect("a text in place of it");
    assert!(found.starts_with("not UTF-8"), "{found}");
    let change = async |old: &str, new: Option<NewSchedule>| {
        let change = ScheduleChange { name: name("a"), old: Some(old.to_owned()), new };
        bench.store.change_schedules(vec![change]).await.expect("an outcome")
    };
    let later = new(&found, Some(bench.now().after(MINUTE)));
    assert_eq!(change(&found, Some(later)).await, [ScheduleChanged::Done]);
    assert_eq!(due_names(&bench, 10).await.0, owned(&["b", "c"]), "a server looks at it later");
    assert_eq!(text(&bench, "a").await.as_deref(), Some(&*found), "its bytes are kept");
    assert_eq!(change("not UTF-8, SHA-1 0", None).await, [ScheduleChanged::Stale]);
    assert_eq!(change(&found, Some(new("again", None))).await, [ScheduleChanged::Done]);
    assert_eq!(change(&found, None).await, [ScheduleChanged::Stale], "it has another text");
    assert_eq!(text(&bench, "a").await.as_deref(), Some("again"));
    damage();
    assert_eq!(change(&found, None).await, [ScheduleChanged::Done]);
    assert_eq!(page(&bench, "", None, 10).await, ["b", "c"]);
}

#[tokio::test]
async fn a_page_of_names_without_texts_says_that_others_follow() {
    let bench = Bench::redis().await;
    for of in ["a", "b", "c"] {
        create(&bench, of, of, None).await;
    }
    command(&bench, "HDEL {dq:schedules}:all a c");
    let found = async |after| page_and_more(&bench, "", after, 1).await;
    assert_eq!(found(None).await, (vec![], Some("a".to_owned())));
    assert_eq!(found(Some("a")).await, (vec!["b".to_owned()], Some("b".to_owned())));
    assert_eq!(found(Some("b")).await, (vec![], None));
}

pub async fn a_firing_puts_the_job_and_advances_the_schedule(bench: Bench) {
    create(&bench, "s", "1", Some(START)).await;
    let next = new("2", at(60));
    let first = fire(&bench, stored("s", "1"), next.clone(), at_start("s:1")).await;
    let Fired::Placed(placed) = first else { panic!("{first:?}") };
    assert_eq!((placed.how, placed.state), (PutOutcome::Created, State::Ready));
    assert_eq!(text(&bench, "s").await.as_deref(), Some("2"));
    assert_eq!(due_names(&bench, 10).await, (vec![], at(60)));
    assert_eq!(bench.pop_one("t").await.id, id("s:1"));
    // The last instant, with a delay.
    bench.advance(MINUTE);
    let later = NewJob { schedule: Schedule::At(bench.now().after(SECOND)), ..job("s:2", "t") };
    let last = fire(&bench, stored("s", "2"), new("3", None), later).await;
    let is_delayed = matches!(&last, Fired::Placed(placed) if placed.state == State::Delayed);
    assert!(is_delayed, "{last:?}");
    let bench = bench.reopen().await;
    assert_eq!(due_names(&bench, 10).await, (vec![], None));
    assert_eq!(page(&bench, "", None, 10).await, ["s"], "an ended schedule stays");
    assert_eq!(text(&bench, "s").await.as_deref(), Some("3"));
    // They are no settings of a topic.
    let settings = bench.store.settings(0).await.expect("settings");
    assert!(!format!("{settings:?}").contains("schedule"), "{settings:?}");
}

pub async fn a_firing_changes_nothing_if_its_id_is_in_use(bench: Bench) {
    create(&bench, "s", "1", Some(START)).await;
    bench.put(job("s:1", "t")).await.expect("it is free");
    bench.put(job("s:2", "other")).await.expect("it is free");
    for (of, topic) in [("s:1", "t"), ("s:2", "other")] {
        let later = new("2", at(60));
        let taken = fire(&bench, stored("s", "1"), later, at_start(of)).await;
        assert_eq!(taken, Fired::Taken);
        assert_eq!(bench.job(of).await.topic.as_str(), topic);
    }
    assert_eq!(text(&bench, "s").await.as_deref(), Some("1"));
    assert_eq!(due_names(&bench, 10).await.0, ["s"]);
    let other = new("2", at(60));
    let placed = fire(&bench, stored("s", "1"), other, at_start("s:1:x")).await;
    assert!(matches!(placed, Fired::Placed(_)), "{placed:?}");
}

/// A call makes only the firings whose ids are free.
pub async fn a_taken_id_does_not_hold_up_the_other_firings(bench: Bench) {
    let bucket = bench.bucket(&id("a:1"));
    let is_there = |of: &String| bench.bucket(&id(&format!("{of}:1"))) == bucket;
    let others = (0..).map(|n| format!("b{n}")).filter(is_there);
    let names: Vec<String> = std::iter::once("a".to_owned()).chain(others.take(2)).collect();
    bench.put(job("a:1", "other")).await.expect("it is free");
    let mut firings = Vec::new();
    for of in &names {
        create(&bench, of, "1", Some(START)).await;
        let (new, job) = (new("2", None), at_start(&format!("{of}:1")));
        firings.push(Firing { schedule: stored(of, "1"), new, job });
    }
    let fired = bench.call::<verb::Fire>(bucket, firings).await;
    let is_placed = |fired: &Result<Fired, _>| matches!(fired, Ok(Fired::Placed(_)));
    assert_eq!(fired[0], Ok(Fired::Taken));
    assert!(fired[1..].iter().all(is_placed), "{fired:?}");
    assert_eq!(due_names(&bench, 10).await.0, ["a"]);
}

pub async fn an_outdated_firing_does_not_advance_the_schedule(bench: Bench) {
    create(&bench, "s", "2", Some(START)).await;
    let outdated = fire(&bench, stored("s", "1"), new("3", None), at_start("s:1")).await;
    // On a cluster the put comes first.
    let is_one_step = bench.store.kept_after_firing() == Millis::ZERO;
    let Fired::Stale(placed) = outdated else { panic!("{outdated:?}") };
    assert_eq!(placed.is_none(), is_one_step, "{placed:?}");
    assert_eq!(text(&bench, "s").await.as_deref(), Some("2"));
    let gone = fire(&bench, stored("gone", "1"), new("3", None), at_start("gone:1")).await;
    assert!(matches!(gone, Fired::Stale(_)), "{gone:?}");
    assert_eq!(text(&bench, "gone").await, None);
    assert_eq!(bench.get(&id("s:1")).await.is_none(), is_one_step);
    assert_eq!(due_names(&bench, 10).await.0, ["s"]);
}

pub async fn one_of_many_concurrent_firings_of_an_instant_succeeds(bench: Bench) {
    for round in 0..20_u64 {
        let (of, next) = (format!("s{round}"), START.after(MINUTE));
        create(&bench, &of, "1", Some(START)).await;
        let fire = |_| {
            let job = at_start(&format!("{of}:1"));
            fire(&bench, stored(&of, "1"), new("2", Some(next)), job)
        };
        let fired = futures::future::join_all((0..8).map(fire)).await;
        let placed = fired.iter().filter(|fired| matches!(fired, Fired::Placed(_))).count();
        assert_eq!(placed, 1, "{fired:?}");
        bench.pop_one("t").await;
        assert_eq!(bench.pop("t", 10).await.len(), 0);
    }
}

pub async fn many_schedules_fire_in_one_call(bench: Bench) {
    let of = |n: usize| format!("many-{n}");
    for n in 0..300 {
        create(&bench, &of(n), "1", Some(START)).await;
    }
    let found = due(&bench, 500).await.due;
    assert_eq!(found.len(), 300);
    let firings = found.into_iter().map(|schedule| {
        let job = at_start(&format!("{}:1", schedule.name));
        (job.id.clone(), Firing { schedule, new: new("2", at(60)), job })
    });
    let firings: BTreeMap<JobId, Firing> = firings.collect();
    let mut fired = 0;
    for (bucket, part) in bench.parts(firings.keys(), |id| firings[id].clone()) {
        for part in part.chunks(200) {
            let replies = bench.call::<verb::Fire>(bucket, part.to_vec()).await;
            fired += replies.iter().filter(|r| matches!(r, Ok(Fired::Placed(_)))).count();
        }
    }
    assert_eq!(fired, 300);
    assert_eq!(due_names(&bench, 10).await, (vec![], at(60)));
    assert_eq!(bench.ready("t").await, 300);
}
