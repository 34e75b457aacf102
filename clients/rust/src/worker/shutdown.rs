//! Signals that end a process.

/// Waits for SIGINT or SIGTERM; where these do not exist, for Ctrl-C. For [`Worker::run_until`].
///
/// [`Worker::run_until`]: crate::Worker::run_until
pub async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                Ok(()) = tokio::signal::ctrl_c() => return,
            }
        }
    }
    // Without a handler for signals, the process ends at the signal itself.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
