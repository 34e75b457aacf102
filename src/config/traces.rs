//! Settings of `[traces]`: the export of OpenTelemetry spans.

use axum::http::Uri;
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
        [self.endpoint(), self.share()]
    }

    fn endpoint(&self) -> Result<(), SettingsError> {
        let (key, given) = match &self.otlp_endpoint {
            None => return Ok(()),
            Some(endpoint) => ("traces.otlp_endpoint", endpoint),
        };
        if cfg!(not(feature = "otlp")) {
            let allowed = "requires a build with `--features otlp`";
            return Err(refused(key, allowed, "a build without it"));
        }
        let uri = given.parse::<Uri>().ok();
        let fits = |uri: &Uri| {
            let user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
            uri.scheme_str() == Some("http") && !user
        };
        if uri.as_ref().is_some_and(fits) {
            return Ok(());
        }
        // The given text is not shown, since it may contain a password.
        let allowed = "must be a URL such as \"http://127.0.0.1:4318/v1/traces\", with plain HTTP and \
                       without a user";
        Err(refused(key, allowed, "a value that is not shown, because it may contain a password"))
    }

    fn share(&self) -> Result<(), SettingsError> {
        match self.sampled {
            share if (0.0..=1.0).contains(&share) => Ok(()),
            share => Err(refused("traces.sampled", "must be from 0 to 1", share)),
        }
    }
}
