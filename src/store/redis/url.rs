//! Address of a Redis, parsed from `store.url`.
//!
//! `redis://host:port/db` is one server, `redis+sentinel://host:port,…/master/db` the master that
//! Sentinels name, and `redis+cluster://host:port,…` a cluster. With `rediss…`, connections use
//! TLS. The redis crate parses only the first form.

use std::{fmt, str::FromStr};

use percent_encoding::percent_decode_str;

/// Text that messages and logs never show.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl serde::Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Address of one server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    /// Name or IP address.
    pub name: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

/// Kind of Redis deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// One server.
    Single,
    /// The hosts are Sentinels, which know the master's address.
    Sentinel {
        /// Name of the master, as configured in the Sentinels.
        master: String,
    },
    /// The hosts are nodes of a cluster, which know the other nodes.
    Cluster,
}

/// Parsed `store.url`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// Kind of the hosts.
    pub kind: Kind,
    /// Whether connections use TLS.
    pub tls: bool,
    /// Hosts, at least one.
    pub hosts: Vec<Host>,
    /// ACL user.
    pub user: Option<String>,
    /// Password of the user, or of the default user if there is none.
    pub password: Option<Secret>,
    /// Number of the database; 0 on a cluster.
    pub db: u32,
}

impl fmt::Display for RedisUrl {
    /// Writes the URL without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        let hosts = hosts.join(",");
        match &self.kind {
            Kind::Single => write!(f, "{scheme}://{hosts}/{}", self.db),
            Kind::Sentinel { master } => {
                write!(f, "{scheme}+sentinel://{hosts}/{master}/{}", self.db)
            }
            Kind::Cluster => write!(f, "{scheme}+cluster://{hosts}"),
        }
    }
}

impl FromStr for RedisUrl {
    type Err = &'static str;

    /// Parses a URL. The error completes "store.url …". It omits the URL, which may contain a
    /// password.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once("://").unwrap_or((text, ""));
        let (tls, kind) = match scheme.split_once('+').unwrap_or((scheme, "")) {
            ("redis", kind) => (false, kind),
            ("rediss", kind) => (true, kind),
            _ => return Err(SCHEMES),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (kind, default_port, db) = match kind {
            "" => (Kind::Single, 6379, path),
            "cluster" => (Kind::Cluster, 6379, path),
            "sentinel" => {
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(
                        "must name the master: redis+sentinel://<host>:26379/<master>/<db>",
                    );
                }
                (Kind::Sentinel { master: decoded(master)? }, 26379, db)
            }
            _ => return Err(SCHEMES),
        };
        let hosts: Vec<Host> = hosts
            .split(',')
            .map(|host| parse_host(host, default_port))
            .collect::<Result<_, _>>()?;
        if kind == Kind::Single && hosts.len() > 1 {
            return Err("must have one host, or begin with redis+sentinel:// or redis+cluster://");
        }
        let db = if db.is_empty() { 0 } else { db.parse().map_err(|_| DATABASE)? };
        if kind == Kind::Cluster && db != 0 {
            return Err("must not name a database: a cluster has only 0");
        }
        let (user, password) = match login {
            None => (None, None),
            Some(login) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                let given = |text: &str| decoded(text).map(|t| Some(t).filter(|t| !t.is_empty()));
                (given(user)?, given(password)?.map(Secret))
            }
        };
        Ok(Self { kind, tls, hosts, user, password, db })
    }
}

const SCHEMES: &str = "must be file:<directory>, redis://<host>:<port>/<db>, \
                       redis+sentinel://<host>:<port>,…/<master>/<db> or \
                       redis+cluster://<host>:<port>,… (rediss… for TLS)";
const DATABASE: &str = "must end with the number of a database, such as /0";

fn decoded(text: &str) -> Result<String, &'static str> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| "must have UTF-8 in what is percent-encoded")
}

fn parse_host(text: &str, default_port: u16) -> Result<Host, &'static str> {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, port)) => (name, port.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Ok(default_port), str::parse);
    match port {
        Ok(port) if port > 0 && !name.is_empty() => Ok(Host { name: name.to_owned(), port }),
        _ => Err("must have hosts as <name>:<port>, with a comma between two"),
    }
}

#[cfg(test)]
mod tests;
