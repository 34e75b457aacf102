//! The size of a body in the three bytes that an entry has to spare.

/// Bytes of a step; sizes are rounded up to whole steps.
const STEP: usize = 16;

/// Size of a body in steps; at most 256 MiB, more than any body has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size([u8; 3]);

impl Size {
    pub fn of(bytes: usize) -> Self {
        let steps = u32::try_from(bytes.div_ceil(STEP)).unwrap_or(u32::MAX).min(0xff_ffff);
        let [a, b, c, _] = steps.to_le_bytes();
        Self([a, b, c])
    }

    pub fn bytes(self) -> u64 {
        let [a, b, c] = self.0;
        u64::from(u32::from_le_bytes([a, b, c, 0])) * STEP as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Entry, *};

    #[test]
    fn a_size_is_rounded_up_and_costs_an_entry_nothing() {
        for (bytes, rounded) in [(0, 0), (1, 16), (16, 16), (17, 32), (64 << 20, 64 << 20)] {
            assert_eq!(Size::of(bytes).bytes(), rounded);
        }
        assert_eq!(Size::of(usize::MAX).bytes(), (1 << 28) - 16);
        assert_eq!(size_of::<Entry>(), 56);
    }
}
