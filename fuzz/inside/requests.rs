//! Fuzz targets of the parts of request handlers that need no queue.

use arbitrary::Unstructured;
use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, Uri},
};
use serde_json::value::RawValue;

use crate::{
    access::SecretToken,
    config::{DEFAULTS, Limits},
    fuzzing,
    http::{
        extract::{
            cursor::Cursor,
            input::traceparent,
            parse::{no_body, parse, parse_or_default},
        },
        problem::Problem,
        routes::{
            batch,
            jobs::{action, delete_of},
            pop,
            tokens::CreateToken,
            topics,
        },
        wire::{
            ActionRequest, ActionRules, Bury, Delete, Finish, IdOnly, PatchJob, PauseTopic, PutJob,
            PutPush, PutTopic, Release, Touch,
        },
    },
    job::{
        Buckets, MAX_DURATION, MAX_ERROR_BYTES, MAX_TTR, MIN_TTR, Millis, ReservationKey, Schedule,
        State, Topic, Topics, UnixMillis,
    },
    queue::{Position, Put},
    store::{JobFilter, JobPosition, Period},
};

/// Maximum length of a refusal. A refusal must not repeat a long input.
const MAX_REFUSAL_BYTES: usize = 4096;

fn limits() -> Limits {
    #[derive(serde::Deserialize)]
    struct Settings {
        limits: Limits,
    }
    toml::from_str::<Settings>(DEFAULTS).expect("the defaults").limits
}

/// Returns an accepted value; checks that a refusal has a reason and is short.
fn checked<T>(answer: Result<T, Problem>) -> Option<T> {
    let check = |problem: &Problem| {
        assert!(
            !problem.detail.is_empty() && problem.detail.len() <= MAX_REFUSAL_BYTES,
            "{problem:?}"
        );
        assert!(
            problem.field.as_ref().is_none_or(|field| field.len() <= MAX_REFUSAL_BYTES),
            "{problem:?}"
        );
    };
    answer.inspect_err(check).ok()
}

fn check_ttr(ttr: Option<Millis>) {
    assert!(ttr.is_none_or(|ttr| (MIN_TTR..=MAX_TTR).contains(&ttr)), "{ttr:?}");
}

fn check_schedule(schedule: Schedule) {
    assert!(!matches!(schedule, Schedule::In(delay) if delay > MAX_DURATION), "{schedule:?}");
}

/// Checks that a body is a part of the request, byte for byte.
fn check_body(body: &Bytes, content: &Bytes) {
    let text = std::str::from_utf8(body).expect("text");
    serde_json::from_str::<&RawValue>(text).expect("JSON");
    let is_part = content.windows(body.len()).any(|part| part == body);
    assert!(is_part || text == "null", "{text}");
    assert!(body.len() <= limits().max_body_bytes);
}

fn check_put(put: &Put, content: &Bytes) {
    check_body(&put.body, content);
    check_schedule(put.schedule);
    check_ttr(put.policy.ttr);
}

/// Parses `data` as the content of a put, and of a change.
pub fn http_put(data: &[u8]) {
    let content = Bytes::copy_from_slice(data);
    let put = parse::<PutJob>(&content, "").and_then(|put| put.valid(&content, limits(), None));
    if let Some(put) = checked(put) {
        check_put(&put, &content);
    }
    let Some(patch) = checked(parse::<PatchJob>(&content, "")) else { return };
    let _ = patch.has_read_only_fields();
    if let Some(change) = checked(patch.valid(&content, limits())) {
        change.schedule.into_iter().for_each(check_schedule);
        check_ttr(change.policy.ttr);
        change.body.iter().for_each(|body| check_body(body, &content));
    }
}

/// Parses `data` as the content of every kind of batch.
pub fn http_batch(data: &[u8]) {
    let content = Bytes::copy_from_slice(data);
    let Some(jobs) = checked(batch::jobs(&content)) else { return };
    for (index, json) in jobs.iter().enumerate() {
        let put = batch::put_of(json, &format!("jobs[{index}]"), &content, limits(), None);
        if let Some(put) = checked(put) {
            check_put(&put, &content);
        }
    }
    items::<Finish>(&content);
    items::<IdOnly>(&content);
    items::<Delete>(&content);
    for release in items::<Release>(&content) {
        check_error(release.error.as_deref());
    }
    for touch in items::<Touch>(&content) {
        check_ttr(touch.ttr);
    }
}

fn items<W: ActionRequest>(content: &Bytes) -> Vec<W::Job> {
    let key = ReservationKey::from([0; 32]);
    let rights = (&Topics::ALL, ActionRules { key: &key, limits: limits() });
    let requests = checked(batch::requests::<W>(content, rights)).unwrap_or_default();
    requests.into_iter().filter_map(|item| checked(item).map(|(_, job)| job)).collect()
}

fn check_error(error: Option<&str>) {
    assert!(error.is_none_or(|text| (1..=MAX_ERROR_BYTES).contains(&text.len())), "{error:?}");
}

/// Parses the first line of `data` as a query and the rest as content, for the routes of one job,
/// of topics and of tokens. Also parses the first line as a header and as a token.
pub fn http_requests(data: &[u8]) {
    let end = data.iter().position(|&byte| byte == b'\n').unwrap_or(data.len());
    let (line, content) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    if let Ok(value) = HeaderValue::from_bytes(line) {
        let headers = HeaderMap::from_iter([("traceparent".parse().expect("a name"), value)]);
        if let Some(parent) = traceparent(&headers) {
            assert_eq!(parent.to_string().parse(), Ok(parent));
        }
    }
    if let Ok(text) = std::str::from_utf8(line) {
        let _ = text.parse::<SecretToken>();
    }
    let uri = [b"/?", line].concat();
    let Ok(uri) = Uri::try_from(uri.as_slice()) else { return };
    let topic: Topic = "t".parse().expect("a topic");
    if let Some(pop) = checked(pop::options(&uri, content, vec![topic.clone()])) {
        assert!((1..=100).contains(&pop.count) && pop.wait.as_secs() <= 60, "{pop:?}");
        check_ttr(pop.ttr);
    }
    let (id, key) = (|| "a".parse().expect("an id"), ReservationKey::from([0; 32]));
    let rights = || (Topics::ALL, ActionRules { key: &key, limits: limits() });
    let _ = checked(action::<Finish>(id(), &uri, content, rights()));
    let _ = checked(delete_of(id(), &uri, content, rights()));
    let _ = checked(action::<IdOnly>(id(), &uri, content, rights()));
    if let Some(release) = checked(action::<Release>(id(), &uri, content, rights())) {
        check_error(release.error.as_deref());
    }
    if let Some(touch) = checked(action::<Touch>(id(), &uri, content, rights())) {
        check_ttr(touch.ttr);
    }
    if let Some(bury) = checked(action::<Bury>(id(), &uri, content, rights())) {
        check_error(bury.error.as_deref());
    }
    if let Some(steps) = checked(topics::due_steps(&uri)) {
        assert!((1..=500).contains(&steps.count) && steps.step > Millis::ZERO, "{steps:?}");
    }
    let bucket = |index| Buckets::SIXTEEN.all().nth(index);
    if let Some((_, _, range)) = checked(topics::jobs_range(&uri, &topic, bucket)) {
        assert!((1..=1000).contains(&range.limit), "{range:?}");
    }
    let _ = checked(no_body(content));
    if let Some(topic_put) = checked(parse::<PutTopic>(content, "")) {
        let defaults = checked(topic_put.valid(&topic, false));
        check_ttr(defaults.and_then(|defaults| defaults.ttr));
    }
    if let Some(push) = checked(parse::<PutPush>(content, "")) {
        let push = checked(push.valid(&topic, |_| Ok(())));
        let push = push.and_then(|push| checked(push.replacing(None, None)));
        assert!(push.is_none_or(|push| push.is_within_limits()));
    }
    if let Some(pause) = checked(parse_or_default::<PauseTopic>(content)) {
        let span = checked(pause.valid()).flatten();
        assert_ne!(span, Some(Millis::ZERO));
    }
    let _ = checked(parse::<CreateToken>(content, ""));
}

/// Checks that each cursor reads back as its position and is refused by other lists, and that
/// parsing any text does not panic.
pub fn cursors(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let _ = cursor(&mut input);
}

fn cursor(input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let topic = fuzzing::name(input)?;
    let state = *input.choose(&State::ALL)?;
    let mut due = || Ok(input.arbitrary::<Option<u64>>()?.map(UnixMillis::new));
    let due = (due()?, due()?);
    let texts = input.arbitrary::<(Option<String>, Option<String>)>()?;
    let (error_contains, id_contains) = texts;
    let due = Period { from: due.0, before: due.1 };
    let filter = JobFilter { error_contains, id_contains, due, ..JobFilter::default() };
    let cursor = Cursor { topic: &topic, state, filter };
    let mut buckets = Buckets::SIXTEEN.all();
    let bucket = buckets.nth(input.choose_index(16)?).expect("fewer than 16 buckets");
    let (at, tie): (u64, String) = input.arbitrary()?;
    let after = (!tie.is_empty()).then_some(JobPosition { at: UnixMillis::new(at), tie });
    let position = Position { bucket, after };
    let text = cursor.text(&position);
    let find = |index| Buckets::SIXTEEN.all().nth(index);
    assert_eq!(checked(cursor.parse(&text, find)), Some(position), "{text}");
    for other in State::ALL.into_iter().filter(|other| *other != state) {
        let other = Cursor { state: other, ..cursor.clone() };
        assert_eq!(checked(other.parse(&text, find)), None, "{text}");
    }
    // Parses any text, and any position with a valid checksum.
    let text: &str = input.arbitrary()?;
    checked(cursor.parse(text, find));
    checked(cursor.parse(&cursor.sealed(text), find));
    Ok(())
}
