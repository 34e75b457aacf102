//! Compact job ids: the id that a server generates is a number, and is stored as one.

use crate::job::JobId;

/// A job's id in the index: 16 bytes, without an allocation for a number.
#[derive(Debug)]
pub enum SmallId {
    Number(u64),
    Text(Box<str>),
}

/// A borrowed id, for lookups and comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdRef<'a> {
    Number(u64),
    Text(&'a str),
}

impl<'a> From<&'a JobId> for IdRef<'a> {
    /// Converts to a number if its decimal text is exactly the id.
    fn from(id: &'a JobId) -> Self {
        let text = id.as_str();
        let starts_well = text.len() <= 19 && matches!(text.as_bytes()[0], b'1'..=b'9');
        match text.parse() {
            Ok(number) if starts_well => Self::Number(number),
            _ => Self::Text(text),
        }
    }
}

impl From<IdRef<'_>> for SmallId {
    fn from(id: IdRef<'_>) -> Self {
        match id {
            IdRef::Number(number) => Self::Number(number),
            IdRef::Text(text) => Self::Text(text.into()),
        }
    }
}

impl SmallId {
    pub fn borrowed(&self) -> IdRef<'_> {
        match self {
            Self::Number(number) => IdRef::Number(*number),
            Self::Text(text) => IdRef::Text(text),
        }
    }

    pub fn full(&self) -> JobId {
        let mut digits = itoa::Buffer::new();
        let text = match self {
            Self::Number(number) => digits.format(*number),
            Self::Text(text) => text,
        };
        text.parse().expect("it was a job's id before")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_takes_sixteen_bytes() {
        assert_eq!(size_of::<SmallId>(), 16);
    }

    proptest! {
        #[test]
        fn an_id_survives_being_small(text in "[0-9]{1,25}|[A-Za-z0-9._:-]{1,128}|[1-9][0-9]{17,19}") {
            prop_assume!(text != "." && text != "..");
            let id: JobId = text.parse().expect("an id");
            prop_assert_eq!(SmallId::from(IdRef::from(&id)).full(), id);
        }
    }
}
