//! Operations on a store on Redis that is not open yet.

use std::{error::Error, io, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{RedisOptions, RedisStore, doctor};
use crate::store::{Location, OpenError, Options, Report, ScheduleReader, Store};

#[async_trait]
impl Location for RedisOptions {
    fn name(&self) -> String {
        self.url.to_string()
    }

    fn ack(&self) -> &'static str {
        self.ack.name()
    }

    fn directory(&self) -> Option<&Path> {
        None
    }

    fn identity(&self) -> io::Result<String> {
        Ok(format!("{} {}", self.url, self.prefix))
    }

    async fn open(&self, options: Options) -> Result<Arc<dyn Store>, OpenError> {
        Ok(Arc::new(RedisStore::open(self.clone(), options).await?))
    }

    async fn accept_loss(&self, options: Options) -> Result<u64, Box<dyn Error + Send + Sync>> {
        let accepting =
            Self { accept_data_loss: true, connect_timeout: Duration::ZERO, ..self.clone() };
        Ok(RedisStore::open(accepting, options).await?.accept_loss().await?)
    }

    async fn examine(
        &self,
        options: Options,
        repair: bool,
        read: ScheduleReader,
    ) -> Result<Report, Box<dyn Error + Send + Sync>> {
        Ok(doctor::report(self, options.buckets, repair, read).await?)
    }
}
