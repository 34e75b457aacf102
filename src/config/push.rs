//! Settings of `[push]`: the endpoints that pushes may reach, and how.

use std::path::PathBuf;

use guarded_client::{Allowed, Client, Options, ProxyUrl};
use serde::{Deserialize, Serialize};

use super::{
    access::{TextList, networks},
    error::{SettingsError, refused},
};
use crate::store::redis::Secret;

/// Settings of `[push]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct PushSettings {
    pub allowed_networks: TextList,
    pub allowed_hosts: TextList,
    pub ca_file: Option<PathBuf>,
    pub proxy: Option<Secret>,
}

impl PushSettings {
    /// Returns the networks and hosts that pushes may reach.
    ///
    /// # Errors
    /// A text is not a network, or a pattern cannot match a host.
    pub fn allowed(&self) -> Result<Allowed, SettingsError> {
        let networks = networks("push.allowed_networks", &self.allowed_networks)?;
        let is_of_host = |b: u8| b.is_ascii_alphanumeric() || b"-._:*".contains(&b);
        let is_host = |text: &String| !text.is_empty() && text.bytes().all(is_of_host);
        if let Some(wrong) = self.allowed_hosts.0.iter().find(|text| !is_host(text)) {
            let allowed = "must have names or addresses without a port, in which `*` stands for any \
                           text, such as \"*.shop.example\"";
            return Err(refused("push.allowed_hosts", allowed, format!("{wrong:?}")));
        }
        Ok(Allowed::new(networks, self.allowed_hosts.0.clone()))
    }

    /// Returns the client of all pushes. Reads the certificates of `ca_file` and of the platform.
    ///
    /// # Errors
    /// A setting is invalid, or the file is unreadable.
    pub fn client(&self) -> Result<Client, SettingsError> {
        let options = Options {
            allowed: self.allowed()?,
            roots: self.ca_file.as_ref().map(|file| self.read(file)).transpose()?,
            proxy: self.proxy()?,
            ..Options::default()
        };
        let allowed = "must be a file with certificates in PEM";
        Client::new(options).map_err(|error| refused("push.ca_file", allowed, error))
    }

    fn read(&self, file: &PathBuf) -> Result<Vec<u8>, SettingsError> {
        std::fs::read(file).map_err(|error| {
            let allowed = "must be a readable file with certificates in PEM";
            refused("push.ca_file", allowed, format!("{}: {error}", file.display()))
        })
    }

    fn proxy(&self) -> Result<Option<ProxyUrl>, SettingsError> {
        let parse = |text: &Secret| {
            ProxyUrl::parse(&text.0).map_err(|error| {
                // The given text is not shown, since it may contain a password.
                let allowed = "must be a URL such as \"http://proxy.example:3128\"";
                refused("push.proxy", allowed, format!("one that is not shown: {error}"))
            })
        };
        self.proxy.as_ref().map(parse).transpose()
    }

    pub(super) fn check(&self) -> [Result<(), SettingsError>; 2] {
        [self.allowed().map(drop), self.proxy().map(drop)]
    }
}
