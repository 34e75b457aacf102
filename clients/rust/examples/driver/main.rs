//! The driver: a program through which the suite of scenarios tests this crate.
//! `clients/CONTRACT.md` describes its commands.

mod bare;
mod commands;
mod fake;
mod gates;
mod handler;
mod reply;
mod work;

use std::{env, sync::Arc, time::Duration};

use delay_queue_client::{Error, Queue, shutdown_signal};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

use crate::{gates::Gates, reply::print, work::Work};

/// Parts that all commands share.
struct Driver {
    queue: Result<Queue, Error>,
    url: String,
    token: Option<String>,
    gates: Arc<Gates>,
    work: Work,
}

impl Driver {
    fn new() -> Self {
        let url = env::var("DELAY_QUEUE_URL").unwrap_or_default();
        let token = env::var("DELAY_QUEUE_TOKEN").ok().filter(|token| !token.is_empty());
        let retry_for = env::var("DELAY_QUEUE_RETRY_FOR").ok().and_then(|text| text.parse().ok());
        let mut queue = Queue::new(&url);
        if let Some(token) = &token {
            queue = queue.and_then(|queue| queue.token(token));
        }
        if let Some(seconds) = retry_for {
            queue = queue.map(|queue| queue.retry_for(Duration::from_secs_f64(seconds)));
        }
        Driver { queue, url, token, gates: Arc::default(), work: Work::default() }
    }
}

#[tokio::main]
async fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let driver = Arc::new(Driver::new());
    print(&json!({"event": "ready", "pid": std::process::id()}));
    let mut lines = BufReader::new(stdin()).lines();
    let signal = shutdown_signal();
    tokio::pin!(signal);
    loop {
        tokio::select! {
            () = &mut signal => break,
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { break };
                let driver = Arc::clone(&driver);
                tokio::spawn(async move { driver.answer(&line).await });
            }
        }
    }
    driver.work.stop().await;
    // A thread still waits for standard input.
    std::process::exit(0);
}

impl Driver {
    async fn answer(&self, line: &str) {
        let Ok(command) = serde_json::from_str::<Value>(line) else {
            eprintln!("this is not JSON: {line}");
            return;
        };
        let n = &command["n"];
        match self.run(&command).await {
            Ok(value) => print(&json!({"n": n, "ok": value})),
            Err(failure) => print(&json!({"n": n, "error": failure.json()})),
        }
    }
}
