//! Rows of a leaf, in the record format.

/// A row of a table with rowids, as stored in a leaf.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Rowid of the row.
    pub serial: i64,
    /// Record: a header with the type of each field, then the fields.
    pub payload: Vec<u8>,
    /// Whether the overflow pages end early, so that the end of the record is missing.
    pub is_cut: bool,
    /// Whether the row may be deleted, or an old version: the cell count of its page is damaged.
    pub may_be_old: bool,
}

/// A field of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field<'a> {
    /// NULL; also stored in the column of the rowid.
    Null,
    /// An INTEGER.
    Number(i64),
    /// A REAL.
    Real(f64),
    /// A BLOB, or a TEXT in the encoding of the database.
    Bytes(&'a [u8]),
}

impl Cell {
    /// Returns the fields; of a cut row, only the complete ones. `None` if the record is malformed.
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
                // A cut row ends within this field.
                return self.is_cut.then_some(fields);
            };
            fields.push(match kind {
                0 => Field::Null,
                8 | 9 => Field::Number(kind - 8),
                1..=6 => Field::Number(number(bytes)),
                7 => Field::Real(f64::from_bits(number(bytes).cast_unsigned())),
                _ => Field::Bytes(bytes),
            });
            data += length;
        }
        Some(fields)
    }
}

/// Reads a varint of one to nine bytes. Returns the number and the offset of the next byte.
pub(super) fn varint(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
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

/// Reads a signed big-endian number of one to eight bytes.
fn number(bytes: &[u8]) -> i64 {
    let first = bytes.first().map_or(0, |byte| i64::from(byte.cast_signed()));
    bytes.iter().skip(1).fold(first, |number, byte| number << 8 | i64::from(*byte))
}
