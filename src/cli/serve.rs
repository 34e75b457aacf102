//! `delay-queue serve`: the server, from its telemetry to its signals.

use std::{error::Error, io, time::Duration};

use super::log;
use crate::{
    config::{Listen, Settings},
    server,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

pub fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
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

/// Whether this process was started to ignore the end of its terminal (SIGHUP, the first signal), as
/// `nohup` does.
fn outlives_terminal() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok());
    ignored.is_some_and(|signals| signals & 1 == 1)
}

async fn serve(settings: Settings) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let outlives_terminal = outlives_terminal(); // asked before the next line changes it
    let mut hang_up = signal(SignalKind::hangup())?;
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv(), if !outlives_terminal => {}
        }
    };
    let listener = listen(&settings.server.listen).await?;
    Ok(server::run(listener, settings, shutdown).await?)
}

/// On the first of its addresses that this machine has.
async fn listen(on: &Listen) -> Result<TcpListener, String> {
    let failed = |cause| format!("failed to listen on {on} (server.listen): {cause}");
    let mut not_here = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in on.addresses().map_err(failed)? {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            // A name may have an IPv6 address where there is no IPv6.
            Err(cause) if cause.kind() == io::ErrorKind::AddrNotAvailable => not_here = cause,
            Err(cause) => return Err(failed(cause)),
        }
    }
    Err(failed(not_here))
}
