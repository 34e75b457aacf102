//! Leaves of a table, and the rowids that they may have.

/// Range of rowids: greater than the first, up to the second.
pub type Range = (i64, i64);

/// A leaf of a table.
#[derive(Debug, Clone, Copy)]
pub struct Leaf {
    /// Page number; the first page of a file is 1.
    pub page: u32,
    /// Rowids that the leaf may have.
    pub range: Range,
}
