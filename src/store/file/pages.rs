//! The pages of a database file, read without the engine: for a file that the engine refuses.
//!
//! After the description of the format at <https://www.sqlite.org/fileformat2.html>. Nothing of a
//! page is believed but what a row's own checksum confirms; what points to other pages is compared
//! with the pointer map, which names the parent of every page. Reads any bytes without a panic.

mod structure;
mod tree;

use std::{collections::HashMap, fs::File, io, os::unix::fs::FileExt, path::Path};

pub use self::tree::{Leaf, Range};
use super::wal::{Log, Version};
use structure::places;

/// What our files have; not read from the file, whose first page may be damaged.
const PAGE: usize = 4096;
const INTERIOR: u8 = 0x05;
const LEAF: u8 = 0x0d;

/// A database file and its log.
pub struct Pages {
    file: File,
    log: Option<File>,
    logged: HashMap<u32, Version>,
    count: u32,
    /// By parent, from the pointer map; made when a page does not tell its children.
    children: Option<HashMap<u32, Vec<u32>>>,
}

/// A row as it lies in a leaf.
#[derive(Debug, Clone)]
pub struct Cell {
    pub serial: i64,
    pub payload: Vec<u8>,
    /// Its overflow pages lead nowhere: only a part of it is there.
    pub is_cut: bool,
    /// It may be a row that was deleted, or an old version of one: the count of its page is damaged.
    pub may_be_old: bool,
}

/// A field of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field<'a> {
    Null,
    Number(i64),
    Bytes(&'a [u8]),
}

impl Pages {
    pub fn open(file: &Path) -> io::Result<Self> {
        let mut wal = file.as_os_str().to_owned();
        wal.push("-wal");
        let (logged, count) = match Log::read(wal.as_ref())? {
            Some(log) if log.page_size == PAGE => log.pages(),
            _ => (HashMap::new(), None),
        };
        let log = if logged.is_empty() { None } else { Some(File::open(&wal)?) };
        let file = File::open(file)?;
        let length = file.metadata()?.len() / PAGE as u64;
        let count = count.unwrap_or_else(|| u32::try_from(length).unwrap_or(u32::MAX));
        Ok(Self { file, log, logged, count, children: None })
    }

    /// One page as the last whole transaction has left it.
    fn page(&self, number: u32) -> Option<Vec<u8>> {
        let mut page = vec![0; PAGE];
        let read = match (self.logged.get(&number), &self.log) {
            (Some(Version::At(offset)), Some(log)) => log.read_exact_at(&mut page, *offset),
            (Some(_), _) => return None,
            (None, _) if number == 0 || number > self.count => return None,
            (None, _) => self.file.read_exact_at(&mut page, u64::from(number - 1) * PAGE as u64),
        };
        read.ok().map(|()| page)
    }

    /// The rows of a leaf, and how many of its places tell none; none if it does not add up, so
    /// that there may have been more.
    pub fn cells(&self, number: u32) -> Option<(Vec<Cell>, Option<usize>)> {
        let page = self.page(number)?;
        let (places, sure, adds_up) = places(&page);
        let mut cells = Vec::with_capacity(places.len());
        let mut wrong = 0;
        for (index, place) in places.into_iter().enumerate() {
            match self.cell(&page, place) {
                Some(cell) => cells.push(Cell { may_be_old: index >= sure, ..cell }),
                None => wrong += usize::from(index < sure),
            }
        }
        Some((cells, (wrong > 0 || adds_up).then_some(wrong)))
    }

    fn cell(&self, page: &[u8], at: usize) -> Option<Cell> {
        let (length, after_length) = varint(page, at)?;
        let (serial, begin) = varint(page, after_length)?;
        // No row is longer than its file: overflow pages that lead round in a circle would go on for as long as it says.
        let length =
            usize::try_from(length).ok().filter(|length| length / PAGE < self.count as usize)?;
        let local = local_part(length);
        let end = begin + local;
        let mut payload = page.get(begin..end)?.to_vec();
        if local == length {
            return Some(Cell { serial, payload, is_cut: false, may_be_old: false });
        }
        let mut next = be(page.get(end..end + 4)?);
        while payload.len() < length && next != 0 {
            let Some(page) = self.page(next) else { break };
            next = be(&page);
            let part = (length - payload.len()).min(PAGE - 4);
            payload.extend_from_slice(&page[4..4 + part]);
        }
        let is_cut = payload.len() < length;
        Some(Cell { serial, payload, is_cut, may_be_old: false })
    }
}

impl Cell {
    /// The fields that are there; those behind a cut are not.
    pub fn fields(&self) -> Option<Vec<Field<'_>>> {
        let (header, mut at) = varint(&self.payload, 0)?;
        let header = usize::try_from(header).ok().filter(|end| *end <= self.payload.len())?;
        let (mut fields, mut data) = (Vec::new(), header);
        while at < header {
            let (kind, next) = varint(&self.payload, at)?;
            at = next;
            let length = match kind {
                0 | 8 | 9 => 0,
                1..=4 => usize::try_from(kind).ok()?,
                5 => 6,
                6 | 7 => 8,
                12.. => usize::try_from((kind - 12) / 2).ok()?,
                _ => return None,
            };
            let Some(bytes) = data.checked_add(length).and_then(|end| self.payload.get(data..end))
            else {
                // The last field of a row that is cut.
                return self.is_cut.then_some(fields);
            };
            fields.push(match kind {
                0 => Field::Null,
                8 | 9 => Field::Number(kind - 8),
                1..=6 => Field::Number(number(bytes)),
                7 => return None,
                _ => Field::Bytes(bytes),
            });
            data += length;
        }
        Some(fields)
    }
}

/// The children of an interior page, each with the numbers that it may have.
fn interior(page: &[u8], (mut low, high): Range) -> Option<Vec<Leaf>> {
    let mut children = Vec::new();
    for place in pointers(page, 12, half(page, 3))? {
        let child = be(page.get(place..place + 4)?);
        let (key, _) = varint(page, place + 4)?;
        if key < low || key > high {
            return None;
        }
        children.push(Leaf { page: child, range: (low, key) });
        low = key;
    }
    children.push(Leaf { page: be(&page[8..]), range: (low, high) });
    Some(children)
}

/// Where so many cells of a page are.
fn pointers(page: &[u8], header: usize, count: usize) -> Option<Vec<usize>> {
    let places = page.get(header..header + 2 * count)?;
    Some(places.chunks_exact(2).map(|place| half(place, 0)).collect())
}

/// How much of a row of this length lies in its leaf.
fn local_part(length: usize) -> usize {
    const MOST: usize = PAGE - 35;
    const LEAST: usize = (PAGE - 12) * 32 / 255 - 23;
    if length <= MOST {
        return length;
    }
    match LEAST + (length - LEAST) % (PAGE - 4) {
        part if part <= MOST => part,
        _ => LEAST,
    }
}

/// A number of one to nine bytes, and where it ends.
fn varint(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let mut number = 0_u64;
    for (index, byte) in bytes.get(at..)?.iter().take(9).enumerate() {
        if index == 8 {
            return Some(((number << 8 | u64::from(*byte)).cast_signed(), at + 9));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number.cast_signed(), at + index + 1));
        }
    }
    None
}

/// A signed number of one to eight bytes.
fn number(bytes: &[u8]) -> i64 {
    let first = bytes.first().map_or(0, |byte| i64::from(byte.cast_signed()));
    bytes.iter().skip(1).fold(first, |number, byte| number << 8 | i64::from(*byte))
}

fn half(bytes: &[u8], at: usize) -> usize {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |two| u16::from_be_bytes(*two).into())
}

fn be(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests;
