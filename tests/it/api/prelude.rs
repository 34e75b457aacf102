//! Names that most tests of this folder use.

pub use crate::prelude::*;
pub use crate::{
    api::{
        acknowledged::{master_and_replica, wait_until_connected},
        expiry::{act, get, patch},
        server::{Answer, Server, pass, reservation_of},
    },
    support::stopwatch::Stopwatch,
};
pub use delay_queue::{
    config::Settings,
    store::redis::{Ack, Secret},
};
pub use futures::future::join_all;
pub use reqwest::Method;
pub use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
