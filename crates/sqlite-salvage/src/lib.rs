#![doc = include_str!("../README.md")]

mod pages;
mod wal;

pub use self::{
    pages::{Cell, Cells, Field, Leaf, Leaves, Pages, Range},
    wal::{Damage, Log, Version},
};

/// Returns whether SQLite has pages of this size: a power of two from 512 to 65,536 bytes.
fn is_page_size(size: usize) -> bool {
    (512..=65_536).contains(&size) && size.is_power_of_two()
}
