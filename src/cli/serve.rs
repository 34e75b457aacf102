//! `delay-queue serve`: the server, from its telemetry to its signals.

use std::{error::Error, time::Duration};

use super::log;
use crate::{config::Settings, server};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

pub(super) fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let repeated = log::start_summing(&settings.log)?;
    server::raise_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        tokio::select! {
            done = serve(settings) => done,
            never = repeated.tell_for_ever() => match never {},
        }
    });
    repeated.tell(Duration::ZERO);
    done
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
