//! Servers with TLS.

use std::{process::Stdio, sync::Arc};

use delay_queue_client::{Applied, Error};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use serde_json::json;

use crate::{
    readme::program,
    stub::{Answer, Stub},
};

/// Returns the settings of a server, and its certificate as PEM.
fn authority() -> (ServerConfig, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    (config, cert.pem())
}

#[tokio::test]
async fn an_unknown_certificate_is_not_trusted() {
    let (config, _) = authority();
    let stub = Stub::start_with_tls(config, |_, _| Answer::Close).await;
    let queue = stub.queue().retry_for(std::time::Duration::ZERO);
    let error = queue.get("1").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { applied: Applied::No, .. }), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(stub.requests().is_empty());
}

#[tokio::test]
async fn the_certificates_of_ssl_cert_file_are_trusted() {
    let (config, pem) = authority();
    let problem = json!({"status": 422, "code": "invalid_field", "detail": "x", "applied": "no"});
    let stub =
        Stub::start_with_tls(config, move |_, _| Answer::Send(422, problem.to_string())).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), pem).unwrap();
    let mut program = program();
    program.env("DELAY_QUEUE_URL", &stub.url).env("SSL_CERT_FILE", file.path());
    let output = program.stderr(Stdio::piped()).output().await.unwrap();
    // The program ends with the refusal of its put.
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("invalid_field"), "{stderr}");
    assert_eq!(stub.requests()[0].line, "POST /v1/jobs");
}
