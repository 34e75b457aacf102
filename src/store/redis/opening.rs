//! What must hold of a connection before it is used: the server is fit, and the layout is ours.

use redis::{RedisError, aio::MultiplexedConnection};

use super::{RedisOptions, keys, policy};
use crate::{
    job::Buckets,
    store::{Layout, OpenError},
};

/// The questions asked of every new connection.
#[derive(Clone)]
pub(super) struct Opening {
    address: String,
    prefix: String,
    accept_data_loss: bool,
}

impl Opening {
    pub(super) fn new(address: String, options: &RedisOptions) -> Self {
        let RedisOptions { prefix, accept_data_loss, .. } = options;
        Self { address, prefix: prefix.clone(), accept_data_loss: *accept_data_loss }
    }

    /// The first connection: reads `INFO`, and compares or writes the layout.
    pub(super) async fn first(
        &self,
        mut connection: MultiplexedConnection,
        asked: Option<Buckets>,
    ) -> Result<Buckets, OpenError> {
        for risk in self.inspect(&mut connection).await? {
            tracing::warn!(address = self.address, risk, "accepted that jobs may be lost");
        }
        self.agree(&mut connection, asked).await
    }

    /// A later one, after the connection was lost: there the layout was written before.
    pub(super) async fn again(
        self,
        mut connection: MultiplexedConnection,
        buckets: Buckets,
    ) -> Result<(), OpenError> {
        self.inspect(&mut connection).await?;
        let mut exists = redis::cmd("EXISTS");
        exists.arg(keys::layout(&self.prefix));
        let there: bool = self.answer(exists.query_async(&mut connection).await)?;
        if !there {
            tracing::error!("redis came back without its layout: it has lost the jobs it had");
        }
        self.agree(&mut connection, Some(buckets)).await.map(drop)
    }

    /// Refuses a server that is not fit, by the text of its `INFO`; answers the risks accepted.
    pub(super) fn fitness(&self, info: &str) -> Result<Vec<String>, String> {
        let policy::Findings { mut unfit, risks } = policy::judge(info);
        if !self.accept_data_loss {
            let hint = "(or accept the loss of jobs by store.accept_data_loss = true)";
            unfit.extend(risks.iter().map(|risk| format!("{risk} {hint}")));
        }
        if unfit.is_empty() { Ok(risks) } else { Err(unfit.join("; ")) }
    }

    async fn inspect(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Vec<String>, OpenError> {
        let info: String = self.answer(redis::cmd("INFO").query_async(connection).await)?;
        self.fitness(&info).map_err(OpenError::Unfit)
    }

    /// Compares the layout; writes it into a new store. Only a new one is written to: a full Redis
    /// must not be refused for a write it does not need.
    async fn agree(
        &self,
        connection: &mut MultiplexedConnection,
        asked: Option<Buckets>,
    ) -> Result<Buckets, OpenError> {
        let key = keys::layout(&self.prefix);
        let mut get = redis::cmd("GET");
        let found: Option<String> = self.answer(get.arg(&key).query_async(connection).await)?;
        if let Some(found) = found {
            return Layout::agree(&found, asked);
        }
        let buckets = asked.unwrap_or(Buckets::SIXTEEN);
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(Layout::new(buckets).text()).arg("NX").arg("GET");
        // Another server may have been faster.
        let found: Option<String> = self.answer(set.query_async(connection).await)?;
        found.map_or(Ok(buckets), |found| Layout::agree(&found, asked))
    }

    fn answer<T>(&self, answer: Result<T, RedisError>) -> Result<T, OpenError> {
        answer.map_err(|cause| engine(&self.address, &cause))
    }
}

/// The address of a server and what it, or the way to it, said.
pub(super) fn engine(address: &str, cause: &RedisError) -> OpenError {
    OpenError::Engine { what: format!("Redis at {address}"), cause: cause.to_string() }
}
