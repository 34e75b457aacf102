//! absent → the state that the job had in another store.

use super::{Edit, Known, Reply};
use crate::job::{Event, Job, next};

/// Decides a restore.
///
/// # Errors
/// `Exists`.
pub fn restore(living: Option<&Known<'_>>, job: &Job) -> Reply<Edit> {
    let state = next(living.map(|living| living.state), Event::Restore(job.state))?;
    Ok(Edit::arrival(state.expect("a restore ends no job"), job.at()))
}
