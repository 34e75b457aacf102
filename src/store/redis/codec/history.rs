//! Form of the histories of jobs: `1 <sum> <text>`, the text as in `job/history/text.rs`. The sum
//! covers the job's id, a blank, and the text. Persisted: must stay stable.
//!
//! An `h` after the number in an attempt record means that the job may have a history. After a
//! kick, the attempt record may consist of [`MARK`] alone. The record of a finished job has no
//! mark. It may contain the only entry of its history: see `codec/finished.rs`.

use super::sum;
use crate::job::{History, Job, JobId};

/// Attempt record of a job with a history whose attempts count from zero again.
pub const MARK: &str = "h";

/// Formats the history of a job from another store; empty if it has none.
pub fn history_text(job: &Job) -> String {
    let history = History::from_job(job);
    if history.is_empty() { String::new() } else { text_of_history(&job.id, &history) }
}

/// Formats the history of the job `id`.
pub fn text_of_history(id: &JobId, history: &History) -> String {
    let text = history.to_string();
    ["1 ", &sum(&[id.as_str(), " ", &text]), " ", &text].concat()
}

/// Parses the history of the job `id`. A damaged history counts as empty, so that the job can still
/// be shown.
pub fn parse_history(id: &JobId, text: &[u8]) -> History {
    let parse = || {
        let text = std::str::from_utf8(text).ok()?;
        let (own, rest) = text.strip_prefix("1 ")?.split_once(' ')?;
        (own == sum(&[id.as_str(), " ", rest])).then(|| History::parse(rest)).flatten()
    };
    parse().unwrap_or_else(|| {
        if !text.is_empty() {
            tracing::warn!(%id, "left out a damaged history");
        }
        History::default()
    })
}
