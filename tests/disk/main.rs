//! The real binary on disks that are full, fail, lose power, or are taken away under it.

mod disk;
mod failing;
mod full;
mod power;
#[expect(dead_code, reason = "other suites start servers in other ways")]
#[path = "../support/process.rs"]
mod process;
mod replaced;
#[path = "../support/shifted_clock.rs"]
mod shifted_clock;
#[expect(dead_code, reason = "no Redis is needed here")]
#[path = "../support/mod.rs"]
mod support;
