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

use super::{
    App, Peer,
    content::Content,
    input::PathTopics,
    parse::parse_or_default,
    problem::Problem,
    query::Query,
    wire::{PopOptions, PoppedJobs},
};
use crate::queue::PendingDelivery;

pub async fn pop(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathTopics(topics): PathTopics,
    uri: Uri,
    Content(content): Content,
) -> Result<Response, Problem> {
    let mut query = Query::new(&uri);
    let in_query = PopOptions {
        wait: query.duration("wait")?,
        count: query.number("count")?,
        ttr: query.duration("ttr")?,
    };
    query.reject_unknown()?;
    let pop = parse_or_default::<PopOptions>(&content)?.or(in_query)?.valid(topics)?;
    // Before it reserves; should there be no room afterwards, the jobs are given back.
    app.memory.has_room()?;
    let handed = app.queue.pop(pop).await?;
    let jobs = handed.jobs().iter().map(Into::into).collect();
    let json = app.memory.json(&PoppedJobs { jobs })?;
    let body = HandedBody { json: Some(json), handed: Some(handed), peer };
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// An answer that carries reserved jobs. They are the client's when the connection takes the
/// text; if the client is gone by then, they are given back.
struct HandedBody {
    json: Option<Bytes>,
    handed: Option<PendingDelivery>,
    peer: Peer,
}

impl hyper::body::Body for HandedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(handed) = self.handed.take() {
            if self.peer.is_gone() {
                // Not a byte of it may go out: the jobs go to another consumer.
                self.json = None;
                return Poll::Ready(Some(Err(ErrorKind::ConnectionAborted.into())));
            }
            handed.keep();
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
mod tests {
    use std::{future::poll_fn, sync::Arc, time::Duration};

    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::{
        job::{Defaults, Millis, OnConflict, Schedule},
        queue::{Pop, Put, Queue, QueueSettings},
        store::{Clock, Options, file::FileStore},
    };

    const HOUR: Millis = Millis::new(3_600_000);

    async fn queue(dir: &std::path::Path) -> Queue {
        let options = Options { buckets: None, clock: Clock::Own };
        let store = Arc::new(FileStore::open(dir, options).expect("a new store"));
        let settings = QueueSettings {
            defaults: Defaults { ttr: HOUR, max_attempts: 1, dead_retention: HOUR },
            require_reservation: false,
            poll_interval: Duration::from_secs(1),
        };
        Queue::start(store, settings).await.expect("it starts")
    }

    async fn popped(queue: &Queue) -> PendingDelivery {
        let topics = vec!["t".parse().expect("a topic")];
        let wait = Duration::from_secs(10);
        queue.pop(Pop { topics, count: 1, ttr: None, wait }).await.expect("popped")
    }

    /// The answer to a pop, and the client's end of its connection.
    async fn answer(handed: PendingDelivery) -> (HandedBody, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let client = TcpStream::connect(address).await.expect("connected");
        let (server, _) = listener.accept().await.expect("accepted");
        let peer = Peer::new(Arc::new(server));
        (HandedBody { json: Some(Bytes::from("{}")), handed: Some(handed), peer }, client)
    }

    async fn written(body: &mut HandedBody) -> Option<Result<Frame<Bytes>, io::Error>> {
        poll_fn(|context| hyper::body::Body::poll_frame(Pin::new(&mut *body), context)).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_answer_is_written_only_to_a_client_that_is_there_and_else_its_jobs_go_back() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let queue = queue(dir.path()).await;
        let put = Put {
            id: None,
            topic: "t".parse().expect("a topic"),
            body: Bytes::from("null"),
            schedule: Schedule::In(Millis::ZERO),
            ttr: None,
            max_attempts: None,
            backoff: None,
            on_conflict: OnConflict::Reject,
        };
        queue.put(vec![put]).await.pop().expect("a reply").expect("put");

        let (mut gone, client) = answer(popped(&queue).await).await;
        drop(client);
        assert!(written(&mut gone).await.expect("a frame").is_err(), "not a byte goes out");
        assert!(written(&mut gone).await.is_none());
        let handed = popped(&queue).await;
        assert_eq!(handed.jobs()[0].attempt, 1, "as if the first pop had not been");

        let (mut there, _client) = answer(handed).await;
        assert!(written(&mut there).await.expect("a frame").is_ok());
        drop(there);
        queue.stop().await;
    }
}
