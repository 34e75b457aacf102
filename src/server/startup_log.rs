//! Startup log of a server: its settings, and which machines can reach it.

use std::time::Duration;

use super::listener::Listener;
use crate::{
    access::Exposure,
    config::{Listen, Settings, SettingsError},
    job::State,
    queue::Queue,
    store::TopicPage,
};

/// Number of topics per page in the count of jobs.
const TOPICS_PER_PAGE: usize = 1_000;
/// Maximum number of pages in the count of jobs.
const MAX_PAGES: usize = 10;
/// Maximum duration of the count, so that it does not delay the start.
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);

pub async fn log_startup(
    listener: &Listener,
    admin: Option<&Listener>,
    settings: &Settings,
    queue: &Queue,
    has_tokens: bool,
) -> Result<(), SettingsError> {
    let location = settings.store.location()?;
    let (store, ack) = (location.name(), location.ack());
    let jobs = tokio::time::timeout(COUNT_TIMEOUT, count(queue)).await.ok().flatten();
    let tls = settings.server.tls.cert_file.is_some();
    let address = Listen::try_from(listener.to_string()).ok();
    let dashboard = address.and_then(|address| address.url(tls)).map(|url| format!("{url}/"));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        address = %listener,
        dashboard = dashboard.map(tracing::field::display),
        tls,
        tokens = if has_tokens { "required" } else { "none" },
        admin = admin.map(tracing::field::display),
        store,
        buckets = queue.buckets(),
        ack,
        jobs,
        "serving"
    );
    let all = [Some(listener), admin].into_iter().flatten();
    let open: Vec<String> = all
        .filter(|listener| !has_tokens && listener.exposure() == Exposure::Network)
        .map(ToString::to_string)
        .collect();
    if !open.is_empty() {
        tracing::warn!(
            addresses = open.join(", "),
            "insecure: other machines can reach this server, and it requires no token, so each of \
             them has full access; create tokens (`delay-queue token create`) and remove \
             server.insecure, or set server.listen and server.admin_listen to 127.0.0.1"
        );
    }
    Ok(())
}

/// Counts all jobs; returns `None` on an error, or if the topics need more than [`MAX_PAGES`].
async fn count(queue: &Queue) -> Option<u64> {
    let mut page = TopicPage { limit: TOPICS_PER_PAGE, ..TopicPage::default() };
    let mut jobs = 0;
    for _ in 0..MAX_PAGES {
        let (topics, more) = queue.topics(page.clone()).await.ok()?;
        for (_, peek) in &topics {
            jobs += State::ALL.iter().map(|&state| peek.counts.of(state)).sum::<u64>();
        }
        page.after = topics.last().map(|(topic, _)| topic.clone());
        if !more {
            return Some(jobs);
        }
    }
    None
}
