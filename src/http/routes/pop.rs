//! Route that pops jobs.

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderValue, Uri, header::CACHE_CONTROL},
    response::Response,
};

use crate::{
    http::{
        app::App,
        client::identity::Identity,
        extract::{content::Content, input::PathTopics, parse::parse_or_default, query::Query},
        limits::{
            delivery::{Delivery, refuse},
            held::Counted,
            in_flight::InFlightPermit,
            memory::Memory,
            quotas::Caller,
        },
        problem::Problem,
        wire::{PopOptions, PoppedJobs, PoppedResponse, json},
    },
    job::{ReservationKey, Topic},
    queue::{PendingDelivery, Pop},
    traces,
};

pub async fn pop(
    State(app): State<App>,
    (identity, caller): (Identity, Caller),
    permit: InFlightPermit,
    PathTopics(topics): PathTopics,
    uri: Uri,
    Content(content): Content,
) -> Result<Response, Problem> {
    topics.iter().try_for_each(|topic| identity.may(topic))?;
    let pop = Pop { enough: app.memory.max_pop_bytes(), ..options(&uri, &content, topics)? };
    // Frees memory before jobs are reserved. If memory is short even so, the jobs are given back.
    app.memory.free_room().await?;
    let waiting = match pop.wait.is_zero() {
        true => None,
        false => Some(app.quotas.wait(caller)?),
    };
    if waiting.is_some() {
        permit.leave();
    }
    let mut delivery = app.queue.pop(pop).await?;
    drop(waiting);
    let key = app.queue.reservation_key();
    let text = match identity.check().and_then(|()| text(&app.memory, &mut delivery, &key)) {
        Ok(text) => text,
        Err(problem) => return Err(refuse(delivery, problem).await),
    };
    for job in delivery.jobs() {
        tracing::debug!(target: traces::TARGET, id = %job.id, topic = %job.topic, "popped");
        job.policy.traceparent.into_iter().for_each(traces::follows);
    }
    let mut response = json::response(text);
    response.extensions_mut().insert(Counted);
    response.extensions_mut().insert(Delivery::new(delivery));
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Serialises the jobs for which there is memory, at least one, and gives the others back at once.
fn text(
    memory: &Memory,
    delivery: &mut PendingDelivery,
    key: &ReservationKey,
) -> Result<Bytes, Problem> {
    loop {
        // Checks for memory before the text is allocated.
        let json = memory.share().grow(delivery.bytes()).and_then(|()| {
            let jobs = delivery.jobs().iter().map(|job| PoppedResponse::new(job, key)).collect();
            memory.json(&PoppedJobs { jobs })
        });
        match json {
            Err(_) if delivery.jobs().len() > 1 => delivery.halve(),
            json => return json,
        }
    }
}

/// Parses the options in query and body.
pub fn options(uri: &Uri, content: &[u8], topics: Vec<Topic>) -> Result<Pop, Problem> {
    let mut query = Query::new(uri);
    let in_query = PopOptions {
        wait: query.duration("wait")?,
        count: query.number("count")?,
        ttr: query.duration("ttr")?,
        consumer: query.consumer()?,
    };
    query.reject_unknown()?;
    parse_or_default::<PopOptions>(content)?.or(in_query)?.valid(topics)
}
