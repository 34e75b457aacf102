//! The format of an export: lines of JSON, each an object with one key that tells its kind.
//!
//! A head; for each bucket, in order, its jobs and a section line that counts and sums them up;
//! topic settings; a total. Every byte is under a CRC-32 or compared: a cut or a flipped
//! bit is found before anything is made of the file. Persisted: another form of any line needs
//! another [`VERSION`].

use std::fmt;

use serde::{Deserialize, Serialize};

use super::job_line::JobLine;
use crate::job::{PolicyFields, Topic, UnixMillis};

/// What the head names, so that no other file is taken for an export.
pub const FORMAT: &str = "delay-queue export";
/// The version of the format that this program writes and reads.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line<'a> {
    Head(Head),
    #[serde(borrow)]
    Job(JobLine<'a>),
    Section(Section),
    Topic(TopicLine),
    Total(Total),
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub format: String,
    pub version: u32,
    /// Where the jobs come from, without a password: an export that goes on must be of the same.
    pub store: String,
    /// How many sections follow.
    pub buckets: u16,
}

/// After the jobs of a bucket.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    pub bucket: u16,
    pub jobs: u64,
    /// Of their lines, with the line feeds.
    pub crc32: String,
}

/// The settings of a topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicLine {
    pub topic: Topic,
    pub paused: bool,
    /// When the pause ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<UnixMillis>,
    pub defaults: Option<PolicyFields>,
}

/// The last line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Total {
    pub jobs: u64,
    pub topics: u64,
    /// Of all lines before.
    pub crc32: String,
}

/// What every version of the first line has: enough to refuse others by name.
#[derive(Deserialize)]
pub struct AnyHead {
    pub head: AnyVersion,
}

#[derive(Deserialize)]
pub struct AnyVersion {
    pub format: String,
    pub version: u32,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, jobs, crc32 } = self;
        write!(f, "bucket {bucket}, {jobs} jobs, CRC-32 {crc32}")
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { jobs, topics, crc32 } = self;
        write!(f, "{jobs} jobs, settings of {topics} topics, CRC-32 {crc32}")
    }
}

/// A sum as lines have it.
pub fn sum(of: &crc32fast::Hasher) -> String {
    format!("{:08x}", of.clone().finalize())
}
