//! Fields of a push in requests. No refusal repeats a secret or a value that may be one.

use std::{collections::BTreeMap, fmt};

use guarded_client::is_dropped;
use schemars::json_schema;
use serde::{
    Deserialize, Deserializer,
    de::{self, Error, IgnoredAny, MapAccess, SeqAccess},
};

use crate::{
    http::schema::{
        push::{self, SecretText},
        schemas,
    },
    job::{
        Headers, HeadersError, Hidden, MAX_HEADER_BYTES, MAX_HEADERS, MAX_PUSH_SECRETS,
        decode_secret,
    },
};

/// Name of the only reserved header that a push may have.
pub const AUTHORIZATION: &str = "authorization";
/// Value in place of one that is not shown.
pub const MASK: &str = "***";

/// A whole number from 1 to 1,000.
pub struct Count(pub u16);
schemas! {
    Count => |_| json_schema!({ "type": "integer", "minimum": 1, "maximum": 1000 });
    Secrets => |generator| json_schema!({
        "type": "array", "items": generator.subschema_for::<SecretText>(), "maxItems": MAX_PUSH_SECRETS,
    });
    GivenHeaders => |_| push::headers();
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

/// Headers of a push: plain ones, and secret ones, such as `authorization` in any case.
pub struct GivenHeaders {
    pub others: Headers,
    /// Values by name in lower case; the mask keeps the stored value.
    pub secret: BTreeMap<String, Hidden>,
}

/// The value of a header: text, or `{"secret": text}`.
struct GivenValue {
    text: String,
    is_secret: bool,
}

impl GivenHeaders {
    fn new(given: Vec<(String, GivenValue)>) -> Result<Self, HeadersError> {
        let (mut authorization, mut others) = (Vec::new(), Vec::new());
        let mut secret_names = Vec::new();
        if given.len() > MAX_HEADERS {
            return Err(HeadersError::Count(given.len()));
        }
        let bytes = given.iter().map(|(name, value)| name.len() + value.text.len()).sum();
        if bytes > MAX_HEADER_BYTES {
            return Err(HeadersError::Size(bytes));
        }
        for (name, value) in given {
            if is_dropped(&name) {
                return Err(HeadersError::Reserved(name));
            }
            if value.is_secret {
                secret_names.push(name.to_ascii_lowercase());
            }
            let is_authorization = name.eq_ignore_ascii_case(AUTHORIZATION);
            if is_authorization { &mut authorization } else { &mut others }
                .push((name, value.text));
        }
        let others = Headers::new(others)?;
        let is_secret = |name: &str| secret_names.contains(&name.to_ascii_lowercase());
        let pairs = others.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (secret, others): (Vec<_>, Vec<_>) = pairs.partition(|(name, _)| is_secret(name));
        if let [_, (name, _), ..] = &authorization[..] {
            return Err(HeadersError::Duplicate(name.clone()));
        }
        let is_valid = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if let Some((name, _)) = authorization.iter().find(|(_, text)| !is_valid(text)) {
            return Err(HeadersError::Value(name.clone()));
        }
        let secret = secret.into_iter().chain(authorization);
        let secret = secret.map(|(name, text)| (name.to_ascii_lowercase(), Hidden::new(text)));
        Ok(Self { others: Headers::new(others)?, secret: secret.collect() })
    }
}

impl<'de> Deserialize<'de> for GivenValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = GivenValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, or an object with the text `secret`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<GivenValue, E> {
                Ok(GivenValue { text: text.to_owned(), is_secret: false })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<GivenValue, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Secret {
                    secret: String,
                }

                let map = de::value::MapAccessDeserializer::new(map);
                let Secret { secret: text } = Secret::deserialize(map)?;
                Ok(GivenValue { text, is_secret: true })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for GivenHeaders {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = GivenHeaders;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of headers")
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<GivenHeaders, E> {
                Err(E::custom("must be an object of headers, got text"))
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
