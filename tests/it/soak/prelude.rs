//! Names that most tests of this folder use.

pub use crate::prelude::*;
pub use crate::{
    soak::{
        faults::{Fault, Scene},
        holds_soon,
        options::{Ack, Options},
        stage::{Stage, Store},
    },
    support::signal::freeze,
};
pub use rand::seq::IndexedRandom;
pub use tokio::task::block_in_place;
