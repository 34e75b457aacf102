//! `delay-queue serve`: the server, from its telemetry to its signals.

use std::{error::Error, io::IsTerminal};

use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tracing_subscriber::EnvFilter;

use crate::{
    config::{LogFormat, LogSettings, Settings},
    server,
};

pub(super) fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    start_log(&settings.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // The terminal it was started from is gone.
    let mut hang_up = signal(SignalKind::hangup())?;
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
        }
    };
    let address = settings.server.listen;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|cause| format!("failed to listen on {address} (server.listen): {cause}"))?;
    Ok(server::run(listener, settings, shutdown).await?)
}

pub(super) fn start_log(settings: &LogSettings) -> Result<(), Box<dyn Error>> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(settings.filter.parse::<EnvFilter>()?)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match settings.format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
