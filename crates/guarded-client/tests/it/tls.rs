//! TLS, and versions of HTTP.

use std::{net::SocketAddr, sync::Arc};

use guarded_client::{Client, ClientError, Failure, Options};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::support::{Names, body, listen, loopback, post, read_request};

/// Certificate authority, and a server's certificate for `a.test` and `127.0.0.1`.
struct Authority {
    pem: Vec<u8>,
    config: ServerConfig,
}

impl Authority {
    fn new(protocols: &[&str]) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"))
            .expect("a CA");
        let key = KeyPair::generate().expect("a key");
        let names = vec!["a.test".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names)
            .expect("parameters")
            .signed_by(&key, &ca)
            .expect("signed");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a certificate");
        config.alpn_protocols =
            protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Self { pem: ca.pem().into_bytes(), config }
    }

    fn client(&self, address: SocketAddr, lookups: usize) -> Client {
        let options = Options { roots: Some(self.pem.clone()), ..loopback() };
        let found = [address];
        match lookups {
            0 => Client::with_resolver(options, Names::new([])),
            1 => Client::with_resolver(options, Names::new([&found])),
            _ => Client::with_resolver(options, Names::new([&found, &found])),
        }
        .expect("a client")
    }

    /// Accepts one connection, and returns the name that the client sent in the handshake.
    async fn accept(
        self,
        listener: TcpListener,
    ) -> std::io::Result<(TlsStream<TcpStream>, Option<String>)> {
        let (tcp, _) = listener.accept().await?;
        let tls = TlsAcceptor::from(Arc::new(self.config)).accept(tcp).await?;
        let name = tls.get_ref().1.server_name().map(ToOwned::to_owned);
        Ok((tls, name))
    }
}

#[tokio::test]
async fn additional_authorities_are_trusted_and_the_name_is_sent() {
    for (url, expected) in [("https://a.test/", Some("a.test")), ("https://127.0.0.1:PORT/", None)]
    {
        let (listener, address) = listen().await;
        let authority = Authority::new(&["http/1.1"]);
        let client = authority.client(address, usize::from(expected.is_some()));
        let endpoint = tokio::spawn(async move {
            let (mut tls, name) = authority.accept(listener).await.expect("a handshake");
            let request = read_request(&mut tls).await;
            tls.write_all(b"HTTP/1.1 200 Ok\r\nContent-Length: 2\r\n\r\nok")
                .await
                .expect("written");
            (name, request)
        });
        assert_eq!(
            body(post(&client, &url.replace("PORT", &address.port().to_string())).await),
            "ok"
        );
        let (name, request) = endpoint.await.expect("a request");
        assert_eq!(name.as_deref(), expected);
        assert_eq!(request.contains("host: a.test\r\n"), expected.is_some(), "{request}");
    }
}

#[tokio::test]
async fn unknown_authorities_and_other_names_send_nothing() {
    for (url, is_known) in [("https://a.test/", false), ("https://b.test/", true)] {
        let (listener, address) = listen().await;
        let server = Authority::new(&[]);
        let client = if is_known {
            server.client(address, 1)
        } else {
            Authority::new(&[]).client(address, 1)
        };
        let endpoint = tokio::spawn(server.accept(listener));
        let failure = post(&client, url).await;
        assert!(
            matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("TLS with")),
            "{failure:?}"
        );
        assert!(endpoint.await.expect("an endpoint").is_err());
    }
}

#[tokio::test]
async fn unreadable_authorities_are_an_error() {
    for pem in ["", "no certificate", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"]
    {
        let options = Options { roots: Some(pem.as_bytes().to_vec()), ..loopback() };
        assert!(matches!(Client::new(options), Err(ClientError::Roots(_))), "{pem}");
    }
}

#[tokio::test]
async fn servers_with_both_versions_get_http1() {
    let (listener, address) = listen().await;
    let authority = Authority::new(&["h2", "http/1.1"]);
    let client = authority.client(address, 1);
    let endpoint = tokio::spawn(async move {
        let (mut tls, _) = authority.accept(listener).await.expect("a handshake");
        let request = read_request(&mut tls).await;
        tls.write_all(b"HTTP/1.1 200 Ok\r\nContent-Length: 2\r\n\r\nok").await.expect("written");
        request
    });
    assert_eq!(body(post(&client, "https://a.test/b?c=d").await), "ok");
    let request = endpoint.await.expect("a request");
    assert!(request.starts_with("POST /b?c=d HTTP/1.1\r\n"), "{request}");
}

#[tokio::test]
async fn a_server_with_http2_alone_gets_nothing() {
    let (listener, address) = listen().await;
    let authority = Authority::new(&["h2"]);
    let client = authority.client(address, 1);
    let endpoint = tokio::spawn(authority.accept(listener));
    let failure = post(&client, "https://a.test/").await;
    assert!(
        matches!(failure, Err(Failure::NotSent(ref text)) if text.contains("TLS with")),
        "{failure:?}"
    );
    assert!(endpoint.await.expect("an endpoint").is_err());
}
