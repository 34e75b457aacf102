//! The pages of a database file, read without SQLite.
//!
//! Follows the description of the format at <https://www.sqlite.org/fileformat2.html>. Pages have
//! no checksums, so links between pages are compared with the pointer map, which names the parent
//! of every page. No bytes cause a panic.

mod cell;
mod leaf;
mod structure;
mod tree;

use std::{collections::HashMap, fs::File, io, os::unix::fs::FileExt, path::Path, sync::OnceLock};

use self::{cell::varint, structure::cell_offsets};
pub use self::{
    cell::{Cell, Field},
    leaf::{Leaf, Range},
    tree::Leaves,
};
use crate::{
    is_page_size,
    wal::{Log, Version},
};

/// First byte of an interior page of a table with rowids.
const INTERIOR: u8 = 0x05;
/// First byte of a leaf of a table with rowids.
const LEAF: u8 = 0x0d;

/// A database file with its write-ahead log, opened for reading.
pub struct Pages {
    file: File,
    log: Option<File>,
    logged: HashMap<u32, Version>,
    page_size: usize,
    count: u32,
    /// Child pages by parent, from the pointer map; read when first needed.
    children: OnceLock<HashMap<u32, Vec<u32>>>,
}

/// The rows of a leaf.
#[derive(Debug, Clone)]
pub struct Cells {
    /// Readable rows, in the order of the page.
    pub cells: Vec<Cell>,
    /// Number of unreadable cells. `None` if the page is inconsistent and may have had more rows.
    pub unreadable: Option<usize>,
}

impl Pages {
    /// Opens a database file and its log (`<file>-wal`), if there is one.
    ///
    /// The caller provides the page size, since the copy in the first page may be damaged.
    ///
    /// # Errors
    /// A file cannot be opened or read, or SQLite has no pages of this size.
    pub fn open(file: &Path, page_size: usize) -> io::Result<Self> {
        if !is_page_size(page_size) {
            let cause =
                format!("a page must have a power of two from 512 to 65536 bytes, got {page_size}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, cause));
        }
        let mut wal = file.as_os_str().to_owned();
        wal.push("-wal");
        let (logged, count) = match Log::read(wal.as_ref(), page_size)? {
            Some(log) if log.page_size() == page_size => log.pages(),
            _ => (HashMap::new(), None),
        };
        let log = if logged.is_empty() { None } else { Some(File::open(&wal)?) };
        let file = File::open(file)?;
        let length = file.metadata()?.len() / page_size as u64;
        let count = count.unwrap_or_else(|| u32::try_from(length).unwrap_or(u32::MAX));
        Ok(Self { file, log, logged, page_size, count, children: OnceLock::new() })
    }

    /// Reads a page as of the last committed transaction; `None` if it is lost or unreadable.
    fn page(&self, number: u32) -> Option<Vec<u8>> {
        let mut page = vec![0; self.page_size];
        let size = self.page_size as u64;
        let read = match (self.logged.get(&number), &self.log) {
            (Some(Version::At(offset)), Some(log)) => log.read_exact_at(&mut page, *offset),
            (Some(_), _) => return None,
            (None, _) if number == 0 || number > self.count => return None,
            (None, _) => self.file.read_exact_at(&mut page, u64::from(number - 1) * size),
        };
        read.ok().map(|()| page)
    }

    /// Reads the rows of a leaf; `None` if the page cannot be read.
    pub fn cells(&self, leaf: u32) -> Option<Cells> {
        let page = self.page(leaf)?;
        let (cell_offsets, current, is_consistent) = cell_offsets(&page);
        let mut cells = Vec::with_capacity(cell_offsets.len());
        let mut unreadable = 0;
        for (index, place) in cell_offsets.into_iter().enumerate() {
            match self.cell(&page, place) {
                Some(cell) => cells.push(Cell { may_be_old: index >= current, ..cell }),
                None => unreadable += usize::from(index < current),
            }
        }
        Some(Cells { cells, unreadable: (unreadable > 0 || is_consistent).then_some(unreadable) })
    }

    fn cell(&self, page: &[u8], at: usize) -> Option<Cell> {
        let (length, after_length) = varint(page, at)?;
        let (serial, begin) = varint(page, after_length)?;
        // A row cannot be longer than its file. Without this check, a damaged length would make
        // this function read a circle of overflow pages almost endlessly.
        let length = usize::try_from(length)
            .ok()
            .filter(|length| length / self.page_size < self.count as usize)?;
        let local = local_part(page.len(), length);
        let end = begin + local;
        let mut payload = page.get(begin..end)?.to_vec();
        if local == length {
            return Some(Cell { serial, payload, is_cut: false, may_be_old: false });
        }
        let mut next = u32_be(page.get(end..end + 4)?);
        while payload.len() < length && next != 0 {
            let Some(page) = self.page(next) else { break };
            next = u32_be(&page);
            let part = (length - payload.len()).min(self.page_size - 4);
            payload.extend_from_slice(&page[4..4 + part]);
        }
        let is_cut = payload.len() < length;
        Some(Cell { serial, payload, is_cut, may_be_old: false })
    }
}

/// Returns the children of an interior page with their ranges of rowids; `None` if the page is
/// inconsistent.
fn interior(page: &[u8], (mut low, high): Range) -> Option<Vec<Leaf>> {
    let mut children = Vec::new();
    for place in pointers(page, 12, u16_at(page, 3))? {
        let child = u32_be(page.get(place..place + 4)?);
        let (key, _) = varint(page, place + 4)?;
        if key < low || key > high {
            return None;
        }
        children.push(Leaf { page: child, range: (low, key) });
        low = key;
    }
    children.push(Leaf { page: u32_be(&page[8..]), range: (low, high) });
    Some(children)
}

/// Returns the offsets of the first `count` cells of a page.
fn pointers(page: &[u8], header: usize, count: usize) -> Option<Vec<usize>> {
    let cell_offsets = page.get(header..header + 2 * count)?;
    Some(cell_offsets.chunks_exact(2).map(|pointer| u16_at(pointer, 0)).collect())
}

/// Returns how many bytes of a row of `length` bytes are in its leaf; the others are in overflow
/// pages.
fn local_part(page_size: usize, length: usize) -> usize {
    let max = page_size - 35;
    let min = (page_size - 12) * 32 / 255 - 23;
    if length <= max {
        return length;
    }
    match min + (length - min) % (page_size - 4) {
        part if part <= max => part,
        _ => min,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |two| u16::from_be_bytes(*two).into())
}

fn u32_be(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests;
