//! `delay-queue doctor`: examines the configured store, reports problems, and repairs them on
//! request.

use std::error::Error;

use super::output;
use crate::{
    config::Settings,
    schedules::deadline_of,
    store::{Clock, Options},
};

/// Prints the findings; returns an error if something needs repair.
pub fn run(settings: &Settings, repair: bool, accept_loss: bool) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let options = Options::new(settings.store.buckets()?, Clock::Own);
    let location = settings.store.location()?;
    if accept_loss {
        let accepted = runtime.block_on(location.accept_loss(options.clone()));
        let buckets = accepted.map_err(|error| error as Box<dyn Error>)?;
        output::line(format_args!("accepted    the loss of jobs in {buckets} buckets"))?;
    }
    let report = runtime.block_on(location.examine(options, repair, deadline_of));
    let report = report.map_err(|error| error as Box<dyn Error>)?;
    output::line(report.text.trim_end())?;
    match report.problems.len() {
        0 => Ok(()),
        1 => Err("found 1 problem to repair (see above)".into()),
        many => Err(format!("found {many} problems to repair (see above)").into()),
    }
}
