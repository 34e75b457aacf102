//! Consistency checks of the pages of a table.
//!
//! An application can put checksums into its rows, but a page's list of rows has none. If a bit of
//! the cell count or of a cell pointer flips, SQLite omits rows or reads one twice, without an
//! error.

use std::{
    collections::{HashSet, VecDeque},
    panic, thread,
};

use super::{
    INTERIOR, LEAF, Pages, cell::varint, interior, leaf::Leaf, local_part, pointers, u16_at,
};

/// Number of pages to examine from which on two threads share them.
const WIDE: usize = 64;

/// Pages of a table to examine, and all that were found so far.
#[derive(Clone)]
struct Walk {
    open: VecDeque<Leaf>,
    seen: HashSet<u32>,
}

impl Pages {
    /// Finds an inconsistent page in the table with the root page `root`. Ignores pages that SQLite
    /// refuses to read, since SQLite reports them itself. Two threads share a large table, whose
    /// size is that of the file.
    pub fn unsound(&self, root: u32) -> Option<u32> {
        let first = Leaf { page: root, range: (i64::MIN, i64::MAX) };
        let mut walk = Walk { open: VecDeque::from([first]), seen: HashSet::from([root]) };
        self.walk_in_two(&mut walk).err()
    }

    fn walk_in_two(&self, walk: &mut Walk) -> Result<(), u32> {
        // The oldest pages first, which are those with the most pages below them.
        while walk.open.len() < WIDE {
            let Some(at) = walk.open.pop_front() else { return Ok(()) };
            self.examine(at, walk)?;
        }
        let mut half = walk.clone();
        half.open = walk.open.split_off(walk.open.len() / 2);
        thread::scope(|scope| {
            let other = scope.spawn(|| self.walk(&mut half));
            let own = self.walk(walk);
            own.and(other.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
        })
    }

    fn walk(&self, walk: &mut Walk) -> Result<(), u32> {
        while let Some(at) = walk.open.pop_back() {
            self.examine(at, walk)?;
        }
        Ok(())
    }

    /// Examines a page, and adds its children; fails with its number if it is inconsistent.
    fn examine(&self, at: Leaf, walk: &mut Walk) -> Result<(), u32> {
        let Some(page) = self.page(at.page) else { return Ok(()) };
        match page[0] {
            LEAF if !is_leaf_consistent(&page) => return Err(at.page),
            INTERIOR => {
                let children = interior(&page, at.range).ok_or(at.page)?;
                let mut named: Vec<u32> = children.iter().map(|child| child.page).collect();
                named.sort_unstable();
                // In ascending order. A page that names one child twice instead of another differs.
                let mapped = self.children(at.page);
                if !mapped.is_empty() && named != mapped {
                    return Err(at.page);
                }
                let new = children.into_iter().filter(|child| walk.seen.insert(child.page));
                walk.open.extend(new);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns whether SQLite reads this page as the root of a table. Returns true for an
    /// unreadable page too, since SQLite reports it itself.
    pub fn is_root(&self, number: u32) -> bool {
        self.page(number).is_none_or(|page| [INTERIOR, LEAF].contains(&page[0]))
    }
}

/// Returns whether the cells of a leaf do not overlap, and all bytes between them count as free.
pub fn is_leaf_consistent(page: &[u8]) -> bool {
    pointers(page, 8, u16_at(page, 3))
        .is_some_and(|cell_offsets| are_cells_consistent(page, &cell_offsets))
}

fn are_cells_consistent(page: &[u8], cell_offsets: &[usize]) -> bool {
    is_consistent(page, 8, cell_offsets, |place| length(page, place))
}

/// Returns whether the cells of an interior page do not overlap, and all bytes between them count
/// as free.
pub fn is_interior_consistent(page: &[u8]) -> bool {
    let cell_offsets = pointers(page, 12, u16_at(page, 3)).unwrap_or_default();
    is_consistent(page, 12, &cell_offsets, |place| Some(varint(page, place + 4)?.1 - place))
}

/// Returns the offsets of a leaf's cells, the number of them that are certainly current rows, and
/// whether the page is consistent, either with the stored cell count or with another one. If the
/// stored count is damaged, the later cells may be deleted rows or old versions of rows.
pub fn cell_offsets(page: &[u8]) -> (Vec<usize>, usize, bool) {
    let max_cells = (page.len() - 8) / 2;
    let all = pointers(page, 8, max_cells).unwrap_or_default();
    let stated = u16_at(page, 3);
    let stated_cells = || all[..stated.min(max_cells)].to_vec();
    if is_leaf_consistent(page) {
        return (stated_cells(), stated, true);
    }
    match consistent_count(page, &all) {
        Some(count) => (all[..count.max(stated.min(max_cells))].to_vec(), count.min(stated), true),
        None => (stated_cells(), stated.min(max_cells), false),
    }
}

/// Returns the cell count that makes a leaf consistent, if there is one. `cell_offsets` has the
/// offsets of all cells that the leaf may have.
fn consistent_count(page: &[u8], cell_offsets: &[usize]) -> Option<usize> {
    let (begin, free) = (content_begin(page), free_bytes(page)?);
    let mut bytes = 0;
    for (count, offset) in cell_offsets.iter().enumerate() {
        if begin + bytes + free == page.len() && are_cells_consistent(page, &cell_offsets[..count])
        {
            return Some(count);
        }
        bytes += length(page, *offset)?;
    }
    None
}

/// Returns whether header, cells, free blocks and fragments account for all bytes of a page.
fn is_consistent(
    page: &[u8],
    header: usize,
    cell_offsets: &[usize],
    length: impl Fn(usize) -> Option<usize>,
) -> bool {
    let cell = |offset: &usize| Some((*offset, *offset + length(*offset)?));
    let cells = cell_offsets.iter().map(cell).collect::<Option<Vec<(usize, usize)>>>();
    let Some(mut cells) = cells else { return false };
    cells.sort_unstable();
    let apart = cells.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    let bytes: usize = cells.iter().map(|(begin, end)| end - begin).sum();
    let begin = content_begin(page);
    let is_behind = cells.first().is_none_or(|(first, _)| begin <= *first);
    let is_sound = free_bytes(page).is_some_and(|free| begin + bytes + free == page.len());
    apart && is_behind && begin >= header + 2 * cells.len() && is_sound
}

/// Returns the offset at which the cells of a page begin.
fn content_begin(page: &[u8]) -> usize {
    match u16_at(page, 5) {
        0 => 65_536,
        begin => begin,
    }
}

/// Counts the free bytes between the cells of a page; `None` if its list of free blocks is invalid.
fn free_bytes(page: &[u8]) -> Option<usize> {
    let (mut free, mut block) = (usize::from(page[7]), u16_at(page, 1));
    while block != 0 {
        if block + 4 > page.len() {
            return None;
        }
        free += u16_at(page, block + 2);
        let next = u16_at(page, block);
        if next != 0 && next <= block {
            return None;
        }
        block = next;
    }
    Some(free)
}

/// Returns the number of bytes that a cell takes in its leaf.
fn length(page: &[u8], at: usize) -> Option<usize> {
    let (whole, after) = varint(page, at)?;
    let (_, begin) = varint(page, after)?;
    let whole = usize::try_from(whole).ok().filter(|length| *length <= 1 << 30)?;
    let local = local_part(page.len(), whole);
    let end = begin + local + if local < whole { 4 } else { 0 };
    (end <= page.len()).then_some((end - at).max(4))
}
