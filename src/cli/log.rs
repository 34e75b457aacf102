//! The log of the program: format, filter, and summaries of repeated warnings.

use std::{
    collections::{HashMap, hash_map::Entry},
    convert::Infallible,
    error::Error,
    fmt,
    hash::{DefaultHasher, Hasher},
    io::IsTerminal,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tracing::{
    Event, Level, Subscriber,
    callsite::Identifier,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    layer::{Context, SubscriberExt},
    registry,
    util::SubscriberInitExt,
};

use crate::config::{LogFormat, LogSettings};

/// Time after which hidden lines are summarised.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of distinct lines shown per log call and [`SUMMARY_INTERVAL`].
const MAX_DISTINCT_LINES: usize = 10;
/// Fields that differ with every request; lines that differ only in them count as equal.
const REQUEST_FIELDS: [&str; 3] = ["request_id", "path", "ms"];

/// Starts the log of a command, which shows every line.
pub fn start(settings: &LogSettings) -> Result<(), Box<dyn Error>> {
    start_with(settings, None, None)
}

/// Second destination of log events, with its own filter.
pub type ExtraLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts the log of a server, which summarises repeated lines.
pub fn start_summarising(
    settings: &LogSettings,
    other: Option<ExtraLayer>,
) -> Result<RepeatedLines, Box<dyn Error>> {
    let repeated = RepeatedLines::default();
    start_with(settings, Some(repeated.clone()), other)?;
    Ok(repeated)
}

fn start_with(
    settings: &LogSettings,
    repeated: Option<RepeatedLines>,
    other: Option<ExtraLayer>,
) -> Result<(), Box<dyn Error>> {
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let lines = match settings.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
    };
    let filter = settings.filter.parse::<Targets>()?;
    match other {
        // A single filter is cheaper.
        None => registry().with(lines).with(filter).with(repeated).init(),
        Some(other) => {
            let lines = lines.with_filter(filter).boxed();
            registry().with(vec![other, lines]).with(repeated).init();
        }
    }
    Ok(())
}

/// Filter that hides repeated warnings and errors: otherwise a client that retries a failing
/// request in a loop could fill the disk of the log. It counts lines by the log call that wrote
/// them.
#[derive(Clone, Default)]
pub struct RepeatedLines(Arc<Mutex<HashMap<Identifier, LogSite>>>);

/// A log call in the code that has written a warning or error recently.
struct LogSite {
    /// When its first line was shown.
    since: Instant,
    /// Hashes of the lines shown since then.
    shown: Vec<u64>,
    /// Number of lines hidden since then.
    hidden: u64,
    level: Level,
    message: String,
}

impl RepeatedLines {
    /// Logs summaries every second, until the future is dropped.
    pub async fn log_summaries_forever(&self) -> Infallible {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
            self.log_summaries(SUMMARY_INTERVAL);
        }
    }

    /// Logs the summaries of log calls whose first line is at least `age` old, and forgets them.
    pub fn log_summaries(&self, age: Duration) {
        let expired: Vec<LogSite> = {
            let mut sites = self.lock();
            sites.extract_if(|_, site| site.since.elapsed() >= age).map(|(_, site)| site).collect()
        };
        for LogSite { since, hidden, level, message, .. } in expired {
            let seconds = since.elapsed().as_secs().max(1);
            let line = format!("… and {} more in the last {seconds} s: {message}", grouped(hidden));
            match level {
                _ if hidden == 0 => {}
                Level::ERROR => tracing::error!("{line}"),
                _ => tracing::warn!("{line}"),
            }
        }
    }

    /// Counts a line and returns whether to show it.
    fn is_new(&self, event: &Event<'_>) -> bool {
        let mut line = Line::default();
        event.record(&mut line);
        let hash = line.hash.finish();
        let mut sites = self.lock();
        let site = match sites.entry(event.metadata().callsite()) {
            Entry::Occupied(site) => site.into_mut(),
            Entry::Vacant(site) => site.insert(LogSite {
                since: Instant::now(),
                shown: Vec::new(),
                hidden: 0,
                level: *event.metadata().level(),
                message: line.message,
            }),
        };
        let is_new = site.shown.len() < MAX_DISTINCT_LINES && !site.shown.contains(&hash);
        match is_new {
            true => site.shown.push(hash),
            false => site.hidden += 1,
        }
        is_new
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Identifier, LogSite>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Subscriber> Layer<S> for RepeatedLines {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        *metadata.level() > Level::WARN || metadata.target() == module_path!() || self.is_new(event)
    }
}

/// The message of a line, and a hash of its fields.
#[derive(Default)]
struct Line {
    message: String,
    hash: DefaultHasher,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if REQUEST_FIELDS.contains(&field.name()) {
            return;
        }
        let value = format!("{value:?}");
        self.hash.write(field.name().as_bytes());
        self.hash.write(value.as_bytes());
        if field.name() == "message" {
            self.message = value;
        }
    }
}

/// Formats 3412 as `3,412`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
