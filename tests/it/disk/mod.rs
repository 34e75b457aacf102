//! The real binary on disks that are full, fail, lose power, or are removed while it runs.

mod calls;
mod failing;
mod full;
mod last_room;
mod power;
mod prelude;
mod repairing;
mod replaced;
pub mod shim;
pub mod sweep;
