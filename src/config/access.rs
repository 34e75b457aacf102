//! Settings for access: who may reach the server, and from which web pages.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{
    ServerSettings,
    error::{SettingsError, refused},
    store::read_secret,
};
use crate::access::SecretToken;

/// A list of texts; in an environment variable, one text with commas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TextList(pub Vec<String>);

impl<'de> Deserialize<'de> for TextList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = TextList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TextList, E> {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(TextList(items.map(str::to_owned).collect()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<TextList, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(TextList(items))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl ServerSettings {
    /// Returns the bootstrap token, if it is set by itself or by its file.
    ///
    /// # Errors
    /// The token is set twice, its file cannot be read, or the text is not a token.
    pub fn bootstrap_token(&self) -> Result<Option<SecretToken>, SettingsError> {
        const KEY: &str = "server.bootstrap_token_file";
        let given = read_secret(KEY, &self.bootstrap_token, self.bootstrap_token_file.as_ref())?;
        let parse = |text: crate::store::redis::Secret| {
            let key = if self.bootstrap_token.is_some() { "server.bootstrap_token" } else { KEY };
            let refused = |error: crate::access::SecretTokenError| {
                refused(
                    key,
                    &format!("{error} (create one with `delay-queue token generate`)"),
                    "another text",
                )
            };
            text.0.trim().parse().map_err(refused)
        };
        given.map(parse).transpose()
    }

    /// Returns the networks of `trusted_proxies`.
    ///
    /// # Errors
    /// A text is neither a network nor an address.
    pub fn trusted_networks(&self) -> Result<Vec<IpNet>, SettingsError> {
        networks("server.trusted_proxies", &self.trusted_proxies)
    }

    /// Checks `hosts` and `cors_origins`.
    pub fn check_names(&self) -> Result<(), SettingsError> {
        let is_of_host = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
        let is_host = |text: &str| !text.is_empty() && text.bytes().all(is_of_host);
        let has_port = |host: &str| {
            host.rsplit_once(':')
                .is_some_and(|(name, _)| !name.contains(':') && !name.starts_with('['))
        };
        if let Some(wrong) = self.hosts.0.iter().find(|host| !is_host(host) || has_port(host)) {
            let allowed = "must have names or addresses without a port, such as \"queue.example\"";
            return Err(refused("server.hosts", allowed, format!("{wrong:?}")));
        }
        let is_origin = |text: &&String| {
            let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
            host.is_some_and(is_host)
        };
        match self.cors_origins.0.iter().find(|origin| !is_origin(origin)) {
            Some(wrong) => {
                let allowed = "must have origins such as \"https://app.example\", without a path";
                Err(refused("server.cors_origins", allowed, format!("{wrong:?}")))
            }
            None => Ok(()),
        }
    }
}

/// Parses networks, or single addresses.
pub fn networks(key: &'static str, list: &TextList) -> Result<Vec<IpNet>, SettingsError> {
    let network = |text: &String| {
        let single_address = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse::<IpNet>().or_else(|_| single_address()).map_err(|_| {
            let allowed = "must have networks or addresses such as \"10.0.0.0/8\" or \"::1\"";
            refused(key, allowed, format!("{text:?}"))
        })
    };
    list.0.iter().map(network).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_be_a_text_with_commas() {
        for text in [r#"["a","b"]"#, r#""a,b""#, r#"" a , b,""#] {
            let list: TextList = serde_json::from_str(text).expect(text);
            assert_eq!(list.0, ["a", "b"], "{text}");
        }
        assert_eq!(serde_json::from_str::<TextList>(r#""""#).expect("a list").0, [""; 0]);
    }
}
