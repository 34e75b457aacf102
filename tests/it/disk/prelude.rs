//! Names that most tests of this folder use.

pub use crate::prelude::*;
pub use crate::{
    disk::{
        calls::{
            TEXT, assert_all, delete_all, holds, id, pop, post, put_all, put_one, readiness,
            release_all, until_puts_are_accepted,
        },
        shim::{Disk, EIO, ENOSPC, Field},
    },
    support::shifted_clock::ShiftedClock,
};
pub use std::fs::File;
