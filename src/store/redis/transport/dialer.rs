//! Dialing: address, TLS, user and password, and timeouts.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError,
    TlsCertificates, aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    time::timeout,
};

use crate::store::{
    OpenError,
    redis::{Host, Login, RedisOptions},
};

/// Timeout of a new connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time within which a server must answer a plain PING.
const PLAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout of an answer.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maker of connections that differ only in their address.
#[derive(Clone)]
pub struct Dialer {
    redis: RedisConnectionInfo,
    tls: Option<TlsCertificates>,
}

impl Dialer {
    /// Returns a dialer of the servers that have the jobs.
    ///
    /// # Errors
    /// A file for TLS is unreadable or invalid.
    pub fn to_redis(options: &RedisOptions) -> Result<Self, OpenError> {
        Ok(Self::new(&options.login, options.url.db, tls(options)?))
    }

    /// Returns a dialer of the Sentinels.
    ///
    /// # Errors
    /// A file for TLS is unreadable or invalid.
    pub fn to_sentinels(options: &RedisOptions) -> Result<Self, OpenError> {
        Ok(Self::new(&options.sentinel_login, 0, tls(options)?))
    }

    fn new(login: &Login, db: u32, tls: Option<TlsCertificates>) -> Self {
        let mut redis = RedisConnectionInfo::default().set_db(db.into());
        if let Some(user) = &login.user {
            redis = redis.set_username(user);
        }
        if let Some(password) = &login.password {
            redis = redis.set_password(&password.0);
        }
        Self { redis, tls }
    }

    /// Opens a connection for commands and their answers.
    pub async fn dial(&self, host: &Host) -> Result<MultiplexedConnection, RedisError> {
        // Replies are parsed in the format of this protocol version.
        let client = self.client(host, ProtocolVersion::RESP2)?;
        client.get_multiplexed_async_connection_with_config(&config()).await
    }

    /// Opens a connection that receives published messages; `heard` closes with it.
    pub async fn listen(
        &self,
        host: &Host,
        heard: mpsc::UnboundedSender<PushInfo>,
    ) -> Result<MultiplexedConnection, RedisError> {
        let client = self.client(host, ProtocolVersion::RESP3)?;
        let config = config().set_push_sender(heard);
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Returns whether a server that should speak TLS answers a plain PING with any reply.
    pub async fn answers_without_tls(&self, host: &Host) -> bool {
        let ask = async {
            let mut stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
            stream.write_all(b"PING\r\n").await?;
            stream.read_u8().await
        };
        // Replies of Redis begin with + or -, but records of TLS do not.
        let answer = self.tls.is_some().then(|| timeout(PLAIN_TIMEOUT, ask));
        let Some(answer) = answer else { return false };
        matches!(answer.await, Ok(Ok(b'+' | b'-')))
    }

    fn client(&self, host: &Host, protocol: ProtocolVersion) -> Result<Client, RedisError> {
        let (name, port) = (host.name.clone(), host.port);
        let address = match self.tls {
            None => ConnectionAddr::Tcp(name, port),
            Some(_) => {
                ConnectionAddr::TcpTls { host: name, port, insecure: false, tls_params: None }
            }
        };
        let keepalive = redis::io::tcp::socket2::TcpKeepalive::new().with_time(CONNECT_TIMEOUT);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(keepalive)
            .set_user_timeout(RESPONSE_TIMEOUT);
        let info: ConnectionInfo = address.into_connection_info()?;
        let info = info
            .set_tcp_settings(tcp)
            .set_redis_settings(self.redis.clone().set_protocol(protocol));
        match &self.tls {
            None => Client::open(info),
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        }
    }
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
}

/// Reads the files for TLS, if TLS is used. Refuses files without certificates or keys here, where
/// the error can still name the file.
fn tls(options: &RedisOptions) -> Result<Option<TlsCertificates>, OpenError> {
    if !options.url.tls {
        return Ok(None);
    }
    let client_tls = match &options.tls.client {
        None => None,
        Some((cert, key)) => {
            let (client_cert, client_key) = (certificates(cert)?, bytes(key)?);
            PrivateKeyDer::from_pem_slice(&client_key).map_err(|why| unreadable(key, why))?;
            Some(ClientTlsConfig { client_cert, client_key })
        }
    };
    let root_cert = options.tls.ca.as_ref().map(certificates).transpose()?;
    Ok(Some(TlsCertificates { client_tls, root_cert }))
}

fn certificates(path: &PathBuf) -> Result<Vec<u8>, OpenError> {
    let bytes = bytes(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match all {
        Ok(all) if all.is_empty() => {
            Err(unreadable(path, "the file contains no certificate (PEM)"))
        }
        Ok(_) => Ok(bytes),
        Err(cause) => Err(unreadable(path, cause)),
    }
}

fn bytes(path: &PathBuf) -> Result<Vec<u8>, OpenError> {
    std::fs::read(path).map_err(|cause| unreadable(path, cause))
}

fn unreadable(path: &Path, cause: impl ToString) -> OpenError {
    OpenError::Engine { subject: path.display().to_string(), cause: cause.to_string() }
}
