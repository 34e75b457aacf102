//! Reservations: the hold of one consumer on one job.

use std::{fmt, str::FromStr};

use super::state::Refusal;

/// The reservation that a pop gives with each job; it lets the consumer act on the job until
/// another consumer gets it.
///
/// 64 bits, written as 16 hexadecimal digits: 52 random bits of the pop call (its [`Nonce`]), one
/// bit for whether the client's text carries a tag ([`ReservationKey`](super::ReservationKey)), and
/// 11 bits that number the jobs of the call. A job gets a different reservation in every pop, even
/// when its id is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation(u64);

/// The random part of all reservations of one pop call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(u64);

impl Nonce {
    /// Maximum number of reservations of one call.
    pub const RESERVATIONS: u16 = 2048;

    /// Creates a nonce from any random number; never zero, which no reservation has.
    pub fn new(random: u64) -> Self {
        Self((random >> 12).max(1))
    }

    /// Returns the reservation of job number `index` of the call, below
    /// [`RESERVATIONS`](Self::RESERVATIONS).
    pub fn reservation(self, index: u16) -> Reservation {
        Reservation(self.0 << 12 | Reservation::TAGGED | u64::from(index % Self::RESERVATIONS))
    }
}

impl fmt::Display for Nonce {
    /// Writes 13 hexadecimal digits, with which all reservations of the call begin.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:013x}", self.0)
    }
}

impl Reservation {
    /// A reservation that holds no job, for text that cannot be parsed. Reservations are opaque to
    /// clients, so such text gets the same refusal as a reservation that no longer holds the job.
    pub const NONE: Self = Self(0);

    /// The bit of reservations with a tag; every pop sets it. Persisted.
    const TAGGED: u64 = 0x800;

    /// Returns whether clients must send the tag of this reservation.
    pub fn is_tagged(self) -> bool {
        self.0 & Self::TAGGED != 0
    }

    /// Returns the reservation without a tag. A store keeps this form for a job that was imported
    /// with a reservation of another store, whose tags it cannot check.
    #[must_use]
    pub fn untagged(self) -> Self {
        Self(self.0 & !Self::TAGGED)
    }

    /// Returns the nonce of the pop that gave it.
    pub fn nonce(self) -> Nonce {
        Nonce(self.0 >> 12)
    }

    /// Returns the 64 bits, for storing.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Creates a reservation from stored bits.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Checks whether a caller may act on a job whose last pop gave `last`. `given` is the caller's
    /// reservation, or `None` to act by id alone.
    ///
    /// # Errors
    /// `ReservationLost` for any other reservation, `NeverPopped` by id alone before the first pop.
    pub fn check(given: Option<Self>, last: Option<Self>, was_popped: bool) -> Result<(), Refusal> {
        match given {
            Some(reservation) if Some(reservation) == last => Ok(()),
            Some(_) => Err(Refusal::ReservationLost),
            None if !was_popped => Err(Refusal::NeverPopped),
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
            let reservation = nonce.reservation(index);
            prop_assert_eq!(reservation.to_string().parse(), Ok(reservation));
            prop_assert_eq!(reservation.to_string(), format!("{nonce}{:03x}", index + 0x800));
            prop_assert_eq!(reservation.nonce(), nonce);
            prop_assert_ne!(reservation, Reservation::NONE);
            prop_assert!(reservation.is_tagged() && !reservation.untagged().is_tagged());
            prop_assert_eq!(reservation.untagged().nonce(), nonce);
        }

        #[test]
        fn other_text_is_refused(text in "[^0-9a-f]{0,20}|[0-9A-F]{15}G|\\+[0-9a-f]{15}") {
            prop_assert!(text.parse::<Reservation>().is_err());
        }
    }
}
