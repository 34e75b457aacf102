//! `delay-queue doctor`: what the configured store is, and what to mend.

use std::error::Error;

use crate::{
    config::Settings,
    store::{Clock, Options},
};

/// Prints what it finds; an error if something must be mended.
pub fn run(settings: &Settings, repair: bool) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let options = Options { buckets: settings.store.buckets()?, clock: Clock::Own };
    let report = runtime.block_on(settings.store.location()?.examine(options, repair));
    let report = report.map_err(|error| error as Box<dyn Error>)?;
    print!("{}", report.text);
    match report.problems.len() {
        0 => Ok(()),
        1 => Err("one thing must be mended (see above)".into()),
        many => Err(format!("{many} things must be mended (see above)").into()),
    }
}
