//! The store that an export reads: the configured one, or a copy of its readable parts.

use std::{error::Error, ffi::OsString, fs, path::PathBuf, sync::Arc};

use super::{Export, is_standard_stream};
use crate::{
    config::Settings,
    server::{StartError, open_existing_store},
    store::{
        Clock, OpenError, Options, Store,
        file::{FileStore, Salvaged, salvage_into},
    },
};

type StoreResult<T> = Result<T, Box<dyn Error>>;

/// A temporary copy of the readable parts of a damaged store, and a summary of the damage.
pub struct Salvage {
    pub found: Salvaged,
    dir: PathBuf,
}

impl Salvage {
    /// Reports the damage and removes the copy.
    pub fn finish(self) -> StoreResult<()> {
        eprintln!("the store is damaged: {}", self.found);
        Ok(fs::remove_dir_all(self.dir)?)
    }
}

/// Opens the store, or a copy of its readable parts if it is damaged and `--skip-damaged` is given.
pub async fn open(
    arguments: &Export,
    settings: &Settings,
) -> StoreResult<(Arc<dyn Store>, Option<Salvage>)> {
    let opened = match open_existing_store(settings).await {
        Ok(store) if store.condition().unreadable == 0 => return Ok((store, None)),
        opened => opened,
    };
    if let Err(error) = opened.as_ref().map(drop)
        && (!arguments.skip_damaged || !is_damage(error))
    {
        return Err(error.to_string().into());
    }
    if let Ok(store) = opened {
        let count = store.condition().unreadable;
        store.close().await;
        if !arguments.skip_damaged {
            return Err(format!(
                "failed to export: {count} rows or pages of the store cannot be read, with all \
                 jobs or schedules on them; add --skip-damaged to leave these out"
            )
            .into());
        }
    }
    let location = settings.store.location()?;
    let Some(dir) = location.directory() else {
        return Err("failed to export: --skip-damaged can open a damaged file store, but not a \
                    damaged store on Redis"
            .into());
    };
    let copy = copy_path(arguments);
    if copy.exists() {
        fs::remove_dir_all(&copy)?; // left by an interrupted export
    }
    let options = Options::new(settings.store.buckets()?, Clock::Own);
    let found = salvage_into(dir, &copy, &options)?;
    let store = FileStore::open(&copy, options)?;
    Ok((Arc::new(store), Some(Salvage { found, dir: copy })))
}

/// Returns the path of the copy: next to the export, since that disk probably has room for it.
fn copy_path(arguments: &Export) -> PathBuf {
    if is_standard_stream(&arguments.file) {
        return std::env::temp_dir().join(format!("delay-queue-{}", std::process::id()));
    }
    let mut name = OsString::from(&arguments.file);
    name.push(".salvaged");
    name.into()
}

fn is_damage(error: &StartError) -> bool {
    match error {
        StartError::Store(OpenError::Layout { part, .. }) => *part != "buckets",
        StartError::Store(error) => {
            matches!(error, OpenError::Damaged { .. } | OpenError::Engine { .. })
        }
        _ => false,
    }
}
