//! Consistency checks of the pages of a table.
//!
//! An application can put checksums into its rows, but a page's list of rows has none: with a
//! flipped bit in the cell count or a cell pointer, SQLite leaves rows out or reads one twice, and
//! reports nothing.

use std::collections::HashSet;

use super::{
    INTERIOR, LEAF, Pages, cell::varint, half, interior, leaf::Leaf, local_part, pointers,
};

impl Pages {
    /// Finds an inconsistent page in the table with the root page `root`. Ignores pages that SQLite
    /// refuses to read, since it reports them.
    pub fn unsound(&mut self, root: u32) -> Option<u32> {
        let mut open = vec![Leaf { page: root, range: (i64::MIN, i64::MAX) }];
        let mut seen = HashSet::from([root]);
        while let Some(Leaf { page: number, range }) = open.pop() {
            let Some(page) = self.page(number) else { continue };
            match page[0] {
                LEAF if !leaf_adds_up(&page) => return Some(number),
                INTERIOR => {
                    let Some(children) = interior(&page, range) else { return Some(number) };
                    let mapped = self.children(number);
                    let known = children.iter().all(|child| mapped.contains(&child.page));
                    let agrees = known && children.len() == mapped.len();
                    if !mapped.is_empty() && !agrees {
                        return Some(number);
                    }
                    open.extend(children.into_iter().filter(|child| seen.insert(child.page)));
                }
                _ => {}
            }
        }
        None
    }

    /// Returns whether SQLite reads this page as the root of a table. True also for an unreadable
    /// page, which SQLite reports.
    pub fn is_root(&self, number: u32) -> bool {
        self.page(number).is_none_or(|page| [INTERIOR, LEAF].contains(&page[0]))
    }
}

/// Returns whether the cells of a leaf do not overlap, and all bytes between them count as free.
pub fn leaf_adds_up(page: &[u8]) -> bool {
    pointers(page, 8, half(page, 3)).is_some_and(|places| all_adds_up(page, &places))
}

fn all_adds_up(page: &[u8], places: &[usize]) -> bool {
    adds_up(page, 8, places, |place| length(page, place))
}

/// Returns the same for an interior page.
pub fn interior_adds_up(page: &[u8]) -> bool {
    let places = pointers(page, 12, half(page, 3)).unwrap_or_default();
    adds_up(page, 12, &places, |place| Some(varint(page, place + 4)?.1 - place))
}

/// Returns the offsets of a leaf's cells, how many of them are surely current rows, and whether the
/// page is consistent, with the stored cell count or with another one. If the stored
/// count is damaged, the pointers behind the last current one may lead to deleted rows, or to old
/// versions of rows.
pub fn places(page: &[u8]) -> (Vec<usize>, usize, bool) {
    let most = (page.len() - 8) / 2;
    let all = pointers(page, 8, most).unwrap_or_default();
    let stated = half(page, 3);
    let stated_cells = || all[..stated.min(most)].to_vec();
    if leaf_adds_up(page) {
        return (stated_cells(), stated, true);
    }
    match count(page, &all) {
        Some(count) => (all[..count.max(stated.min(most))].to_vec(), count.min(stated), true),
        None => (stated_cells(), stated.min(most), false),
    }
}

/// Returns the cell count that makes a leaf consistent; none if there is none. `places` are the
/// offsets of all cells that it may have.
fn count(page: &[u8], places: &[usize]) -> Option<usize> {
    let (begin, free) = (begin(page), free(page)?);
    let mut bytes = 0;
    for (count, place) in places.iter().enumerate() {
        if begin + bytes + free == page.len() && all_adds_up(page, &places[..count]) {
            return Some(count);
        }
        bytes += length(page, *place)?;
    }
    None
}

/// Returns whether header, cells, free blocks and fragments account for all bytes of a page.
fn adds_up(
    page: &[u8],
    header: usize,
    places: &[usize],
    length: impl Fn(usize) -> Option<usize>,
) -> bool {
    let cell = |place: &usize| Some((*place, *place + length(*place)?));
    let cells = places.iter().map(cell).collect::<Option<Vec<(usize, usize)>>>();
    let Some(mut cells) = cells else { return false };
    cells.sort_unstable();
    let apart = cells.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    let bytes: usize = cells.iter().map(|(begin, end)| end - begin).sum();
    let begin = begin(page);
    let is_behind = cells.first().is_none_or(|(first, _)| begin <= *first);
    let is_sound = free(page).is_some_and(|free| begin + bytes + free == page.len());
    apart && is_behind && begin >= header + 2 * cells.len() && is_sound
}

/// Returns the offset at which the cells of a page begin.
fn begin(page: &[u8]) -> usize {
    match half(page, 5) {
        0 => 65_536,
        begin => begin,
    }
}

/// Counts the free bytes between the cells of a page; none if its list of free blocks is broken.
fn free(page: &[u8]) -> Option<usize> {
    let (mut free, mut block) = (usize::from(page[7]), half(page, 1));
    while block != 0 {
        if block + 4 > page.len() {
            return None;
        }
        free += half(page, block + 2);
        let next = half(page, block);
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
