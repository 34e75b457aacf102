//! The endpoint that receives the webhooks of the demo, inside its process.

use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::time::sleep;

use super::shop::random;

/// Secret of the signatures. It protects nothing: the endpoint accepts every request.
pub const SECRET: &str = "whsec_ZGVtby1kZW1vLWRlbW8tZGVtby1kZW1v";

/// Endpoint on a free port that only this machine can reach.
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

impl Endpoint {
    /// Listens on a free port.
    ///
    /// # Errors
    /// There is no free port.
    pub fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Answers requests for as long as the runtime runs. Returns the URL.
    pub fn start(self) -> String {
        let url = format!("http://{}/webhooks", self.address);
        tokio::spawn(async move {
            if let Err(cause) = serve(self.listener).await {
                tracing::warn!(%cause, "the endpoint of the demo failed");
            }
        });
        url
    }
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let connection =
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(connection);
    }
}

/// Accepts most webhooks. Some fail, few are refused for ever.
async fn answer(
    request: Request<hyper::body::Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    // The server sees a failure if the body breaks off.
    let _ = request.into_body().collect().await;
    sleep(Duration::from_millis(random(5, 150))).await;
    let (status, text) = match random(1, 100) {
        1..=7 => (StatusCode::INTERNAL_SERVER_ERROR, "{\"error\":\"the shop's database is busy\"}"),
        8 => (StatusCode::GONE, "{\"error\":\"the shop has closed\"}"),
        9..=11 => (StatusCode::SERVICE_UNAVAILABLE, "{\"error\":\"the shop restarts\"}"),
        _ => (StatusCode::OK, "{\"received\":true}"),
    };
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    Ok(answer)
}
