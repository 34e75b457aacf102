//! Schemas of the values of a schedule.

use schemars::json_schema;

use super::types::duration;
use crate::{
    http::wire::MAX_CRON_BYTES,
    job::{MAX_DURATION, Millis},
};

/// Cron line.
pub struct Cron;
/// Name of a time zone.
pub struct Zone;
/// Time between two instants.
pub struct Every;
/// Behaviour while the last job has not ended.
pub struct OverlapWord;
/// Behaviour at missed instants.
pub struct MissedWord;
super::schemas! {
    Cron => |_| json_schema!({ "type": "string", "format": "cron", "maxLength": MAX_CRON_BYTES });
    Zone => |_| json_schema!({ "type": "string", "format": "timezone" });
    Every => |_| duration(Millis::new(1_000), MAX_DURATION);
    OverlapWord => |_| json_schema!({ "type": "string", "enum": ["put", "skip"] });
    MissedWord => |_| json_schema!({ "type": "string", "enum": ["once", "none", "all"] });
}
