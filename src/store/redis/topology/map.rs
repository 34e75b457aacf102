//! Map of a cluster: the master of each slot, as its nodes report it.

use futures::future::join_all;
use redis::{Cmd, RedisError, Value};

use super::distinct;
use crate::store::{
    OpenError,
    redis::{
        Host,
        keys::Keys,
        preflight::{Preflight, requirements},
        transport::Dialer,
    },
};

/// Masters of slot ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Map {
    /// First and last slot, and their master, sorted.
    ranges: Vec<(u16, u16, Host)>,
}

impl Map {
    pub fn master(&self, slot: u16) -> Option<&Host> {
        let index = self.ranges.partition_point(|&(_, last, _)| last < slot);
        self.ranges.get(index).filter(|&&(first, ..)| first <= slot).map(|(.., host)| host)
    }

    /// Returns whether every bucket has a master.
    pub fn has_all(&self, keys: &[Keys]) -> bool {
        keys.iter().all(|keys| self.master(keys.slot).is_some())
    }

    /// Returns every master once.
    pub fn masters(&self) -> Vec<Host> {
        distinct(self.ranges.iter().map(|(.., host)| host.clone()))
    }

    /// Parses the answer of the node `asked` to `CLUSTER SLOTS`. A node that does not know its own
    /// address leaves it empty; its address is then `asked`.
    pub fn read(answer: &Value, asked: &Host) -> Option<Self> {
        let Value::Array(entries) = answer else { return None };
        let mut ranges = Vec::with_capacity(entries.len());
        for entry in entries {
            let Value::Array(parts) = entry else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &parts[..] else {
                return None;
            };
            let [name, Value::Int(port), ..] = &master[..] else { return None };
            let name = match name {
                Value::BulkString(name) if !name.is_empty() => {
                    String::from_utf8(name.clone()).ok()?
                }
                _ => asked.name.clone(),
            };
            let host = Host { name, port: u16::try_from(*port).ok()? };
            ranges.push((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, host));
        }
        ranges.sort_by_key(|&(first, ..)| first);
        Some(Self { ranges })
    }
}

pub fn questions() -> [Cmd; 2] {
    let question = |name| {
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg(name);
        cmd
    };
    [question("INFO"), question("SLOTS")]
}

/// Opens a connection to a node, and asks for the two answers that [`judge`] takes.
pub async fn question(dialer: &Dialer, host: &Host) -> Result<(Value, Value), RedisError> {
    let mut connection = dialer.dial(host).await?;
    let [info, slots] = questions();
    Ok((info.query_async(&mut connection).await?, slots.query_async(&mut connection).await?))
}

/// Returns the epoch of a node and its map; `None` if the node is cut off from the others.
pub fn judge(info: Value, slots: &Value, host: &Host) -> Option<(u64, Map)> {
    let info: String = redis::from_redis_value(info).ok()?;
    let fields = requirements::fields(&info);
    if fields.get("cluster_state") != Some(&"ok") {
        return None;
    }
    let epoch = fields.get("cluster_current_epoch").and_then(|epoch| epoch.parse().ok());
    Some((epoch.unwrap_or_default(), Map::read(slots, host)?))
}

/// Asks these nodes and returns the latest map. Uses the map of a node that is cut off from the
/// others only if no other node has a map.
pub async fn ask(dialer: &Dialer, preflight: &Preflight, seeds: &[Host]) -> Result<Map, OpenError> {
    let asked = seeds.iter().map(async |seed| {
        let unable = |cause: RedisError| match cause.to_string() {
            text if text.contains("cluster support disabled") => OpenError::Unfit(format!(
                "{seed}: it is not a node of a cluster: begin store.url with redis:// \
                 (or redis+sentinel://)"
            )),
            _ => preflight.engine(seed, &cause),
        };
        let (info, slots) = question(dialer, seed).await.map_err(unable)?;
        let map = Map::read(&slots, seed).filter(|map| !map.ranges.is_empty());
        let known = judge(info, &slots, seed).map(|(epoch, _)| epoch);
        map.map(|map| (known, map)).ok_or_else(|| OpenError::Unavailable {
            subject: format!("cluster node {seed}"),
            cause: "it knows of no master".to_owned(),
        })
    });
    let (mut latest, mut causes, mut may_pass) = (None, Vec::new(), false);
    for answer in join_all(asked).await {
        match answer {
            Ok((epoch, map)) => {
                if latest.as_ref().is_none_or(|(known, _)| epoch > *known) {
                    latest = Some((epoch, map));
                }
            }
            Err(error @ OpenError::Unfit(_)) => return Err(error),
            Err(error) => {
                may_pass |= matches!(error, OpenError::Unavailable { .. });
                causes.push(error.to_string());
            }
        }
    }
    latest.map(|(_, map)| map).ok_or_else(|| {
        let (subject, cause) = ("the cluster".to_owned(), causes.join("; "));
        if may_pass {
            OpenError::Unavailable { subject, cause }
        } else {
            OpenError::Engine { subject, cause }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn entry(first: i64, last: i64, name: Value, port: i64) -> Value {
        let master = Value::Array(vec![name, Value::Int(port), text("id"), Value::Array(vec![])]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    #[test]
    fn the_map_names_the_master_of_every_slot_that_has_one() {
        let asked = Host { name: "asked".to_owned(), port: 1 };
        let answer =
            Value::Array(vec![entry(200, 16_383, text("b"), 7001), entry(0, 99, Value::Nil, 7000)]);
        let map = Map::read(&answer, &asked).expect("a map");
        let named = |slot| map.master(slot).map(Host::to_string);
        assert_eq!(named(0).as_deref(), Some("asked:7000"));
        assert_eq!(named(99).as_deref(), Some("asked:7000"));
        assert_eq!(named(100), None);
        assert_eq!(named(199), None);
        assert_eq!(named(200).as_deref(), Some("b:7001"));
        assert_eq!(named(16_383).as_deref(), Some("b:7001"));
        assert_eq!(Map::read(&Value::Int(1), &asked), None);
        assert_eq!(Map::read(&Value::Array(vec![Value::Int(1)]), &asked), None);
    }
}
