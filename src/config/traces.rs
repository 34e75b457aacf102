//! Settings of `[traces]`: the export of OpenTelemetry spans.

use axum::http::{Uri, uri::Authority};
use serde::{Deserialize, Serialize};

use super::error::{SettingsError, refused};

/// Settings of `[traces]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config/default.toml is the one place that explains each")]
pub struct TracesSettings {
    pub otlp_endpoint: Option<String>,
    pub sampled: f64,
}

impl TracesSettings {
    pub(super) fn check(&self) -> [Result<(), SettingsError>; 2] {
        [self.check_endpoint(), self.check_sampled()]
    }

    fn check_endpoint(&self) -> Result<(), SettingsError> {
        let (key, given) = match &self.otlp_endpoint {
            None => return Ok(()),
            Some(endpoint) => ("traces.otlp_endpoint", endpoint),
        };
        if cfg!(not(feature = "otlp")) {
            let allowed = "requires a build with `--features otlp`";
            return Err(refused(key, allowed, "a build without it"));
        }
        let uri = given.parse::<Uri>().ok();
        let is_allowed = |uri: &Uri| {
            let has_user = |authority: &Authority| authority.as_str().contains('@');
            uri.scheme_str() == Some("http") && !uri.authority().is_none_or(has_user)
        };
        if uri.as_ref().is_some_and(is_allowed) {
            return Ok(());
        }
        // The given text is not shown, since it may contain a password.
        let allowed = "must be a URL such as \"http://127.0.0.1:4318/v1/traces\", with plain HTTP and \
                       without a user";
        Err(refused(key, allowed, "a value that is not shown, because it may contain a password"))
    }

    fn check_sampled(&self) -> Result<(), SettingsError> {
        match self.sampled {
            sampled if (0.0..=1.0).contains(&sampled) => Ok(()),
            sampled => Err(refused("traces.sampled", "must be from 0 to 1", sampled)),
        }
    }
}
