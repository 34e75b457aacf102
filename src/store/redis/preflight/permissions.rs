//! Permissions of the Redis user on a server, checked before any write.

use redis::{Pipeline, aio::MultiplexedConnection};

use super::{Preflight, unfit};
use crate::store::{
    OpenError,
    redis::{
        Host, keys,
        transport::error::{is_forbidden, may_pass},
    },
};

/// Script that checks the ACL for all commands that the store needs.
const PROBE: &str = include_str!("permissions.lua");

impl Preflight {
    /// Fails if the ACL forbids a key or a command that the store needs, which would stop a script
    /// halfway. Permissions may change at any time, so every new connection is checked.
    pub async fn check_permissions(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), OpenError> {
        let Some(used) = self.used.get() else { return Ok(()) };
        // Redis checks its ACL before it looks for the node of a key, so any node of a cluster
        // answers.
        let others = std::iter::once(keys::layout(&self.prefix));
        let others = others.chain(keys::outside_buckets(&self.prefix));
        let mut all = Pipeline::new();
        for key in others.chain(used.iter().cloned()) {
            all.cmd("EVAL").arg("return 0").arg(1).arg(key);
        }
        let tried = connection.send_packed_commands(&all, 0, all.len()).await;
        for answer in tried.map_err(|cause| self.engine(host, &cause))? {
            match answer.extract_error() {
                Err(cause) if is_forbidden(&cause) => return Err(self.engine(host, &cause)),
                _ => {}
            }
        }
        let key = &used[0];
        let mut probe = redis::cmd("EVAL");
        let mut forbidden: Vec<String> =
            self.ask(host, connection, probe.arg(PROBE).arg(0).arg(key)).await?;
        let mut by_hash = redis::cmd("EVALSHA");
        by_hash.arg("0".repeat(40)).arg(1).arg(key);
        // Any other error is expected, because no script has this hash.
        if by_hash.exec_async(connection).await.is_err_and(|cause| is_forbidden(&cause)) {
            forbidden.push("+evalsha".to_owned());
        }
        if forbidden.is_empty() {
            return Ok(());
        }
        let all = forbidden.join(" ");
        let why = format!("its ACL denies this user permissions that the queue needs: allow {all}");
        Err(unfit(host, &why))
    }

    /// Checks that scripts may access undeclared keys: a script reads a key once declared and once
    /// undeclared. Scripts derive the keys of topics' sets from the bucket's tag.
    pub async fn takes_undeclared_keys(
        &self,
        host: &Host,
        connection: &mut MultiplexedConnection,
        key: &str,
    ) -> Result<(), OpenError> {
        const READ: &str = "return redis.call('EXISTS', KEYS[2] or ARGV[1])";
        let (mut declared, mut undeclared) = (redis::cmd("EVAL"), redis::cmd("EVAL"));
        declared.arg(READ).arg(2).arg(key).arg(key);
        // An undeclared key of the same slot.
        undeclared.arg(READ).arg(1).arg(key).arg(format!("{key}:other"));
        let is_fine = declared.exec_async(connection).await.is_ok();
        match undeclared.exec_async(connection).await {
            Err(cause) if is_fine && !may_pass(&cause) => {
                let why = "it requires scripts to declare every key, but the queue's scripts derive \
                           some keys from others: use a server without this rule, such as Redis";
                Err(unfit(host, &format!("{why} ({cause})")))
            }
            _ => Ok(()),
        }
    }
}
