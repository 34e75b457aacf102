//! Names that most tests of this folder use.

pub use crate::prelude::*;
pub use crate::{
    faults::{
        client::{Client, Put, Release},
        history::{Answer, Ask, Call, Delivery, Fate, StoreResult, Text, Time},
        judge::{Objection, Rule, judge},
        load::{Again, Load, RETENTION, TRIES, TTR, pending},
        percentiles::Durations,
        redis::Pair,
        scenario::{Scenario, confirmed},
    },
    support::{
        scan::{Scan, Stored, scan},
        scan_api::scan_agreed,
        scan_file::scan_file,
        shifted_clock::seconds_until,
        stopwatch::Stopwatch,
    },
};
pub use axum::http::StatusCode;
pub use rand::{RngExt, SeedableRng};
pub use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError, atomic::AtomicU64},
};
pub use tokio::net::TcpListener;
