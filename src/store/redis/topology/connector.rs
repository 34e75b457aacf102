//! Connections to a server: finds its address, dials and inspects it.

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

/// Source of a server's address.
#[derive(Clone)]
pub enum Endpoint {
    /// Fixed address.
    At(Host),
    /// Sentinels, which know the present address.
    Sentinels(Sentinels),
}

impl Endpoint {
    pub async fn host(&self) -> Result<Host, OpenError> {
        match self {
            Self::At(host) => Ok(host.clone()),
            Self::Sentinels(sentinels) => sentinels.endpoint().await,
        }
    }

    /// Returns false if a Sentinel has named another address than `host`, otherwise true.
    pub fn is_still(&self, host: &Host) -> bool {
        match self {
            Self::At(_) => true,
            Self::Sentinels(sentinels) => sentinels.is_still(host),
        }
    }
}

/// Factory of connections to one server.
#[derive(Clone)]
pub struct Connector {
    pub endpoint: Endpoint,
    pub dialer: Dialer,
    pub preflight: Preflight,
}

impl Connector {
    /// Connects to the server and inspects it.
    pub async fn connect(&self) -> Result<Connected, OpenError> {
        let host = self.endpoint.host().await?;
        let mut connection = match self.dialer.dial(&host).await {
            Ok(connection) => connection,
            Err(_) if self.dialer.answers_without_tls(&host).await => {
                let cause = "it does not speak TLS: begin store.url with redis instead of rediss";
                let (subject, cause) = (format!("Redis at {host}"), cause.to_owned());
                return Err(OpenError::Engine { subject, cause });
            }
            Err(cause) => return Err(self.preflight.engine(&host, &cause)),
        };
        self.preflight.inspect(&host, &mut connection).await?;
        Ok((host, connection))
    }

    /// Returns [`connect`](Self::connect) as a closure, for a connection that reconnects.
    pub fn reconnect(&self) -> Connect {
        let connector = Arc::new(self.clone());
        Arc::new(move || {
            let connector = Arc::clone(&connector);
            async move { connector.connect().await }.boxed()
        })
    }
}
