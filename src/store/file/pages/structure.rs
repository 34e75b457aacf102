//! Whether the pages of a table add up. Rows have checksums, but what says which rows there are has none:
//! with a flipped bit in the count or in the places of a page, the engine leaves rows out or reads
//! one twice, and says nothing. Costs one look at each page, of which a start reads the most anyway.

use std::collections::HashSet;

use super::{INTERIOR, LEAF, Pages, adds_up, interior, local_part, pointers, varint};

impl Pages {
    /// A page of the table whose tree begins at `root` that does not add up. What the engine itself
    /// refuses to read is none of those.
    pub fn unsound(&mut self, root: u32) -> Option<u32> {
        let mut open = vec![(root, (i64::MIN, i64::MAX))];
        let mut seen = HashSet::from([root]);
        while let Some((number, range)) = open.pop() {
            let Some(page) = self.page(number) else { continue };
            match page[0] {
                LEAF if !leaf_adds_up(&page) => return Some(number),
                INTERIOR => {
                    let Some(children) = interior(&page, range) else { return Some(number) };
                    let mapped = self.children(number);
                    let known = children.iter().all(|(child, _)| mapped.contains(child));
                    let agrees = known && children.len() == mapped.len();
                    if !mapped.is_empty() && !agrees {
                        return Some(number);
                    }
                    open.extend(children.into_iter().filter(|(child, _)| seen.insert(*child)));
                }
                _ => {}
            }
        }
        None
    }

    /// Whether the engine can read this page as the root of a table.
    pub fn is_root(&self, number: u32) -> bool {
        self.page(number).is_none_or(|page| [INTERIOR, LEAF].contains(&page[0]))
    }
}

/// Each byte of a leaf is of one cell, or of none and counted as free.
fn leaf_adds_up(page: &[u8]) -> bool {
    let cells = pointers(page, 8).and_then(|places| {
        let cell = |place| Some((place, place + length(page, place)?));
        places.into_iter().map(cell).collect::<Option<Vec<(usize, usize)>>>()
    });
    let Some(mut cells) = cells else { return false };
    cells.sort_unstable();
    let apart = cells.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    apart && adds_up(page, cells.len(), cells.iter().map(|(begin, end)| end - begin).sum())
}

/// How many bytes of the leaf a cell has.
fn length(page: &[u8], at: usize) -> Option<usize> {
    let (whole, after) = varint(page, at)?;
    let (_, begin) = varint(page, after)?;
    let whole = usize::try_from(whole).ok().filter(|length| *length <= 1 << 30)?;
    let local = local_part(whole);
    let end = begin + local + if local < whole { 4 } else { 0 };
    (end <= page.len()).then_some((end - at).max(4))
}
