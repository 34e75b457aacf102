//! One consumer's hold on one job.

use std::{fmt, str::FromStr};

use super::state::Refusal;

/// The token that a pop gives with each job; a consumer that lost the job can no longer act on it.
///
/// 64 bits, written as 16 hexadecimal digits: 52 random ones of the pop call (its [`Nonce`]),
/// then 12 that number the jobs of the call. A job's tokens differ in every pop and also in every
/// life of a reused id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation(u64);

/// The random part of the reservations that one pop call gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(u64);

impl Nonce {
    /// How many reservations one call can give.
    pub const RESERVATIONS: u16 = 4096;

    /// From any random number; never zero, which no reservation has.
    pub fn new(random: u64) -> Self {
        Self((random >> 12).max(1))
    }

    /// The reservation of the call's job number `index`, below [`RESERVATIONS`](Self::RESERVATIONS).
    pub fn reservation(self, index: u16) -> Reservation {
        Reservation(self.0 << 12 | u64::from(index & 0xfff))
    }
}

impl fmt::Display for Nonce {
    /// 13 hexadecimal digits: what the reservations of the call begin with.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:013x}", self.0)
    }
}

impl Reservation {
    /// Holds nothing: what text becomes that never was a token of ours. To a client a token is
    /// opaque, so such text meets the same refusal as a token that is no longer the job's.
    pub const NONE: Self = Self(0);

    /// The token a client sent.
    pub fn from_client(text: &str) -> Self {
        text.parse().unwrap_or(Self::NONE)
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

impl serde::Serialize for Reservation {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_token_survives_its_text_and_begins_with_its_nonce(random: u64, index in 0..4096_u16) {
            let nonce = Nonce::new(random);
            let token = nonce.reservation(index);
            prop_assert_eq!(token.to_string().parse(), Ok(token));
            prop_assert_eq!(token.to_string(), format!("{nonce}{index:03x}"));
            prop_assert_eq!(token.nonce(), nonce);
            prop_assert_ne!(token, Reservation::NONE);
        }

        #[test]
        fn text_that_is_no_token_holds_nothing(text in "[^0-9a-f]{0,20}|[0-9A-F]{16}G?|\\+[0-9a-f]{15}") {
            prop_assume!(text.parse::<Reservation>().is_err());
            prop_assert_eq!(Reservation::from_client(&text), Reservation::NONE);
        }
    }
}
