//! The format of an export: lines of JSON, each an object with one key that names its kind.
//!
//! An export begins with a head. The sections of the buckets follow, in the order of the buckets:
//! the jobs of the bucket, then a section line with their count and checksum. Topic settings,
//! schedules in the order of their names, and a total end the file. The total has a CRC-32 of all
//! lines before it. An import computes this checksum too, so that it detects a truncated file or a
//! flipped bit before it writes anything.
//! Users keep these files: an incompatible change of a line needs a new [`VERSION`].

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{job_line::JobLine, schedule_line::ScheduleLine};
use crate::job::{PolicyFields, Push, Topic, UnixMillis};

/// Name of the format in the head, by which an import recognizes an export.
pub const FORMAT: &str = "delay-queue export";
pub const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line<'a> {
    Head(Head),
    #[serde(borrow)]
    Job(JobLine<'a>),
    Section(Section),
    Topic(TopicLine),
    Schedule(Box<ScheduleLine>),
    Total(Total),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub format: String,
    pub version: u32,
    /// The source of the jobs, without a password. An export resumes only from the same source.
    pub store: String,
    /// Number of sections that follow.
    pub buckets: u16,
}

/// The line after the jobs of a bucket.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    pub bucket: u16,
    pub jobs: u64,
    /// CRC-32 of the job lines of this section, with their line feeds.
    pub crc32: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicLine {
    pub topic: Topic,
    pub paused: bool,
    /// When the pause ends by itself; `None` if only a resume ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<UnixMillis>,
    pub defaults: Option<PolicyFields>,
    /// The push without its secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Total {
    pub jobs: u64,
    pub topics: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub schedules: u64,
    /// CRC-32 of all lines before this one.
    pub crc32: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The fields that the head has in every version, so that an error can name an unsupported version.
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
        let Self { jobs, topics, schedules, crc32 } = self;
        write!(f, "{jobs} jobs, settings of {topics} topics, {schedules} schedules, CRC-32 {crc32}")
    }
}

/// Formats the CRC-32 of everything hashed so far.
pub fn format_crc32(hasher: &crc32fast::Hasher) -> String {
    format!("{:08x}", hasher.clone().finalize())
}
