//! Names that most tests of this folder use.

pub use crate::prelude::*;
pub use crate::{
    disk::shim::{Disk, EIO, ENOSPC, Field, readiness, until},
    support::shifted_clock::ShiftedClock,
};
pub use std::fs::File;
