//! Names that most tests of this folder use.

pub use crate::prelude::*;
pub use crate::{
    api::{
        acknowledged::{master_and_replica, wait_until_connected},
        answer::{Answer, assert_shows, held, id_of, reservation_of, time, value_of, with},
        server::{Server, pass},
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
