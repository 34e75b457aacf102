//! One consumer's hold on one job.

use std::{fmt, str::FromStr};

use super::state::Refusal;

/// The hold that a pop gives with each job; a consumer that lost the job can no longer act on it.
///
/// 64 bits, written as 16 hexadecimal digits: 52 random ones of the pop call (its [`Nonce`]), one
/// that says whether the client's text carries a tag ([`ReservationKey`](super::ReservationKey)), and 11
/// that number the jobs of the call. A job's reservations differ in every pop and also in every life
/// of a reused id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation(u64);

/// The random part of the reservations that one pop call gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(u64);

impl Nonce {
    /// How many reservations one call can give.
    pub const RESERVATIONS: u16 = 2048;

    /// From any random number; never zero, which no reservation has.
    pub fn new(random: u64) -> Self {
        Self((random >> 12).max(1))
    }

    /// The reservation of the call's job number `index`, below [`RESERVATIONS`](Self::RESERVATIONS).
    pub fn reservation(self, index: u16) -> Reservation {
        Reservation(self.0 << 12 | Reservation::TAGGED | u64::from(index % Self::RESERVATIONS))
    }
}

impl fmt::Display for Nonce {
    /// 13 hexadecimal digits: what the reservations of the call begin with.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:013x}", self.0)
    }
}

impl Reservation {
    /// Holds nothing: the value of text that never was a reservation of ours. To a client a reservation
    /// is opaque, so such text gets the same refusal as one that no longer holds the job.
    pub const NONE: Self = Self(0);

    /// Set in every reservation that a pop gives. Persisted. Versions that gave no tags counted from 0
    /// here and never gave 2,049 jobs in one call.
    const TAGGED: u64 = 0x800;

    /// Whether a client must send its tag along.
    pub fn is_tagged(self) -> bool {
        self.0 & Self::TAGGED != 0
    }

    /// The same without a tag: what a store has of a job that it was given with a reservation of another
    /// store, whose tags it cannot check.
    #[must_use]
    pub fn untagged(self) -> Self {
        Self(self.0 & !Self::TAGGED)
    }

    /// That of the pop that gave it.
    pub fn nonce(self) -> Nonce {
        Nonce(self.0 >> 12)
    }

    /// The 64 bits, for storing.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// From stored bits.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether a caller may act on a job whose last pop gave `last` and which was popped `attempt` times?
    /// `given` is the token sent, or none to go by id alone.
    ///
    /// # Errors
    /// `ReservationLost` for any other token, `NeverPopped` without one before the first pop.
    pub fn check(given: Option<Self>, last: Option<Self>, attempt: u32) -> Result<(), Refusal> {
        match given {
            Some(token) if Some(token) == last => Ok(()),
            Some(_) => Err(Refusal::ReservationLost),
            None if attempt == 0 => Err(Refusal::NeverPopped),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Reservation {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits =
            text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match u64::from_str_radix(text, 16) {
            Ok(bits) if digits => Ok(Self(bits)),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_reservation_survives_its_text_and_begins_with_its_nonce(random: u64, index in 0..2048_u16) {
            let nonce = Nonce::new(random);
            let token = nonce.reservation(index);
            prop_assert_eq!(token.to_string().parse(), Ok(token));
            prop_assert_eq!(token.to_string(), format!("{nonce}{:03x}", index + 0x800));
            prop_assert_eq!(token.nonce(), nonce);
            prop_assert_ne!(token, Reservation::NONE);
            prop_assert!(token.is_tagged() && !token.untagged().is_tagged());
            prop_assert_eq!(token.untagged().nonce(), nonce);
        }

        #[test]
        fn other_text_is_no_reservation(text in "[^0-9a-f]{0,20}|[0-9A-F]{15}G|\\+[0-9a-f]{15}") {
            prop_assert!(text.parse::<Reservation>().is_err());
        }
    }
}
