//! `delay-queue serve`: runs the server, with its telemetry and signals.

use std::{error::Error, io, time::Duration};

use super::log;
use crate::{
    config::{Listen, Settings},
    server::{self, Listener, Listeners},
};
use tokio::signal::unix::{SignalKind, signal};

/// Runs the server until a signal. Calls `listening` before it serves.
pub fn run(
    settings: Settings,
    listening: impl FnOnce(&Listeners) -> io::Result<()>,
) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    #[cfg(feature = "otlp")]
    let export = {
        let traces = &settings.traces;
        let endpoint = traces.otlp_endpoint.as_deref();
        crate::traces::Export::new(endpoint, traces.sampled, runtime.handle().clone())?
    };
    #[cfg(feature = "otlp")]
    let export_layer = export.as_ref().map(crate::traces::Export::layer);
    #[cfg(not(feature = "otlp"))]
    let export_layer = None;
    let repeated = log::start_summarising(&settings.log, export_layer)?;
    server::raise_limit();
    let result = runtime.block_on(async {
        tokio::select! {
            result = serve(settings, listening) => result,
            never = repeated.log_summaries_forever() => match never {},
        }
    });
    repeated.log_summaries(Duration::ZERO);
    result
}

/// Returns whether this process was started with SIGHUP (signal 1) ignored, for example by `nohup`.
pub fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok());
    ignored.is_some_and(|signals| signals & 1 == 1)
}

async fn serve(
    settings: Settings,
    listening: impl FnOnce(&Listeners) -> io::Result<()>,
) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let ignores_hang_up = ignores_hang_up(); // must be read before the handler below is set
    let mut hang_up = signal(SignalKind::hangup())?;
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv(), if !ignores_hang_up => {}
        }
    };
    let listeners = listen(&settings).await?;
    listening(&listeners)?;
    Ok(server::run(listeners, settings, shutdown).await?)
}

async fn listen(settings: &Settings) -> Result<Listeners, String> {
    let bind = async |address: &Listen, key: &str| {
        let listener = Listener::bind(address, settings.server.unix_socket_mode).await;
        listener.map_err(|cause| format!("failed to listen on {address} ({key}): {cause}"))
    };
    let public = bind(&settings.server.listen, "server.listen").await?;
    let admin = match &settings.server.admin_listen {
        Some(address) => Some(bind(address, "server.admin_listen").await?),
        None => None,
    };
    Ok(Listeners { public, admin })
}
