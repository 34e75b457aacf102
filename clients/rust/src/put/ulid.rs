//! Ids of puts without one: 48 bits of Unix milliseconds and 80 random bits, as a ULID.

use std::time::{SystemTime, UNIX_EPOCH};

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const RANDOM_BITS: u32 = 80;

pub(super) fn new(now: SystemTime) -> String {
    let millis = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    text((millis << RANDOM_BITS) | (rand::random::<u128>() >> (128 - RANDOM_BITS)))
}

/// Returns the 26 characters of 128 bits, five bits each.
fn text(bits: u128) -> String {
    (0..26).rev().map(|place| char::from(CROCKFORD[(bits >> (5 * place)) as usize & 31])).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use super::*;

    #[test]
    fn an_id_begins_with_its_time() {
        // The example of the specification of ULIDs.
        let time = UNIX_EPOCH + Duration::from_millis(1_469_918_176_385);
        assert_eq!(new(time)[..10], *"01ARYZ6S41");
        assert_eq!(text(u128::MAX), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    }

    #[test]
    fn ids_of_one_instant_differ() {
        let ids: HashSet<String> = (0..1000).map(|_| new(UNIX_EPOCH)).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 26));
    }
}
