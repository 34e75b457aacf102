//! Lists in requests, with a limited length.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, SeqAccess, Visitor},
};

/// A list of 1 to `MAX` items. Reading stops with an error at item `MAX + 1`, since a request may
/// have millions.
pub struct List<T, const MAX: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Items<T, MAX> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let wrong =
                    |got| A::Error::custom(format!("must have 1 to {MAX} items, got {got}"));
                let mut items = Vec::new();
                while items.len() < MAX {
                    match list.next_element()? {
                        Some(item) => items.push(item),
                        None if items.is_empty() => return Err(wrong("none")),
                        None => return Ok(items),
                    }
                }
                match list.next_element::<IgnoredAny>()? {
                    Some(_) => Err(wrong("more")),
                    None => Ok(items),
                }
            }
        }
        deserializer.deserialize_seq(Items::<T, MAX>(PhantomData)).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_list_stops_at_the_first_item_beyond_the_limit() {
        let read = |text: &str| serde_json::from_str::<List<u64, 3>>(text).map(|list| list.0);
        assert_eq!(read("[1,2,3]").expect("three"), [1, 2, 3]);
        assert_eq!(read("[7]").expect("one"), [7]);
        let refused = |text| read(text).expect_err(text).to_string();
        assert!(refused("[]").starts_with("must have 1 to 3 items, got none"));
        // The rest is neither a number nor JSON, but must not be read.
        assert!(refused("[1,2,3,4,x").starts_with("must have 1 to 3 items, got more"));
        assert!(refused("7").contains("expected a list"));
    }
}
