//! Examination of a store's servers from outside, for `delay-queue doctor`. It changes nothing
//! unless it is told to mend jobs, and it never creates a store.

mod contents;
mod report;
mod schedules;
mod server;

use std::mem;

use redis::aio::MultiplexedConnection;

use self::{
    contents::{Contents, Findings},
    schedules::Schedules,
    server::{ask, clock_difference, servers_at_work},
};
use super::{
    Host, Kind, RedisOptions,
    keys::{self, Keys},
    preflight::{Preflight, default_buckets, requirements},
    scripts::Scripts,
    topology::{
        distinct,
        map::{self, Map},
        sentinel::Sentinels,
    },
    transport::Dialer,
};
use crate::{
    job::Buckets,
    store::{Layout, OpenError, ScheduleReader},
};

/// Smallest reported difference between the clock of a Redis server and this machine's, in
/// milliseconds.
const CLOCK_MILLIS: f64 = 1_000.0;
/// Smallest reported age of an unpromoted deadline, in milliseconds.
const OVERDUE_MILLIS: f64 = 5_000.0;

pub use self::{report::report, server::Server};

/// Results of an examination.
#[derive(Debug, Default)]
pub struct Examined {
    /// Text of the layout, if there is a store.
    pub layout: Option<String>,
    /// Number of buckets of the store, or of a new one.
    pub buckets: u16,
    /// All masters.
    pub servers: Vec<Server>,
    /// Number of schedules, if they could be counted.
    pub schedules: Option<u64>,
    /// Number of running delay-queue servers, which hold a lease.
    pub at_work: u64,
    /// Problems that must be mended: a server does not start, or jobs are at risk.
    pub problems: Vec<String>,
    /// Mended problems.
    pub mended: Vec<String>,
    /// Optional improvements.
    pub advice: Vec<String>,
}

/// Returns the smallest and the largest number of buckets of a master in an evenly divided cluster.
pub fn spread(prefix: &str, buckets: Buckets, masters: usize) -> (usize, usize) {
    let mut counts = vec![0; masters];
    for keys in Keys::all(prefix, buckets, 0) {
        // Newly created clusters have these ranges.
        counts[usize::from(keys.slot) * masters / 16_384] += 1;
    }
    let least = counts.iter().min().copied().unwrap_or_default();
    (least, counts.into_iter().max().unwrap_or_default())
}

/// Examines every server that answers; mends damaged jobs and entries of schedules if `mend` is
/// set.
///
/// # Errors
/// No server answers, or no Sentinel knows the master.
pub async fn examine(
    options: &RedisOptions,
    mend: bool,
    read: ScheduleReader,
) -> Result<Examined, OpenError> {
    let preflight = Preflight::new(options);
    let dialer = Dialer::to_redis(options)?;
    let (masters, map) = masters(options, &preflight, &dialer).await?;
    let has = |host: &Host, slot| map.as_ref().is_none_or(|map| map.master(slot) == Some(host));

    let mut examined = Examined::default();
    let mut reached = Vec::new();
    for host in masters {
        match dialer.dial(&host).await {
            Ok(connection) => reached.push((host, connection)),
            Err(cause) => examined.problems.push(preflight.engine(&host, &cause).to_string()),
        }
    }
    let key = keys::layout(&options.prefix);
    for (host, connection) in &mut reached {
        if has(host, keys::slot(&key)) {
            match preflight.layout(host, connection).await {
                Ok(layout) => examined.layout = layout,
                Err(error) => examined.problems.push(error.to_string()),
            }
        }
    }
    let key = keys::servers(&options.prefix);
    for (host, connection) in &mut reached {
        if has(host, keys::slot(&key)) {
            examined.at_work = servers_at_work(connection, &key).await;
        }
    }
    if reached.is_empty() {
        return Ok(examined);
    }
    if examined.layout.is_none() {
        for (host, connection) in &mut reached {
            let found = preflight.found_incarnations(host, connection, 1).await;
            if found.is_ok_and(|found| !found.is_empty()) {
                examined.problems.push(format!(
                    "{host}: there are buckets of a store, but its layout ({}) is lost: set \
                     store.buckets to the number it had and run doctor --accept-loss",
                    keys::layout(&options.prefix)
                ));
            }
        }
    }
    let all = Keys::all(
        &options.prefix,
        examined.bucket_count_or_default(&options.url.kind, reached.len()),
        options.url.db,
    );
    preflight.will_use(&all);
    let mut findings = Findings::default();
    for (host, mut connection) in reached {
        let own: Vec<(usize, &Keys)> =
            all.iter().enumerate().filter(|(_, keys)| has(&host, keys.slot)).collect();
        let server = inspect(&preflight, &host, &mut connection, &own, &mut examined).await;
        examined.servers.push(server);
        if examined.layout.is_some() {
            let read = has(&host, keys::schedules_slot(&options.prefix)).then_some(read);
            match contents(&options.prefix, &mut connection, &own, mend, read).await {
                Ok(found) => findings.join(found),
                Err(cause) if cause.code() == Some("NOPERM") => {
                    let advice = "its jobs were not examined: grant this user +hscan";
                    examined.advice.push(format!("{host}: {advice}"));
                }
                Err(cause) => examined.problems.push(preflight.engine(&host, &cause).to_string()),
            }
        }
    }
    examined.conclude(findings, mend, all.len());
    Ok(examined)
}

/// Returns the masters of the store, and the map of a cluster.
async fn masters(
    options: &RedisOptions,
    preflight: &Preflight,
    dialer: &Dialer,
) -> Result<(Vec<Host>, Option<Map>), OpenError> {
    let hosts = &options.url.hosts;
    match &options.url.kind {
        Kind::Single => Ok((hosts.clone(), None)),
        Kind::Sentinel { master } => {
            let own = Dialer::to_sentinels(options)?;
            let sentinels = Sentinels::new(own, hosts.clone(), master.clone());
            Ok((vec![sentinels.endpoint().await?], None))
        }
        Kind::Cluster => {
            let map = map::ask(dialer, preflight, hosts).await?;
            Ok((map.masters(), Some(map)))
        }
    }
}

impl Examined {
    /// Returns the number of buckets in the layout; for a new store, the default.
    fn bucket_count_or_default(&mut self, kind: &Kind, masters: usize) -> Buckets {
        let buckets = match &self.layout {
            Some(text) => Layout::agree(text, None),
            None => Ok(default_buckets(kind, masters)),
        };
        let buckets = buckets.unwrap_or_else(|error| {
            self.problems.push(error.to_string());
            default_buckets(kind, masters)
        });
        self.buckets = buckets.get();
        buckets
    }

    fn conclude(&mut self, findings: Findings, mend: bool, buckets: usize) {
        self.schedules = findings.schedules;
        let (mended, wrong) = findings.into_report(mend);
        self.mended = mended;
        self.problems.extend(wrong);
        // Several servers may have the same problem.
        self.problems = distinct(mem::take(&mut self.problems).into_iter());
        let reached: usize = self.servers.iter().map(|server| server.buckets.len()).sum();
        if self.problems.is_empty() && reached < buckets {
            let missing = buckets - reached;
            self.problems.push(format!(
                "{missing} of {buckets} buckets are on nodes that do not answer: check the nodes \
                 of the cluster"
            ));
        }
    }
}

async fn inspect(
    preflight: &Preflight,
    host: &Host,
    connection: &mut MultiplexedConnection,
    own: &[(usize, &Keys)],
    examined: &mut Examined,
) -> Server {
    let mut server = Server { address: host.to_string(), ..Server::default() };
    let info: String = ask(connection, &redis::cmd("INFO")).await.unwrap_or_default();
    let fields = requirements::fields(&info);
    let field = |name: &str| fields.get(name).copied().unwrap_or("?").to_owned();
    let mut get = redis::cmd("CONFIG");
    let config: Option<Vec<String>> = ask(connection, get.arg("GET").arg("appendfsync")).await;
    let fsync = config.and_then(|found| found.get(1).cloned()).unwrap_or_else(|| "?".to_owned());
    let clock = clock_difference(connection).await;
    server.facts = vec![
        ("mode", requirements::mode(&fields).unwrap_or("?").to_owned()),
        ("version", field("redis_version")),
        ("role", field("role")),
        ("aof_enabled", field("aof_enabled")),
        ("appendfsync", fsync),
        ("maxmemory_policy", field("maxmemory_policy")),
        ("used_memory", field("used_memory_human")),
        ("maxmemory", field("maxmemory_human")),
        ("replicas", field("connected_slaves")),
        ("clock", clock.map_or("?".to_owned(), |millis| format!("{millis:+.1} ms"))),
    ];
    if clock.is_some_and(|millis| millis.abs() > CLOCK_MILLIS) {
        let advice = "its clock differs from this machine's, and due_at is compared with its clock: \
                      synchronise both";
        examined.advice.push(format!("{host}: {advice}"));
    }
    if field("connected_slaves") == "0" {
        let advice = "no replica: if its machine is lost, its jobs are lost too";
        examined.advice.push(format!("{host}: {advice}"));
    }
    if let Some((_, keys)) = own.first() {
        if let Err(error) = preflight.inspect(host, connection).await {
            examined.problems.push(error.to_string());
            return server;
        }
        if let Err(error) = preflight.probe(host, connection, &keys.incarnation).await {
            examined.problems.push(error.to_string());
        }
    }
    let mut without_incarnation = 0;
    for &(bucket, keys) in own {
        server.buckets.push(bucket);
        let mut get = redis::cmd("GET");
        match get.arg(&keys.incarnation).query_async::<Option<String>>(connection).await {
            Ok(incarnation) => without_incarnation += usize::from(incarnation.is_none()),
            Err(cause) => examined.problems.push(preflight.engine(host, &cause).to_string()),
        }
        server.count(connection, keys).await;
    }
    if without_incarnation > 0 && examined.layout.is_some() {
        let problem = "buckets have no incarnation: they were emptied since the store was made. \
                       Restore them, or accept the loss with doctor --accept-loss";
        examined.problems.push(format!("{host}: {without_incarnation} {problem}"));
    }
    if server.overdue > OVERDUE_MILLIS {
        let seconds = server.overdue / 1_000.0;
        examined.problems.push(format!(
            "{host}: due jobs are not promoted; the oldest has been due for {seconds:.1} s: start \
             a delay-queue server"
        ));
    }
    server
}

/// Examines the jobs of a server's buckets; with `read`, also the schedules, which are there.
async fn contents(
    prefix: &str,
    connection: &mut MultiplexedConnection,
    own: &[(usize, &Keys)],
    mend: bool,
    read: Option<ScheduleReader>,
) -> Result<Findings, redis::RedisError> {
    let scripts = Scripts::new();
    let sets = contents::sets(connection, prefix).await?;
    let mut findings = Findings::default();
    for (_, keys) in own {
        let none = std::collections::BTreeSet::new();
        let of_bucket = sets.get(keys.tag()).unwrap_or(&none);
        let mut contents = Contents { connection, keys, scripts: &scripts, mend };
        findings.join(contents.examine(of_bucket).await?);
    }
    if let Some(read) = read {
        Schedules { connection, prefix, read, mend }.examine(&mut findings).await?;
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_spread_evenly_once_there_are_ten_for_every_master() {
        let spread = |count: u16, masters| {
            spread("dq", Buckets::try_from(count).expect("a number of buckets"), masters)
        };
        assert_eq!(spread(16, 3), (5, 6));
        assert_eq!(spread(16, 6), (2, 4));
        assert_eq!(spread(64, 3), (21, 22));
        assert_eq!(spread(64, 6), (10, 11));
        assert_eq!(spread(256, 3), (84, 86));
        assert_eq!(spread(256, 6), (42, 44));
        assert_eq!(spread(256, 30), (8, 9));
    }
}
