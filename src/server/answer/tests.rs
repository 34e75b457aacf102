use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::{
    job::{Millis, OnConflict, Policy, PolicyFields, Schedule},
    queue::{PendingDelivery, Pop, Put, Queue, QueueSettings},
    store::{Clock, Options, file::FileStore},
};

const HOUR: Millis = Millis::new(3_600_000);

async fn queue(dir: &std::path::Path) -> Queue {
    let options = Options::new(None, Clock::Own);
    let store = Arc::new(FileStore::open(dir, options).expect("a new store"));
    let settings = QueueSettings {
        defaults: Policy { ttr: HOUR, max_attempts: 1, ..Policy::STANDARD },
        require_reservation: false,
        poll_interval: Duration::from_secs(1),
    };
    Queue::start(store, settings, &mut crate::metrics::registry()).await.expect("it starts")
}

async fn popped(queue: &Queue) -> PendingDelivery {
    let topics = vec!["t".parse().expect("a topic")];
    let wait = Duration::from_secs(10);
    queue
        .pop(Pop { topics, count: 1, ttr: None, consumer: None, wait, enough: usize::MAX })
        .await
        .expect("popped")
}

/// Returns the body of an answer with `delivery`, and the client's end of the connection.
async fn answer(delivery: PendingDelivery) -> (AnswerBody, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).await.expect("connected");
    let (server, _) = listener.accept().await.expect("accepted");
    let peer = Peer::new(Arc::new(server), None, false);
    let mut response = Response::new(Body::from("{}"));
    response.extensions_mut().insert(Delivery::new(delivery));
    (AnswerBody::new(response, peer, None, None).into_body(), client)
}

async fn written(body: &mut AnswerBody) -> Option<Result<AnswerBytes, axum::Error>> {
    let frame = poll_fn(|context| hyper::body::Body::poll_frame(Pin::new(&mut *body), context));
    frame.await.map(|frame| frame.map(|frame| frame.into_data().ok().expect("bytes")))
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_returned_unless_the_first_byte_was_accepted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let queue = queue(dir.path()).await;
    let put = Put {
        id: None,
        topic: "t".parse().expect("a topic"),
        body: Bytes::from("null"),
        schedule: Schedule::In(Millis::ZERO),
        policy: PolicyFields::default(),
        on_conflict: OnConflict::Reject,
    };
    queue.put(vec![put]).await.pop().expect("a reply").expect("put");

    let (mut disconnected, client) = answer(popped(&queue).await).await;
    drop(client);
    assert!(written(&mut disconnected).await.expect("a frame").is_err(), "no byte is sent");
    drop(disconnected);
    let delivery = popped(&queue).await;
    assert_eq!(delivery.jobs()[0].attempt, 1, "the first pop does not count");

    let (mut reset, _client) = answer(delivery).await;
    let mut bytes = written(&mut reset).await.expect("a frame").expect("bytes");
    bytes.advance(0);
    drop((reset, bytes));
    let delivery = popped(&queue).await;
    assert_eq!(delivery.jobs()[0].attempt, 1, "no byte of the answer was accepted");

    let (mut reading, _client) = answer(delivery).await;
    let mut bytes = written(&mut reading).await.expect("a frame").expect("bytes");
    bytes.advance(1);
    assert_eq!(bytes.chunk(), b"}");
    drop((reading, bytes));
    let topics = vec!["t".parse().expect("a topic")];
    let wait = Duration::from_millis(200); // no event shows that no job comes back
    let again = Pop { topics, count: 1, ttr: None, consumer: None, wait, enough: usize::MAX };
    assert_eq!(queue.pop(again).await.expect("popped").jobs(), []);
    queue.stop().await;
}
