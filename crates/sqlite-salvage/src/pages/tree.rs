//! Search for the leaves of a table, even if pages above them are damaged. Links between pages have
//! no checksum, but are stored twice: an interior page names its children, and the pointer map
//! names the parent of every page.

use std::collections::{HashMap, HashSet};

use super::{
    INTERIOR, Pages, interior,
    leaf::{Leaf, Range},
    structure::{is_interior_consistent, is_leaf_consistent},
    u32_be,
};

/// Offset of SQLite's lock bytes. SQLite never uses their page.
const LOCK_BYTES: usize = 0x4000_0000;
/// Maximum depth of a tree; sound trees are shallower.
const MAX_DEPTH: usize = 20;
/// Bytes of an entry of the pointer map.
const ENTRY: usize = 5;
/// Valid types of an entry.
const KINDS: std::ops::RangeInclusive<u8> = 1..=BRANCH;
/// Type of an entry for a page of a tree other than its root.
const BRANCH: u8 = 5;

const ALL: Range = (i64::MIN, i64::MAX);

/// The leaves of a table.
#[derive(Debug, Default)]
pub struct Leaves {
    /// Readable leaves, in the order of their rowids.
    pub leaves: Vec<Leaf>,
    /// Rowids that unreadable pages may have had.
    pub gaps: Vec<Range>,
}

impl Pages {
    /// Finds the leaves of the table with the root page `root`. The result includes pages of
    /// unknown kind; the caller can recognize by their rows whether they belong to the table.
    pub fn leaves(&mut self, root: u32) -> Leaves {
        let mut leaves = Leaves::default();
        let mut seen = HashSet::from([root]);
        self.visit(Leaf { page: root, range: ALL }, 0, &mut seen, &mut leaves);
        leaves
    }

    fn visit(&mut self, at: Leaf, depth: usize, seen: &mut HashSet<u32>, leaves: &mut Leaves) {
        if depth > MAX_DEPTH {
            return leaves.gaps.push(at.range);
        }
        let page = self.page(at.page);
        let children = self.find_children(at, page.as_deref());
        match page {
            Some(_) if children.is_empty() => leaves.leaves.push(at),
            None if children.is_empty() => leaves.gaps.push(at.range),
            _ => {
                for child in children {
                    if seen.insert(child.page) {
                        self.visit(child, depth + 1, seen, leaves);
                    }
                }
            }
        }
    }

    /// Returns the children of a page; none for a leaf. If the page and the pointer map differ, one
    /// of them is damaged: the page, if it is inconsistent or names another page in place of a
    /// child, otherwise the map.
    fn find_children(&mut self, at: Leaf, page: Option<&[u8]>) -> Vec<Leaf> {
        let mapped = self.children(at.page);
        let mut children = match page {
            Some(page) if page[0] == INTERIOR => interior(page, at.range).unwrap_or_default(),
            // A consistent leaf has no children, even if a damaged map names some. An inconsistent
            // page may be an interior page with a flipped bit.
            Some(page) if is_leaf_consistent(page) => return Vec::new(),
            _ => Vec::new(),
        };
        let names: HashSet<u32> = children.iter().map(|child| child.page).collect();
        let unlisted: Vec<u32> =
            mapped.iter().copied().filter(|page| !names.contains(page)).collect();
        let known: HashSet<u32> = mapped.iter().copied().collect();
        let is_sound = !children.is_empty()
            && names.len() == children.len()
            && page.is_some_and(is_interior_consistent);
        if is_sound && (unlisted.is_empty() || names.is_subset(&known)) {
            children.retain(|child| {
                known.contains(&child.page) || self.may_be_child(child.page, at.page)
            });
        } else {
            children.retain(|child| known.contains(&child.page));
            children.extend(unlisted.into_iter().map(|page| Leaf { page, range: at.range }));
        }
        children
    }

    pub(super) fn children(&self, parent: u32) -> &[u32] {
        let all = self.children.get_or_init(|| self.read_pointer_map());
        all.get(&parent).map_or(&[], Vec::as_slice)
    }

    /// Returns the distance between pages of the pointer map: one page, plus the pages that it
    /// describes.
    fn map_distance(&self) -> u32 {
        u32::try_from(self.page_size / ENTRY).map_or(u32::MAX, |pages| pages + 1)
    }

    /// Reads the children of every page of a tree from the pointer map, which stores parents.
    fn read_pointer_map(&self) -> HashMap<u32, Vec<u32>> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut map = 2;
        while map <= self.count {
            let page = self.page(map).unwrap_or_else(|| vec![0; self.page_size]);
            for (index, entry) in page.chunks_exact(ENTRY).enumerate() {
                let child = u32::try_from(index).ok().and_then(|n| map.checked_add(n + 1));
                let Some(child) = child.filter(|child| *child <= self.count) else { break };
                if entry[0] == BRANCH {
                    children.entry(u32_be(&entry[1..])).or_default().push(child);
                }
            }
            let Some(next) = map.checked_add(self.map_distance()) else { break };
            map = if next as usize == LOCK_BYTES / self.page_size + 1 { next + 1 } else { next };
        }
        children
    }

    /// Returns whether a page may be a child of `parent` although the pointer map says otherwise,
    /// because its entry there may be damaged. A free page, which may have old rows, has an
    /// undamaged entry and is not a child.
    fn may_be_child(&self, page: u32, parent: u32) -> bool {
        if page < 3 || page > self.count {
            return false;
        }
        let map = (page - 2) / self.map_distance() * self.map_distance() + 2;
        let Some(map_page) = self.page(map) else { return true };
        let at = (page - map) as usize * ENTRY;
        match at.checked_sub(ENTRY).and_then(|at| map_page.get(at..at + ENTRY)) {
            Some(entry) => {
                entry[0] == BRANCH || !KINDS.contains(&entry[0]) || u32_be(&entry[1..]) == parent
            }
            None => false,
        }
    }
}
