//! `delay-queue dev`: a throw-away server, which leaves nothing behind.

use std::error::Error;

use super::{Arguments, output, serve};
use crate::config::{Flags, Settings};

/// A free port that only this machine can reach.
const LISTEN: &str = "127.0.0.1:0";

/// Runs a server whose store is a temporary folder. Prints its URL once it listens.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    if arguments.store.is_some() {
        return Err("dev has its own store: leave out --store, or start the server itself".into());
    }
    let folder = tempfile::Builder::new().prefix("delay-queue-dev-").tempdir()?;
    let settings = Settings::load(&Flags {
        file: arguments.config.clone(),
        listen: Some(arguments.listen.clone().unwrap_or_else(|| LISTEN.to_owned())),
        store: Some(format!("file:{}", folder.path().display())),
    })?;
    let scheme = if settings.server.tls.files()?.is_some() { "https" } else { "http" };
    serve::run(settings, |listeners| {
        output::line(format_args!("{scheme}://{}", listeners.public))
    })?;
    Ok(folder.close()?)
}
