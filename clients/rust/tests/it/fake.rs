//! The fake, and with it the rules for the results of handlers.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use delay_queue_client::{
    Backoff, BoxError, Bury, Job, OnConflict, Queue, Snooze, State, TopicSettings, Worker,
    fake::{Ended, Fake, Ran},
};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

async fn handle(job: Job<Value>) -> Result<Value, BoxError> {
    match job.body.as_str() {
        Some("error") => Err("no answer".into()),
        Some("bury") => Err(Bury::new("no such shop").into()),
        Some("snooze") => Err(Snooze::new(MINUTE).into()),
        Some("panic") => panic!("at the {} disco", job.topic),
        _ => Ok(job.body),
    }
}

fn worker(queue: Queue) -> Worker {
    Worker::new(queue).on("a", handle).on("b", handle)
}

async fn run(fake: &Fake) -> Vec<(String, u32, Ended)> {
    let ran = fake.run_due(&worker(fake.queue())).await;
    ran.into_iter().map(|Ran { id, attempt, ended, .. }| (id, attempt, ended)).collect()
}

async fn state(fake: &Fake, id: &str) -> Option<State> {
    fake.queue().get(id).await.unwrap().map(|job| job.state)
}

#[tokio::test]
async fn a_job_runs_once_it_is_due() {
    let fake = Fake::new();
    fake.queue().put("a", &1).id("1").delay(MINUTE).await.unwrap();
    fake.queue().put("a", &1).id("2").due_at(fake.now() + 2 * MINUTE).await.unwrap();
    assert_eq!(run(&fake).await, []);
    fake.advance(MINUTE - Duration::from_millis(1));
    assert_eq!(run(&fake).await, []);
    fake.advance(Duration::from_millis(1));
    assert_eq!(run(&fake).await, [("1".into(), 1, Ended::Finished)]);
    assert_eq!(state(&fake, "1").await, None);
    assert_eq!(state(&fake, "2").await, Some(State::Delayed));
}

#[tokio::test]
async fn jobs_run_by_priority_then_due_time() {
    let fake = Fake::new();
    let queue = fake.queue();
    queue.put("a", &1).id("late").delay(2 * MINUTE).await.unwrap();
    queue.put("b", &1).id("early").delay(MINUTE).await.unwrap();
    queue.put("b", &1).id("first").delay(2 * MINUTE).priority(9).await.unwrap();
    fake.advance(3 * MINUTE);
    let ids: Vec<String> = run(&fake).await.into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["first", "early", "late"]);
}

#[tokio::test]
async fn errors_and_panics_release_until_the_job_is_dead() {
    let fake = Fake::new();
    for body in ["error", "panic"] {
        let put = fake.queue().put("a", body).id(body).backoff(Backoff::List(vec![MINUTE]));
        put.await.unwrap();
    }
    let ended =
        |attempt| ["error", "panic"].map(|id| (id.to_owned(), attempt, Ended::Released)).to_vec();
    assert_eq!(run(&fake).await, ended(1));
    assert_eq!(run(&fake).await, []);
    fake.advance(MINUTE);
    assert_eq!(run(&fake).await, ended(2));
    let job = fake.queue().get("panic").await.unwrap().unwrap();
    assert_eq!((job.state, job.attempt), (State::Dead, 2));
    assert_eq!(job.error.unwrap(), "the handler panicked: at the a disco");
    fake.advance(14 * 24 * 60 * MINUTE);
    assert_eq!(state(&fake, "panic").await, None);
}

#[tokio::test]
async fn bury_makes_a_job_dead_and_snooze_costs_no_attempt() {
    let fake = Fake::new();
    fake.queue().put("a", "bury").id("bury").await.unwrap();
    fake.queue().put("a", "snooze").id("snooze").max_attempts(1).await.unwrap();
    run(&fake).await;
    let job = fake.queue().get("bury").await.unwrap().unwrap();
    assert_eq!((job.state, job.error.as_deref()), (State::Dead, Some("no such shop")));
    fake.advance(MINUTE);
    assert_eq!(run(&fake).await, [("snooze".into(), 1, Ended::Snoozed)]);
    assert_eq!(fake.queue().get("snooze").await.unwrap().unwrap().attempt, 0);
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_buried_with_its_field() {
    #[derive(serde::Deserialize)]
    struct Order {
        #[expect(dead_code, reason = "only decoded")]
        amount: BTreeMap<String, u32>,
    }
    let fake = Fake::new();
    fake.queue().put("a", &json!({"amount": {"eur": "ten"}})).await.unwrap();
    let worker = Worker::new(fake.queue()).on("a", async |_: Job<Order>| Ok::<_, BoxError>(()));
    let ran = fake.run_due(&worker).await;
    assert_eq!(ran[0].ended, Ended::Buried);
    let error = ran[0].error.as_deref().unwrap();
    assert!(error.contains("amount.eur: invalid type: string \"ten\", expected u32"), "{error}");
}

#[tokio::test]
async fn a_result_is_kept_for_its_retention() {
    let fake = Fake::new();
    fake.queue().put("a", &7).id("kept").finished_retention(MINUTE).await.unwrap();
    fake.queue().put("a", &7).id("gone").await.unwrap();
    assert_eq!(run(&fake).await.len(), 2);
    let job = fake.queue().get_and_wait("kept", MINUTE).await.unwrap().unwrap();
    assert_eq!((job.state, job.result::<u32>().unwrap()), (State::Finished, 7));
    assert_eq!(state(&fake, "gone").await, None);
    fake.advance(MINUTE);
    assert_eq!(state(&fake, "kept").await, None);
}

#[tokio::test]
async fn an_id_in_use_is_refused_kept_or_replaced() {
    let fake = Fake::new();
    let put = |body: u32| fake.queue().put("a", &body).id("1").delay(MINUTE);
    put(1).await.unwrap();
    let error = put(2).await.unwrap_err();
    assert_eq!(error.refused().unwrap().state, Some(State::Delayed));
    put(2).on_conflict(OnConflict::Keep).await.unwrap();
    let body = async || fake.queue().get("1").await.unwrap().unwrap().body::<u32>().unwrap();
    assert_eq!(body().await, 1);
    put(3).on_conflict(OnConflict::Replace).await.unwrap();
    assert_eq!(body().await, 3);
    assert_eq!(fake.queue().cancel("1").await.unwrap(), Some(State::Delayed));
    assert_eq!(fake.queue().cancel("1").await.unwrap(), None);
}

#[tokio::test]
async fn settings_of_a_topic_are_the_defaults_of_later_puts() {
    let fake = Fake::at(SystemTime::UNIX_EPOCH);
    let settings = TopicSettings {
        max_attempts: Some(1),
        dead_to: Some("b".into()),
        expires_after: Some(MINUTE),
        ..TopicSettings::default()
    };
    let topic = fake.queue().set_topic_settings("a", &settings).await.unwrap();
    assert_eq!(topic.settings, settings);
    fake.queue().put("a", "error").id("moves").await.unwrap();
    fake.queue().put("a", "snooze").id("expires").await.unwrap();
    let worker = Worker::new(fake.queue()).on("a", handle);
    assert_eq!(fake.run_due(&worker).await.len(), 2);
    let job = fake.queue().get("moves").await.unwrap().unwrap();
    assert_eq!((job.topic.as_str(), job.dead_from.as_deref()), ("b", Some("a")));
    let job = fake.queue().get("expires").await.unwrap().unwrap();
    assert_eq!((job.topic.as_str(), job.error.as_deref()), ("b", Some("expired")));
    assert_eq!(fake.queue().topic("b").await.unwrap().ready, 2);
}
