//! One connection, from its first byte to its last.
//!
//! Handles TLS if the listener has it, then HTTP/1.1, or HTTP/2 if the TLS handshake selected it.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use super::{
    answers::Answers,
    connections::{CLOSE_GRACE, Connections},
    http1, http2,
    link::{Link, Phase},
    tls,
    wire::Wire,
};

/// Serves a connection until either side closes it.
pub async fn serve<A: Answers>(all: &Connections, link: Arc<Link>, site: Arc<A>) {
    if let Err(error) = link.socket.set_nodelay() {
        tracing::debug!(%error, "failed to set TCP_NODELAY");
    }
    let wire = Wire::new(Arc::clone(&link.socket), all.times.write);
    if link.phase() != Phase::Handshake {
        return http1::serve(all, link, wire, false, site).await;
    }
    let Some(tls) = &all.tls else { return };
    let accepting = async {
        match tls::starts_handshake(&link.socket).await {
            true => Ok(TlsAcceptor::from(tls.config()).accept(wire).await),
            false => Err(wire),
        }
    };
    let accepted = tokio::select! {
        accepted = accepting => accepted,
        _ = link.ending() => return,
        () = stopped_for(all, CLOSE_GRACE) => return,
    };
    let accepted = match accepted {
        Ok(accepted) => accepted,
        Err(plain) => return http1::refuse_plain(all, &link, plain).await,
    };
    match accepted {
        Ok(wire) => {
            link.handshake_done();
            match wire.get_ref().1.alpn_protocol() == Some(tls::HTTP2) {
                true => http2::serve(all, link, wire, site).await,
                false => http1::serve(all, link, wire, true, site).await,
            }
        }
        Err(error) => tracing::debug!(%error, "a client failed to begin TLS"),
    }
}

/// Completes when the server has been stopping for `span`.
async fn stopped_for(all: &Connections, span: Duration) {
    all.stop.cancelled().await;
    sleep(span).await;
}
