//! The route that hands jobs out.

use std::{
    io::{self, ErrorKind},
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::State,
    http::{
        HeaderValue, Uri,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::Response,
};
use hyper::body::{Frame, SizeHint};

use crate::{
    http::{
        app::App,
        client::{identity::Identity, peer::Peer},
        extract::{content::Content, input::PathTopics, parse::parse_or_default, query::Query},
        limits::{held::Counted, in_flight::Place, memory::Memory, quotas::Caller},
        problem::Problem,
        wire::{PopOptions, PoppedJobs, PoppedResponse},
    },
    job::{ReservationKey, Topic},
    queue::{PendingDelivery, Pop},
    traces,
};

pub async fn pop(
    State(app): State<App>,
    (identity, caller): (Identity, Caller),
    Extension(peer): Extension<Peer>,
    place: Option<Extension<Place>>,
    PathTopics(topics): PathTopics,
    uri: Uri,
    Content(content): Content,
) -> Result<Response, Problem> {
    topics.iter().try_for_each(|topic| identity.may(topic))?;
    let pop = Pop { enough: app.memory.of_one_pop(), ..options(&uri, &content, topics)? };
    // Before it reserves; should there be no room afterwards, jobs are given back.
    app.memory.room().await?;
    let waiting = match pop.wait.is_zero() {
        true => None,
        false => Some(app.quotas.wait(caller)?),
    };
    if let Some(Extension(place)) = place.filter(|_| waiting.is_some()) {
        place.leave();
    }
    let mut delivery = app.queue.pop(pop).await?;
    drop(waiting);
    // Dropping the delivery gives its jobs back.
    identity.check()?;
    let json = text(&app.memory, &mut delivery, &app.queue.reservation_key())?;
    for job in delivery.jobs() {
        tracing::debug!(target: traces::TARGET, id = %job.id, topic = %job.topic, "popped");
        job.policy.traceparent.into_iter().for_each(traces::follows);
    }
    let body = DeliveryBody { json: Some(json), delivery: Some(delivery), peer };
    let mut response = Response::new(Body::new(body));
    response.extensions_mut().insert(Counted);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The jobs as JSON: as many as there is room for, at least one. The others are given back at once.
fn text(
    memory: &Memory,
    delivery: &mut PendingDelivery,
    key: &ReservationKey,
) -> Result<Bytes, Problem> {
    loop {
        // There must be room for the text before it is made.
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

/// What query and body ask for.
pub fn options(uri: &Uri, content: &[u8], topics: Vec<Topic>) -> Result<Pop, Problem> {
    let mut query = Query::new(uri);
    let in_query = PopOptions {
        wait: query.duration("wait")?,
        count: query.number("count")?,
        ttr: query.duration("ttr")?,
    };
    query.reject_unknown()?;
    parse_or_default::<PopOptions>(content)?.or(in_query)?.valid(topics)
}

/// An answer that carries reserved jobs. They are the client's when the connection takes the
/// text; if the client is gone by then, they are given back.
struct DeliveryBody {
    json: Option<Bytes>,
    delivery: Option<PendingDelivery>,
    peer: Peer,
}

impl hyper::body::Body for DeliveryBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(delivery) = self.delivery.take() {
            if self.peer.is_gone() {
                // Not a byte of it may go out: the jobs go to another consumer.
                self.json = None;
                return Poll::Ready(Some(Err(ErrorKind::ConnectionAborted.into())));
            }
            delivery.keep();
        }
        Poll::Ready(self.json.take().map(|json| Ok(Frame::data(json))))
    }

    fn is_end_stream(&self) -> bool {
        self.json.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.json.as_ref().map_or(0, |json| json.len() as u64))
    }
}

#[cfg(test)]
mod tests;
