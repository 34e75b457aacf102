//! `delay-queue demo`: a throw-away server with a living example, so that the dashboard moves.
//!
//! The example is a client of its server and uses only the API: an invented shop that closes
//! unpaid orders, sends webhooks to an endpoint in this process, and reminds its customers.

mod consumer;
mod endpoint;
mod shop;

use std::{error::Error, io, net::TcpListener, sync::Arc, time::Duration};

use serde_json::json;
use tokio::time::sleep;

use self::endpoint::Endpoint;
use super::{
    Arguments,
    client::{Client, Failure, Form, Output, Request},
    dev::{ThrowAway, variables},
    output,
    remote::Remote,
};
use crate::access::SecretToken;

/// The address of a server by default, so that the lines of the documentation work with a demo.
const USUAL: &str = "127.0.0.1:9277";
const ANY_PORT: &str = "127.0.0.1:0";
/// Topics of the example. A user's own `orders` stay apart.
const ORDERS: &str = "shop.orders";
const REMINDERS: &str = "shop.reminders";
const WEBHOOKS: &str = "shop.webhooks";

/// Runs the server and the example until a signal.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let is_free = TcpListener::bind(USUAL).is_ok();
    let mut server = ThrowAway::new(arguments, if is_free { USUAL } else { ANY_PORT })?;
    let token = server.is_exposed().then(|| server.create_token()).transpose()?;
    let endpoint = Endpoint::bind()?;
    if server.settings.log.filter == "info" {
        // The settings of the example would hide the welcome.
        server.settings.log.filter = "warn".to_owned();
    }
    server.settings.push.allowed_networks.0.push("127.0.0.1/32".to_owned());
    server.run(|url, _| {
        output::line(variables(url, token.as_ref()))?;
        eprintln!("{}", welcome(url));
        let client = Arc::new(client(url, token)?);
        let hook = endpoint.start();
        tokio::spawn(async move {
            if let Err(failure) = play(client, &hook).await {
                tracing::warn!(%failure, "the example of the demo ended");
            }
        });
        Ok(())
    })
}

fn welcome(url: &str) -> String {
    format!(
        "\ndelay-queue: a shop with orders, webhooks and reminders is open. Look at its dashboard:\n\n    {url}/\n\n\
         Put a job of your own from another shell (export the line above there):\n\n    \
         delay-queue put hello '{{\"from\": \"me\"}}' --delay 10s\n    \
         delay-queue pop hello --wait 20s\n\n\
         Ctrl-C stops the demo and deletes its jobs.\n"
    )
}

/// Creates a client of the server in this process.
fn client(url: &str, token: Option<SecretToken>) -> io::Result<Client> {
    let remote = Remote::with_token(url, token, None).map_err(|error| {
        io::Error::other(format!("the demo needs a server at http://HOST:PORT: {error}"))
    })?;
    Ok(Client::new(remote, url.to_owned(), Output::new(Some(Form::Jsonl))))
}

/// Sets up the topics, then runs producers and consumers for as long as the server runs.
async fn play(client: Arc<Client>, hook: &str) -> Result<(), Failure> {
    set_up(&client, hook).await?;
    let closers = ["closer-1", "closer-2"].map(|name| consumer::close_orders(&client, name));
    tokio::join!(
        shop::sell(&client),
        shop::remind(&client),
        futures::future::join_all(closers),
        consumer::send_reminders(&client),
    );
    Ok(())
}

/// Sets the defaults of the topics, so that the demo does not grow for ever, and the push.
async fn set_up(client: &Client, hook: &str) -> Result<(), Failure> {
    let keep = json!({"dead_retention": "30m", "finished_retention": "5m"});
    let mut orders = keep.clone();
    orders["ttr"] = "5s".into();
    orders["max_attempts"] = 3.into();
    orders["backoff"] = json!(["2s", "10s"]);
    let mut webhooks = keep.clone();
    webhooks["max_attempts"] = 4.into();
    for (topic, defaults) in [(ORDERS, orders), (WEBHOOKS, webhooks), (REMINDERS, keep)] {
        let request = Request::put(format!("/topics/{topic}")).json(&defaults)?;
        client.send(request).await?;
    }
    let push = json!({
        "url": hook, "concurrency": 4, "timeout": "5s", "backoff": ["2s", "5s", "15s"],
        "secrets": [endpoint::SECRET],
    });
    client.send(Request::put(format!("/topics/{WEBHOOKS}/push")).json(&push)?).await.map(drop)
}

/// Sends a request of the example. Retries while the server is busy; a refusal is part of the
/// example, for instance a job that another consumer got.
async fn send(client: &Client, request: impl Fn() -> Request) -> Option<bytes::Bytes> {
    loop {
        match client.send(request()).await {
            Ok(answer) => return Some(answer),
            Err(failure) if failure.is_temporary() => sleep(Duration::from_secs(1)).await,
            Err(failure) => {
                tracing::debug!(%failure, "the server refused a request of the demo");
                return None;
            }
        }
    }
}
