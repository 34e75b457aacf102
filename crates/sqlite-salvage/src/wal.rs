//! The write-ahead log as it lies on the disk, read before the engine opens it.
//!
//! The engine takes in a log until the first frame whose checksum is wrong, and drops the rest
//! without a word. After a crash in the middle of a commit that is right. After a flipped byte it
//! loses what was acknowledged, and what was finished comes back. So this looks first, after the
//! description of the format at <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.
//!
//! **What tells damage from a torn end.** With `synchronous=FULL` a commit ends with a sync of its
//! frames, and only then does the next transaction write. A crash can therefore leave wrong frames
//! in the last transaction alone, in any order if the power failed. A frame's checksum begins with
//! that of the frame before it. So a frame that follows from a commit frame was written after that
//! commit was synced, and every frame up to that commit was whole at that time: a wrong one among
//! them is damage, for certain. Frames that a failed or rolled back transaction has left behind a
//! shorter one do not follow from it, and prove nothing.
//!
//! Known limits: damage within the last transaction looks like a torn end, and is taken for one; so
//! does damage in the transaction before it, if it hits the field that tells that commit.

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
/// The number at the beginning, without its last bit, which tells the order of bytes of checksums.
const MAGIC: u32 = 0x377f_0682;
type Sum = (u32, u32);

/// One frame: a page as a transaction has left it.
#[derive(Debug, Clone, Copy)]
struct Frame {
    page: u32,
    /// Of the last frame of a transaction, how many pages the database has then; else 0.
    commit: u32,
    /// Written into this log, not left from the one before.
    current: bool,
    /// Its checksum follows from the frame before it.
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
    /// The first byte of what is not as it was written.
    pub offset: u64,
    /// Frames from there up to the last commit.
    pub frames: usize,
    /// Commits among those frames.
    pub commits: usize,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, frames, commits } = self;
        write!(
            f,
            "it is damaged at byte {offset}, and {commits} acknowledged commits ({frames} pages) \
             stand there and behind it"
        )
    }
}

/// Where the latest version of a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// At this byte of the log.
    At(u64),
    /// The log had a later one than the database, and it is damaged.
    Lost,
}

impl Log {
    /// Reads and checks a log. None if there is none, or nothing but zeros in it.
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

    /// `page_size` is for a log whose header does not tell.
    fn parse(mut input: impl Read, page_size: usize) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        if !fill(&mut input, &mut header)? {
            return Ok(None);
        }
        let word = |at: usize| be(&header[at..]);
        let order = Order::of(word(0));
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
                // Room that the log has taken and not used.
                frames.push(Frame { page: 0, commit: 0, current: false, follows: false });
                before = [(0, 0); 2];
                continue;
            }
            is_unused = false;
            let word = |at: usize| be(&frame[at..]);
            // Where the header does not tell, the first frame does.
            let current = (word(8), word(12)) == *salts.get_or_insert((word(8), word(12)));
            let sums =
                before.map(|seed| order.sum(order.sum(seed, &frame[..8]), &frame[FRAME_HEADER..]));
            let stored = (word(16), word(20));
            let follows = sums.contains(&stored);
            frames.push(Frame { page: word(0), commit: word(4), current, follows });
            // Should its own field for the checksum be what is damaged, the next one follows from
            // what had to be there.
            before = [stored, sums[0]];
        }
        Ok((!is_unused).then_some(Self { page_size, header_is_sound: known, frames }))
    }

    /// The size of the pages, in bytes.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// The first frame that the engine does not take in.
    fn first_wrong(&self) -> usize {
        if !self.header_is_sound {
            return 0;
        }
        self.frames.iter().position(|frame| !frame.is_sound()).unwrap_or(self.frames.len())
    }

    /// The last commit that was surely synced, from the first wrong frame on.
    fn last_certain(&self) -> Option<usize> {
        let wrong = self.first_wrong();
        let certain = |pair: &[Frame]| pair[0].commit > 0 && pair[1].is_sound();
        let place = self.frames.get(wrong..)?.windows(2).rposition(certain)?;
        Some(wrong + place)
    }

    /// Returns what is damaged for certain. None of a whole log and of one with a torn end.
    pub fn damage(&self) -> Option<Damage> {
        let (wrong, end) = (self.first_wrong(), self.end()?);
        self.last_certain()?;
        let lost = &self.frames[wrong..=end];
        let offset = if self.header_is_sound { self.offset(wrong) } else { 0 };
        let commits = lost.iter().filter(|frame| frame.commit > 0).count();
        Some(Damage { offset, frames: lost.len(), commits })
    }

    /// Counts the frames that a crash left of an unfinished commit.
    pub fn torn(&self) -> usize {
        let end = self.end().map_or(0, |end| end + 1);
        self.frames[end..].iter().take_while(|frame| frame.current).count()
    }

    /// The last frame of the last transaction that counts.
    fn end(&self) -> Option<usize> {
        let from = self.last_certain();
        let rest = self.frames.iter().enumerate().skip(from.map_or(0, |certain| certain + 1));
        let sound = rest
            .take_while(|(_, frame)| frame.is_sound() && (from.is_some() || self.header_is_sound));
        sound.filter(|(_, frame)| frame.commit > 0).last().map(|(index, _)| index).or(from)
    }

    /// The first byte of a frame.
    fn offset(&self, frame: usize) -> u64 {
        (HEADER + frame * (FRAME_HEADER + self.page_size)) as u64
    }

    /// Returns where the pages are that the log has, and how many pages the database has with them.
    /// A damaged frame costs its page, unless a later frame has that again.
    pub fn pages(&self) -> (HashMap<u32, Version>, Option<u32>) {
        let Some(end) = self.end() else { return (HashMap::new(), None) };
        let mut pages = HashMap::new();
        for (index, frame) in self.frames[..=end].iter().enumerate() {
            let version = match frame.is_sound() {
                true => Version::At(self.offset(index) + FRAME_HEADER as u64),
                false => Version::Lost,
            };
            pages.insert(frame.page, version);
        }
        (pages, Some(self.frames[end].commit))
    }
}

/// Of the bytes of the words that checksums are made of.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn of(magic: u32) -> Self {
        match magic {
            magic if magic == MAGIC | 1 => Self::Big,
            MAGIC => Self::Little,
            // It is damaged: the engine writes in the order of its machine.
            _ if cfg!(target_endian = "big") => Self::Big,
            _ => Self::Little,
        }
    }

    /// The checksum of `bytes` behind those whose checksum is `seed`.
    fn sum(self, seed: Sum, bytes: &[u8]) -> Sum {
        let word = |bytes: &[u8]| match self {
            Self::Little => be(bytes).swap_bytes(),
            Self::Big => be(bytes),
        };
        bytes.chunks_exact(8).fold(seed, |(one, two), pair| {
            let one = one.wrapping_add(word(pair)).wrapping_add(two);
            (one, two.wrapping_add(word(&pair[4..])).wrapping_add(one))
        })
    }
}

/// The first four bytes.
fn be(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}

/// Reads so many bytes; answers whether there were as many.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        done => done.map(|()| true),
    }
}

#[cfg(test)]
mod tests;
