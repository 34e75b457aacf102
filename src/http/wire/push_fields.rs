//! Fields of a push in requests. No refusal repeats a secret or a value that may be one.

use std::fmt;

use schemars::json_schema;
use serde::{
    Deserialize, Deserializer,
    de::{self, Error, IgnoredAny, MapAccess, SeqAccess},
};

use crate::{
    http::schema::{push::SecretText, schemas},
    job::{
        Headers, HeadersError, Hidden, MAX_HEADER_BYTES, MAX_HEADERS, MAX_PUSH_SECRETS,
        decode_secret,
    },
};

/// Name of the only reserved header that a push may have.
const AUTHORIZATION: &str = "authorization";
/// Value in place of one that is not shown.
pub const MASK: &str = "***";

/// A whole number from 1 to 1,000.
pub struct Count(pub u16);
schemas! {
    Count => |_| json_schema!({ "type": "integer", "minimum": 1, "maximum": 1000 });
    Secrets => |generator| json_schema!({
        "type": "array", "items": generator.subschema_for::<SecretText>(), "maxItems": MAX_PUSH_SECRETS,
    });
    GivenHeaders => |generator| <Headers as schemars::JsonSchema>::json_schema(generator);
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 1 to 1000")
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<Count, E> {
                let fits = u16::try_from(count).ok().filter(|count| (1..=1000).contains(count));
                fits.map(Count)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(count), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Secrets of a push, each in the form that the server can decode.
pub struct Secrets(pub Vec<Hidden>);

impl<'de> Deserialize<'de> for Secrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Secrets;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<Secrets, E> {
                Err(E::custom("must be a list, got text"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Secrets, A::Error> {
                let mut secrets = Vec::new();
                while secrets.len() < MAX_PUSH_SECRETS {
                    match list.next_element()? {
                        Some(Secret(secret)) => secrets.push(secret),
                        None => return Ok(Secrets(secrets)),
                    }
                }
                match list.next_element::<IgnoredAny>()? {
                    Some(_) => Err(A::Error::custom(format!(
                        "must have at most {MAX_PUSH_SECRETS} items, got more"
                    ))),
                    None => Ok(Secrets(secrets)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

struct Secret(Hidden);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?.into_owned();
        match decode_secret(&text) {
            Some(_) => Ok(Self(Hidden::new(text))),
            None => Err(D::Error::custom(
                "must be `whsec_` and the base64 of 24 to 64 bytes, with padding",
            )),
        }
    }
}

/// Headers of a push, which may contain `authorization` in any case.
pub struct GivenHeaders {
    pub others: Headers,
    pub authorization: Option<Hidden>,
}

impl GivenHeaders {
    fn new(pairs: Vec<(String, String)>) -> Result<Self, HeadersError> {
        let bytes = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        if pairs.len() > MAX_HEADERS {
            return Err(HeadersError::Count(pairs.len()));
        }
        if bytes > MAX_HEADER_BYTES {
            return Err(HeadersError::Size(bytes));
        }
        let is_authorization =
            |pair: &mut (String, String)| pair.0.eq_ignore_ascii_case(AUTHORIZATION);
        let mut others = pairs;
        let authorization: Vec<_> = others.extract_if(.., is_authorization).collect();
        let others = Headers::new(others)?;
        match &authorization[..] {
            [] => Ok(Self { others, authorization: None }),
            [(name, value)] if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => {
                Err(HeadersError::Value(name.clone()))
            }
            [(_, value)] => Ok(Self { others, authorization: Some(Hidden::new(value.clone())) }),
            [_, (name, _), ..] => Err(HeadersError::Duplicate(name.clone())),
        }
    }
}

impl<'de> Deserialize<'de> for GivenHeaders {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = GivenHeaders;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of text values")
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<GivenHeaders, E> {
                Err(E::custom("must be an object of text values, got text"))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GivenHeaders, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                GivenHeaders::new(pairs).map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
