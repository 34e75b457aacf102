//! Tags that keep clients from computing one reservation from another, and marks of ids that only
//! the store can make.
//!
//! The reservations of one pop call differ only in a number. Therefore clients get each reservation
//! followed by a tag, which only servers of the store can compute. A store contains the key, and
//! reservations without their tags.

use std::{fmt, str::FromStr};

use ring::hmac;

use super::{JobId, Reservation};

/// Hexadecimal digits of a reservation, before its tag.
const RESERVATION_DIGITS: usize = 16;

/// The secret key for the tags and marks of a store.
pub struct ReservationKey {
    bytes: [u8; 32],
    key: hmac::Key,
}

/// A reservation as clients see it: 32 hexadecimal digits, the second half of which is the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaggedReservation(Reservation, u64);

impl ReservationKey {
    /// Generates a key.
    pub fn generate() -> Self {
        Self::from(rand::random::<[u8; 32]>())
    }

    /// Returns the stored form: the key in 64 hexadecimal digits, then its CRC-32 in 8. Must stay
    /// stable.
    pub fn reveal(&self) -> String {
        let digits: String = self.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digits}{:08x}", crc32fast::hash(&self.bytes))
    }

    /// Returns the reservation of this job with its tag, for a client.
    pub fn tag(&self, id: &JobId, reservation: Reservation) -> TaggedReservation {
        TaggedReservation(reservation, self.compute_tag(id, reservation))
    }

    /// Parses the reservation that a client sent for this job, and verifies its tag.
    ///
    /// If the tag is wrong or missing, returns the [untagged](Reservation::untagged) reservation.
    /// It matches only a job that was imported with the reservation of another store.
    pub fn check(&self, id: &JobId, text: &str) -> Reservation {
        let (reservation, tag) = text.split_at_checked(RESERVATION_DIGITS).unwrap_or((text, ""));
        let Ok(reservation) = reservation.parse::<Reservation>() else {
            return Reservation::NONE;
        };
        // Comparing integers takes the same time whichever digit is wrong, so guessing digit by
        // digit is not possible.
        match u64::from_str_radix(tag, 16) {
            Ok(tag) if self.compute_tag(id, reservation) == tag => reservation,
            _ => reservation.untagged(),
        }
    }

    /// Returns six characters for the id of a job, which only servers of the store can compute from
    /// the first part of the id. Must stay stable.
    pub fn mark(&self, id: &JobId) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut context = hmac::Context::with_key(&self.key);
        // No tag of a reservation is computed from a text with a space in this place.
        context.update(b"mark of ");
        context.update(b" ");
        context.update(id.as_str().as_bytes());
        let mark = context.sign();
        mark.as_ref().iter().take(6).map(|byte| DIGITS[usize::from(byte % 64)] as char).collect()
    }

    /// Computes the tag of a reservation of this job.
    fn compute_tag(&self, id: &JobId, reservation: Reservation) -> u64 {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&reservation.bits().to_be_bytes());
        context.update(id.as_str().as_bytes());
        let tag = context.sign();
        tag.as_ref().iter().take(8).fold(0, |tag, &byte| tag << 8 | u64::from(byte))
    }
}

impl From<[u8; 32]> for ReservationKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self { bytes, key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) }
    }
}

impl FromStr for ReservationKey {
    type Err = ();

    /// Parses the stored form; refuses damaged text.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| ())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| ())?;
        }
        let key = Self::from(bytes);
        if key.reveal() == text { Ok(key) } else { Err(()) }
    }
}

impl fmt::Debug for ReservationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl fmt::Display for TaggedReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:016x}", self.0, self.1)
    }
}

impl serde::Serialize for TaggedReservation {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::Nonce;

    fn id(text: &str) -> JobId {
        text.parse().expect("an id")
    }

    #[test]
    fn the_texts_of_keys_and_tags_never_change_and_are_parsed_back() {
        let key = ReservationKey::from([7; 32]);
        let text = key.reveal();
        assert_eq!(text, format!("{}a3d824cb", "07".repeat(32)));
        assert_eq!(text.parse::<ReservationKey>().expect("its own text").bytes, [7; 32]);
        for damaged in ["", &text[2..], &text.replacen('0', "1", 1), &format!("{text}0")] {
            damaged.parse::<ReservationKey>().expect_err(damaged);
        }
        let reservation = Nonce::new(0x5f0c_9d1e_2b3a_4000).reservation(3);
        let shown = key.tag(&id("call:1"), reservation).to_string();
        assert_eq!(shown, "5f0c9d1e2b3a48039193ac8850b5ad8d");
        assert_eq!(key.mark(&id("daily:1800000000000")), "ygdkUg");
    }

    #[test]
    fn a_mark_is_that_of_its_id_and_store() {
        let (key, other) = (ReservationKey::from([7; 32]), ReservationKey::from([8; 32]));
        let mark = key.mark(&id("a:1"));
        id(&format!("a:1:{mark}"));
        assert_eq!(mark, key.mark(&id("a:1")));
        assert_ne!(mark, key.mark(&id("a:2")));
        assert_ne!(mark, other.mark(&id("a:1")));
    }

    proptest! {
        #[test]
        fn a_tag_is_valid_only_for_its_reservation_job_and_store(random: u64, index in 0..2048_u16, bit in 0..64) {
            let (key, other) = (ReservationKey::generate(), ReservationKey::generate());
            let reservation = Nonce::new(random).reservation(index);
            let shown = key.tag(&id("a"), reservation).to_string();
            prop_assert_eq!(key.check(&id("a"), &shown), reservation);
            let wrong = TaggedReservation(reservation, key.compute_tag(&id("a"), reservation) ^ (1_u64 << bit));
            let next = format!("{}{}", Nonce::new(random).reservation(index ^ 1), &shown[16..]);
            let texts = [&wrong.to_string(), &shown[..16], &shown[..31], &format!("{shown}0")];
            for text in texts {
                prop_assert_eq!(key.check(&id("a"), text), reservation.untagged(), "{}", text);
            }
            prop_assert!(!key.check(&id("a"), &next).is_tagged());
            prop_assert!(!key.check(&id("b"), &shown).is_tagged());
            prop_assert!(!other.check(&id("a"), &shown).is_tagged());
        }

        #[test]
        fn any_text_without_a_valid_tag_is_untagged(text in ".{0,40}") {
            prop_assert!(!ReservationKey::from([1; 32]).check(&id("a"), &text).is_tagged());
        }
    }
}
