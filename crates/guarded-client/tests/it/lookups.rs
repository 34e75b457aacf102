//! Look-ups of many names, and of names whose name server is silent.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use guarded_client::{Client, Failure, MAX_OWN_LOOKUPS, Options, Resolve, Resolving};
use tokio::{
    io::AsyncWriteExt,
    sync::{Semaphore, mpsc},
    time::{advance, pause, resume},
};

use crate::support::{body, listen, loopback, post, read_request};

/// Resolver that has no answer before it gets a permit, except for names that begin with `good`.
struct Slow {
    address: SocketAddr,
    permits: Arc<Semaphore>,
    begun: mpsc::UnboundedSender<String>,
}

impl Resolve for Slow {
    fn resolve(&self, host: &str, _: u16) -> Resolving {
        self.begun.send(host.to_owned()).expect("the test receives");
        let (address, permits) = (self.address, Arc::clone(&self.permits));
        let is_good = host.starts_with("good");
        Box::pin(async move {
            if is_good {
                return Ok(vec![address]);
            }
            permits.acquire().await.map_err(io::Error::other)?.forget();
            Err(io::Error::other("no such name"))
        })
    }
}

struct Setting {
    client: Client,
    permits: Arc<Semaphore>,
    begun: mpsc::UnboundedReceiver<String>,
}

/// Starts an endpoint that closes each connection after its answer, and a client of it.
async fn setting() -> Setting {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.expect("accepted");
            read_request(&mut tcp).await;
            let text = b"HTTP/1.1 200 Ok\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
            tcp.write_all(text).await.expect("written");
        }
    });
    let (sender, begun) = mpsc::unbounded_channel();
    let permits = Arc::new(Semaphore::new(0));
    let resolver = Slow { address, permits: Arc::clone(&permits), begun: sender };
    let options = Options { connect_timeout: Duration::from_secs(60), ..loopback() };
    let client = Client::with_resolver(options, Arc::new(resolver)).expect("a client");
    Setting { client, permits, begun }
}

fn spawn(client: &Client, host: &str) -> tokio::task::JoinHandle<Result<(), Failure>> {
    let (client, url) = (client.clone(), format!("http://{host}/"));
    tokio::spawn(async move { post(&client, &url).await.map(drop) })
}

#[tokio::test]
async fn a_name_is_looked_up_once_at_a_time() {
    let mut setting = setting().await;
    let requests: Vec<_> = (0..20).map(|_| spawn(&setting.client, "slow.test")).collect();
    assert_eq!(setting.begun.recv().await.as_deref(), Some("slow.test"));
    // All wait for the one look-up.
    setting.permits.add_permits(1);
    for request in requests {
        let failure = request.await.expect("ended").expect_err("no such name");
        assert!(failure.to_string().contains("no such name"), "{failure}");
    }
    assert!(setting.begun.try_recv().is_err());
}

#[tokio::test]
async fn a_failure_is_remembered_for_a_moment() {
    let mut setting = setting().await;
    setting.permits.add_permits(2);
    for _ in 0..3 {
        post(&setting.client, "http://slow.test/").await.expect_err("no such name");
    }
    setting.begun.recv().await.expect("a look-up");
    assert!(setting.begun.try_recv().is_err());
    pause();
    advance(Duration::from_secs(5)).await;
    resume();
    post(&setting.client, "http://slow.test/").await.expect_err("no such name");
    setting.begun.recv().await.expect("another look-up");
}

#[tokio::test]
async fn a_user_takes_only_some_places() {
    let mut setting = setting().await;
    let user = setting.client.for_user();
    let requests: Vec<_> =
        (0..100).map(|number| spawn(&user, &format!("slow{number}.test"))).collect();
    for _ in 0..MAX_OWN_LOOKUPS {
        setting.begun.recv().await.expect("a look-up");
    }
    assert_eq!(body(post(&setting.client, "http://good.test/").await), "ok");
    assert_eq!(setting.begun.recv().await.as_deref(), Some("good.test"));
    for request in requests {
        request.abort();
    }
}

#[tokio::test]
async fn names_that_had_addresses_have_places_of_their_own() {
    let mut setting = setting().await;
    assert_eq!(body(post(&setting.client, "http://good.test/").await), "ok");
    setting.begun.recv().await.expect("a look-up");
    let users: Vec<_> = (0..100).map(|_| setting.client.for_user()).collect();
    let requests: Vec<_> = users
        .iter()
        .enumerate()
        .map(|(number, user)| spawn(user, &format!("slow{number}.test")))
        .collect();
    for _ in 0..48 {
        setting.begun.recv().await.expect("a look-up");
    }
    assert_eq!(body(post(&setting.client, "http://good.test/").await), "ok");
    assert_eq!(setting.begun.recv().await.as_deref(), Some("good.test"));
    for request in requests {
        request.abort();
    }
}
