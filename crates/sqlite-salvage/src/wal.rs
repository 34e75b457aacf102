//! The write-ahead log on disk, read before SQLite opens it.
//!
//! SQLite applies a log up to the first frame with a wrong checksum, and silently drops the rest.
//! This is correct after a crash in the middle of a commit, but after a flipped byte it loses
//! acknowledged commits. This module finds such damage. The format is described at
//! <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.
//!
//! **How damage differs from a torn end.** With `synchronous=FULL`, a commit ends with a sync of
//! its frames, and only then does the next transaction write. Therefore a crash can leave wrong
//! frames only in the last transaction, and anywhere in it if the power failed. The checksum of a
//! frame continues that of the frame before. So if a frame's checksum continues that of a commit
//! frame, the frame was written after that commit was synced. All frames up to that commit were
//! whole then, and a wrong one among them is certainly damaged. A failed or rolled back transaction
//! may leave frames after the end of a shorter one. Their checksums do not continue those of the
//! shorter one, so they prove nothing.
//!
//! Known limits: damage within the last transaction looks like a torn end. Damage to the commit
//! field of the transaction before it looks like a torn end too.

use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use crate::is_page_size;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Magic number of the header, without its last bit, which gives the byte order of checksums.
const MAGIC: u32 = 0x377f_0682;
type Sum = (u32, u32);

/// A frame: a page as a transaction wrote it.
#[derive(Debug, Clone, Copy)]
struct Frame {
    page: u32,
    /// In the last frame of a transaction, the number of pages of the database afterwards; 0 in
    /// other frames.
    commit: u32,
    /// Whether the frame belongs to this log, and not to an earlier log in the same file.
    current: bool,
    /// Whether the checksum continues that of the previous frame.
    follows: bool,
}

impl Frame {
    fn is_sound(&self) -> bool {
        self.current && self.follows && self.page > 0
    }
}

/// A write-ahead log, read from its first to its last frame.
#[derive(Debug)]
pub struct Log {
    page_size: usize,
    header_is_sound: bool,
    frames: Vec<Frame>,
}

/// Damage before the last commit of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Offset of the first damaged header or frame.
    pub offset: u64,
    /// Number of frames from there up to the last commit.
    pub frames: usize,
    /// Number of commits among those frames.
    pub commits: usize,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, frames, commits } = self;
        write!(
            f,
            "damaged at byte {offset}, which affects {commits} acknowledged commits ({frames} \
             pages)"
        )
    }
}

/// Location of the latest version of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// At this offset of the log.
    At(u64),
    /// In a damaged frame of the log.
    Lost,
}

impl Log {
    /// Reads and checks a log. Returns `None` if the file is missing, or has only zeros.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn read(path: &Path, page_size: usize) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        Self::parse(BufReader::with_capacity(1 << 20, file), page_size)
    }

    /// Parses a log; `page_size` is used if its header is damaged.
    fn parse(mut input: impl Read, page_size: usize) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        if !fill(&mut input, &mut header)? {
            return Ok(None);
        }
        let word = |at: usize| u32_be(&header[at..]);
        let order = Order::from_magic(word(0));
        let computed = order.sum((0, 0), &header[..24]);
        let stored = (word(24), word(28));
        let known = word(0) & !1 == MAGIC && computed == stored;
        let page_size = match word(8) as usize {
            size if known && is_page_size(size) => size,
            _ => page_size,
        };
        let mut salts = known.then(|| (word(16), word(20)));
        let mut before = [stored, computed];
        let (mut frames, mut frame) = (Vec::new(), vec![0; FRAME_HEADER + page_size]);
        let zeros = frame.clone();
        let mut is_unused = header == [0; HEADER];
        while fill(&mut input, &mut frame)? {
            if frame == zeros {
                // Reserved space that was never used.
                frames.push(Frame { page: 0, commit: 0, current: false, follows: false });
                before = [(0, 0); 2];
                continue;
            }
            is_unused = false;
            let word = |at: usize| u32_be(&frame[at..]);
            // If the header is damaged, the first frame gives the salts.
            let current = (word(8), word(12)) == *salts.get_or_insert((word(8), word(12)));
            let sums =
                before.map(|seed| order.sum(order.sum(seed, &frame[..8]), &frame[FRAME_HEADER..]));
            let stored = (word(16), word(20));
            let follows = sums.contains(&stored);
            frames.push(Frame { page: word(0), commit: word(4), current, follows });
            // If only the stored checksum is damaged, the next frame continues the computed
            // checksum.
            before = [stored, sums[0]];
        }
        Ok((!is_unused).then_some(Self { page_size, header_is_sound: known, frames }))
    }

    /// Returns the size of a page in bytes.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// Returns the first frame that SQLite does not apply.
    fn first_unsound(&self) -> usize {
        if !self.header_is_sound {
            return 0;
        }
        self.frames.iter().position(|frame| !frame.is_sound()).unwrap_or(self.frames.len())
    }

    /// Returns the last commit after the first wrong frame that was certainly synced.
    fn last_synced_commit(&self) -> Option<usize> {
        let wrong = self.first_unsound();
        let certain = |pair: &[Frame]| pair[0].commit > 0 && pair[1].is_sound();
        let index = self.frames.get(wrong..)?.windows(2).rposition(certain)?;
        Some(wrong + index)
    }

    /// Returns the damage if the log is certainly damaged; `None` for a sound log, or a log with a
    /// torn end.
    pub fn damage(&self) -> Option<Damage> {
        let (wrong, last_commit) = (self.first_unsound(), self.last_commit()?);
        self.last_synced_commit()?;
        let lost = &self.frames[wrong..=last_commit];
        let offset = if self.header_is_sound { self.offset(wrong) } else { 0 };
        let commits = lost.iter().filter(|frame| frame.commit > 0).count();
        Some(Damage { offset, frames: lost.len(), commits })
    }

    /// Counts the frames of an unfinished commit at the end, as a crash leaves them.
    pub fn torn(&self) -> usize {
        let last_commit = self.last_commit().map_or(0, |last_commit| last_commit + 1);
        self.frames[last_commit..].iter().take_while(|frame| frame.current).count()
    }

    /// Returns the last frame of the last committed transaction.
    fn last_commit(&self) -> Option<usize> {
        let from = self.last_synced_commit();
        let rest = self.frames.iter().enumerate().skip(from.map_or(0, |certain| certain + 1));
        let sound = rest
            .take_while(|(_, frame)| frame.is_sound() && (from.is_some() || self.header_is_sound));
        sound.filter(|(_, frame)| frame.commit > 0).last().map(|(index, _)| index).or(from)
    }

    fn offset(&self, frame: usize) -> u64 {
        (HEADER + frame * (FRAME_HEADER + self.page_size)) as u64
    }

    /// Returns the location of the latest version of each page in the log, and the number of pages
    /// of the database. The page of a damaged frame is lost, unless a later frame has the same
    /// page.
    pub fn pages(&self) -> (HashMap<u32, Version>, Option<u32>) {
        let Some(last_commit) = self.last_commit() else { return (HashMap::new(), None) };
        let mut pages = HashMap::new();
        for (index, frame) in self.frames[..=last_commit].iter().enumerate() {
            let version = match frame.is_sound() {
                true => Version::At(self.offset(index) + FRAME_HEADER as u64),
                false => Version::Lost,
            };
            pages.insert(frame.page, version);
        }
        (pages, Some(self.frames[last_commit].commit))
    }
}

/// Byte order of the words in checksums.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn from_magic(magic: u32) -> Self {
        match magic {
            magic if magic == MAGIC | 1 => Self::Big,
            MAGIC => Self::Little,
            // The magic number is damaged: SQLite writes in the byte order of its machine.
            _ if cfg!(target_endian = "big") => Self::Big,
            _ => Self::Little,
        }
    }

    /// Continues the checksum `seed` with `bytes`.
    fn sum(self, seed: Sum, bytes: &[u8]) -> Sum {
        let word = |bytes: &[u8]| match self {
            Self::Little => u32_be(bytes).swap_bytes(),
            Self::Big => u32_be(bytes),
        };
        bytes.chunks_exact(8).fold(seed, |(one, two), pair| {
            let one = one.wrapping_add(word(pair)).wrapping_add(two);
            (one, two.wrapping_add(word(&pair[4..])).wrapping_add(one))
        })
    }
}

fn u32_be(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}

/// Fills `bytes`; returns false if the input is too short.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        done => done.map(|()| true),
    }
}

#[cfg(test)]
mod tests;
