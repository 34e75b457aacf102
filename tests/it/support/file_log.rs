//! The write-ahead log of a file store, read and damaged by tests.

use std::{fs, path::Path};

pub const HEADER: usize = 32;
/// Length of a frame of the log.
pub const FRAME: usize = 24 + 4096;

/// Returns the written part of a log, without the reserved space after it.
pub fn written(log: &Path) -> Vec<u8> {
    let mut bytes = fs::read(log).unwrap_or_default();
    let last = bytes.iter().rposition(|byte| *byte != 0);
    let frames = last.map(|last| (last + 1).saturating_sub(HEADER).div_ceil(FRAME));
    bytes.truncate(frames.map_or(0, |frames| HEADER + frames * FRAME));
    bytes
}

/// Flips a bit in the middle of the written part.
pub fn flip_the_middle(log: &Path) {
    let mut bytes = written(log);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(log, bytes).expect("written");
}

/// Returns the offsets of the log's versions of a database page.
pub fn versions_of(log: &[u8], page: u32) -> Vec<usize> {
    let is_version = |frame: &usize| log[*frame..*frame + 4] == page.to_be_bytes();
    (HEADER..log.len()).step_by(FRAME).filter(is_version).collect()
}

/// Flips a bit in the log's middle version of a database page.
pub fn flip_in_page(log: &Path, page: u32) {
    let mut bytes = written(log);
    let versions = versions_of(&bytes, page);
    assert!(!versions.is_empty(), "the log has no version of page {page}");
    bytes[versions[versions.len() / 2] + FRAME / 2] ^= 1;
    fs::write(log, bytes).expect("written");
}
