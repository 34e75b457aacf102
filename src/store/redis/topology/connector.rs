//! How connections to a server are made: found, dialed and inspected.

use std::sync::Arc;

use futures::FutureExt;

use super::sentinel::Sentinels;
use crate::store::{
    OpenError,
    redis::{
        Host,
        preflight::Preflight,
        transport::{Connect, Connected, Dialer},
    },
};

/// How a server's address is found.
#[derive(Clone)]
pub enum Endpoint {
    /// It is known.
    At(Host),
    /// Sentinels know it.
    Sentinels(Sentinels),
}

impl Endpoint {
    pub async fn host(&self) -> Result<Host, OpenError> {
        match self {
            Self::At(host) => Ok(host.clone()),
            Self::Sentinels(sentinels) => sentinels.endpoint().await,
        }
    }

    /// Whether no Sentinel has named another address than `host`.
    pub fn is_still(&self, host: &Host) -> bool {
        match self {
            Self::At(_) => true,
            Self::Sentinels(sentinels) => sentinels.is_still(host),
        }
    }
}

/// How connections to a server are made.
#[derive(Clone)]
pub struct Connector {
    pub endpoint: Endpoint,
    pub dialer: Dialer,
    pub preflight: Preflight,
}

impl Connector {
    /// Connects to the server, if it is fit.
    pub async fn connect(&self) -> Result<Connected, OpenError> {
        let host = self.endpoint.host().await?;
        let mut connection = match self.dialer.dial(&host).await {
            Ok(connection) => connection,
            Err(_) if self.dialer.answers_without_tls(&host).await => {
                let cause = "it does not speak TLS: begin store.url with redis instead of rediss";
                let (what, cause) = (format!("Redis at {host}"), cause.to_owned());
                return Err(OpenError::Engine { what, cause });
            }
            Err(cause) => return Err(self.preflight.engine(&host, &cause)),
        };
        self.preflight.inspect(&host, &mut connection).await?;
        Ok((host, connection))
    }

    /// [`connect`](Self::connect), for a connection that reconnects.
    pub fn reconnect(&self) -> Connect {
        let connector = Arc::new(self.clone());
        Arc::new(move || {
            let connector = Arc::clone(&connector);
            async move { connector.connect().await }.boxed()
        })
    }
}
