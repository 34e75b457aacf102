//! Names that most tests of this folder use.

pub use crate::prelude::*;
pub use crate::{
    store::{
        bench::{
            Bench, HOUR, LOST, MINUTE, RETENTION, SECOND, START, backoff, changing, created,
            delayed, deletion, due_in, finishing, held, id, job, job_ref, kept, nonce, one,
            peek_in, promote_in, promote_together, ready_in, redis_options, states, target, topic,
            verb, want, whole_policy, with,
        },
        calls::{ReservationChoice, STEP, Step, released},
        damage::INVARIANTS,
        equivalence::StoreUnderTest,
        finished::text,
        redis_only::command,
        restore::stored,
        workload::{Found, World, long, run_step, settle},
    },
    support::resp::Connection,
};
pub use bytes::Bytes;
pub use delay_queue::{
    job::{
        AttemptOutcome, Backoff, Bucket, Buckets, Change, Ending, Job, JobId, Living, NewJob,
        OnConflict, Outcome, PastAttempt, Pause, Policy, PolicyFields, PoppedJob, Priority,
        Refusal, Reservation, Schedule, SettingsChanges, State, States, Topic, TopicSettings,
        Topics, UnixMillis,
    },
    schedules::deadline_of,
    store::{
        Applied, Bury, Clock, Counts, Delete, Finish, JobFilter, JobPage, JobPosition, JobRange,
        JobRef, KickDead, Matched, Next, OpenError, Options, Period, Placed, PopRequest, Popped,
        PromoteCounts, Promoted, Purge, PutOutcome, Readied, ReadyJobs, Release, Selection, Steps,
        Store, StoreError, StoreResult, StoredToken, Target, TokenChange, TokenChanged, TopicPage,
        Touch, Transitioned, file::FileStore, redis::RedisStore,
    },
};
pub use proptest::test_runner::Config;
pub use std::sync::LazyLock;
pub use tokio::runtime::Runtime;
