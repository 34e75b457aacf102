use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::{
    job::{Millis, OnConflict, Policy, PolicyFields, Schedule},
    queue::{Pop, Put, Queue, QueueSettings},
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
    queue.pop(Pop { topics, count: 1, ttr: None, wait, enough: usize::MAX }).await.expect("popped")
}

/// The answer to a pop, and the client's end of its connection.
async fn answer(delivery: PendingDelivery) -> (DeliveryBody, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).await.expect("connected");
    let (server, _) = listener.accept().await.expect("accepted");
    let peer = Peer::new(Arc::new(server), None, false);
    (DeliveryBody { json: Some(Bytes::from("{}")), delivery: Some(delivery), peer }, client)
}

async fn written(body: &mut DeliveryBody) -> Option<Result<Frame<Bytes>, io::Error>> {
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
        policy: PolicyFields::default(),
        on_conflict: OnConflict::Reject,
    };
    queue.put(vec![put]).await.pop().expect("a reply").expect("put");

    let (mut gone, client) = answer(popped(&queue).await).await;
    drop(client);
    assert!(written(&mut gone).await.expect("a frame").is_err(), "not a byte goes out");
    assert!(written(&mut gone).await.is_none());
    let delivery = popped(&queue).await;
    assert_eq!(delivery.jobs()[0].attempt, 1, "as if the first pop had not been");

    let (mut there, _client) = answer(delivery).await;
    assert!(written(&mut there).await.expect("a frame").is_ok());
    drop(there);
    queue.stop().await;
}
