//! Log file of a file store.

use std::{fs, path::Path};

const HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

/// Returns the written part of a log, without the reserved room after it.
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
