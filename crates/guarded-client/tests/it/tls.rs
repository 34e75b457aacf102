//! TLS and HTTP/2.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use guarded_client::{Client, ClientError, Failure, Options};
use http::{HeaderValue, Request, Response, Version};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::support::{Names, body, listen, loopback, post, post_within, read_request, short};

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

/// Answers the requests of one connection with HTTP/2.
fn serve_h2(
    authority: Authority,
    listener: TcpListener,
    answer: impl Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Clone + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let (tls, _) = authority.accept(listener).await.expect("a handshake");
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        // The client may break it off.
        let _ = http.serve_connection(TokioIo::new(tls), service).await;
    })
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
async fn http2_is_used_where_the_server_agrees() {
    let (listener, address) = listen().await;
    let authority = Authority::new(&["h2", "http/1.1"]);
    let client = authority.client(address, 1);
    serve_h2(authority, listener, |request| {
        assert_eq!((request.version(), request.uri().host()), (Version::HTTP_2, Some("a.test")));
        assert!(!request.headers().contains_key("accept-encoding"));
        Response::new(Full::from(request.uri().path().to_owned()))
    });
    // One lookup: both share a connection.
    assert_eq!(body(post(&client, "https://a.test/b").await), "/b");
    assert_eq!(body(post(&client, "https://a.test/c").await), "/c");
}

#[tokio::test]
async fn http2_answers_are_bounded() {
    let (listener, address) = listen().await;
    let authority = Authority::new(&["h2"]);
    let client = authority.client(address, 2);
    serve_h2(authority, listener, |request| {
        let is_body = request.uri().path() == "/body";
        let mut response = Response::new(Full::from(vec![b'a'; if is_body { 1 << 20 } else { 0 }]));
        if !is_body {
            for _ in 0..100 {
                response
                    .headers_mut()
                    .append("a", HeaderValue::from_str(&"a".repeat(10_000)).expect("a value"));
            }
        }
        response
    });
    let answer = post(&client, "https://a.test/body").await.expect("an answer");
    assert_eq!((answer.status.as_u16(), answer.body), (200, None));
    let failure = post(&client, "https://a.test/headers").await;
    assert!(matches!(failure, Err(Failure::Lost(_))), "{failure:?}");
}

#[tokio::test]
async fn a_silent_http2_server_times_out() {
    let (listener, address) = listen().await;
    let authority = Authority::new(&["h2"]);
    let client = authority.client(address, 1);
    let endpoint = tokio::spawn(async move {
        let (_tls, _) = authority.accept(listener).await.expect("a handshake");
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
    let failure = post_within(&client, "https://a.test/", short()).await;
    assert!(matches!(failure, Err(Failure::TimedOut(_))), "{failure:?}");
    endpoint.abort();
}
