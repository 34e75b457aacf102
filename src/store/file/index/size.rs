//! The size of a body, in the two unused bytes of an entry.

/// Bytes of a step; sizes are rounded up to whole steps.
const STEP: usize = 16;
/// Number of bits for the number of steps. Larger sizes are rounded up further, by at most 1 in
/// 2048.
const BITS: u32 = 12;

/// Size of a body: the low bits are a number of steps, to be shifted left by the high bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size(u16);

impl Size {
    pub fn from_bytes(bytes: usize) -> Self {
        let (mut steps, mut shift) = (bytes.div_ceil(STEP), 0);
        while steps >> BITS > 0 {
            (steps, shift) = (steps.div_ceil(2), shift + 1);
        }
        u16::try_from(shift << BITS | steps).map_or(Self(u16::MAX), Self)
    }

    pub fn bytes(self) -> u64 {
        let (steps, shift) = (u64::from(self.0) & ((1 << BITS) - 1), self.0 >> BITS);
        (steps << shift) * STEP as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Entry, *};

    #[test]
    fn a_size_is_rounded_up_and_costs_an_entry_nothing() {
        for (bytes, rounded) in [(0, 0), (1, 16), (16, 16), (17, 32), (65_520, 65_520)] {
            assert_eq!(Size::from_bytes(bytes).bytes(), rounded);
        }
        assert_eq!(Size::from_bytes(64 << 20).bytes(), 64 << 20);
        assert_eq!(Size::from_bytes(usize::MAX).bytes(), (4095 << 15) * 16);
        assert_eq!(size_of::<Entry>(), 40);
        assert_eq!(size_of::<Option<Entry>>(), 40);
    }

    #[test]
    fn a_long_size_is_rounded_up_by_less_than_a_thousandth() {
        let mut last = 0;
        for bytes in (0..100 << 20).step_by(10_007) {
            let rounded = Size::from_bytes(bytes).bytes();
            let excess = rounded - bytes as u64;
            assert!(excess < 16 + bytes as u64 / 1000, "{bytes} became {rounded}");
            assert!(rounded >= last, "{bytes} became {rounded}, less than {last}");
            last = rounded;
        }
    }
}
