//! The domain: jobs and their transitions.
//!
//! This module knows no store, clock or HTTP. Text from outside is converted to these types once,
//! at the edge; inside, every value is valid.

mod backoff;
mod bucket;
mod consumer;
mod duration;
mod headers;
mod history;
mod id;
mod json;
mod list;
pub mod name;
mod policy;
mod priority;
mod push;
mod record;
mod reservation;
mod reservation_key;
mod schedule_name;
pub mod schema;
mod state;
mod time;
mod topic;
mod topic_pattern;
mod topic_settings;
mod traceparent;

pub use backoff::{Backoff, BackoffError, MAX_FACTOR, MAX_VALUES};
pub use bucket::{Bucket, Buckets, BucketsError, HASH_NAME};
pub use consumer::{Consumer, ConsumerError, MAX_CONSUMER};
pub use duration::{DurationError, MAX_DURATION, Millis};
pub use headers::{
    Headers, HeadersError, MAX_HEADER_BYTES, MAX_HEADERS, RESERVED_NAMES as RESERVED_HEADER_NAMES,
};
pub use history::{
    AttemptOutcome, History, Hold, MAX_HISTORY, MAX_HISTORY_ERROR_BYTES, PastAttempt, Running,
    beginning, cut_error,
};
pub use id::{IdMaker, JobId};
pub use json::{JsonFault, MAX_DEPTH, check_json, json_pointer};
pub use list::List;
pub use name::{MAX_LEN as MAX_NAME, NameError};
pub use policy::{Policy, PolicyError, PolicyFields};
pub use priority::{Priority, PriorityError};
pub use push::{
    Hidden, MAX_PUSH_BATCH, MAX_PUSH_CONCURRENCY, MAX_PUSH_LINGER, MAX_PUSH_SECRETS,
    MAX_PUSH_TIMEOUT, MAX_PUSH_URL_BYTES, MIN_PUSH_TIMEOUT, Push, PushBatch, PushPause, Rate,
    RateError, decode_secret,
};
pub use record::{
    Change, Ending, Job, MAX_ERROR_BYTES, MAX_FINISHED_RETENTION, MAX_RESULT_BYTES, MAX_TTR,
    MIN_TTR, NewJob, OnConflict, Outcome, PoppedJob, Schedule,
};
pub use reservation::{Nonce, Reservation};
pub use reservation_key::{ReservationKey, TaggedReservation};
pub use schedule_name::{MAX_SCHEDULE_NAME, ScheduleName};
pub use state::{After, Due, Event, InvalidStates, Living, Refusal, State, States, next};
pub use time::{TimeError, UnixMillis};
pub use topic::Topic;
pub use topic_pattern::{MAX_PATTERNS, PatternError, TopicPattern, Topics};
pub use topic_settings::{Pause, Setting, SettingKind, SettingsChanges, TopicSettings};
pub use traceparent::{TraceParent, TraceParentError};
