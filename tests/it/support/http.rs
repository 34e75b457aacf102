//! HTTP clients for tests. Cargo builds one reqwest for the tests and for the Rust client in
//! `clients/`. It has TLS without a provider of cryptography, and makes no client before one is
//! installed.

use reqwest::{Client, ClientBuilder, IntoUrl, Response};

pub fn builder() -> ClientBuilder {
    // Fails if there is a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
}

pub fn client() -> Client {
    builder().build().expect("a client")
}

/// Sends a GET with a new client.
pub async fn get(url: impl IntoUrl) -> reqwest::Result<Response> {
    client().get(url).send().await
}
