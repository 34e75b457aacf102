//! Names that most tests use.

pub use crate::{
    faults::{history::History, load::TOPICS},
    support::{
        Redis,
        cluster::Cluster,
        free_port,
        patience::{patience, scaled, until},
        process::{Process, program},
        proxy::{Mode, Proxy},
        resp::{Reply, ask},
        sentinel::Sentinel,
        shared,
        signal::Frozen,
    },
};
pub use delay_queue::job::Millis;
pub use jiff::Timestamp;
pub use rand::rngs::StdRng;
pub use serde_json::{Value, json};
pub use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
pub use tempfile::TempDir;
pub use tokio::task::JoinSet;
