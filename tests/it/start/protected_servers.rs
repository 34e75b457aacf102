//! Sentinels and Redis servers with different passwords.

use crate::start::prelude::*;
use crate::support::resp::ask_with_password;

const REDIS_PASSWORD: &str = "p4ss-of-redis";
const SENTINEL_PASSWORD: &str = "p4ss-of-sentinels";

/// A master and its replica, and one Sentinel.
struct ProtectedServers {
    redis: [Redis; 2],
    _sentinel: Killed,
    port: u16,
}

impl ProtectedServers {
    fn start(place: &WorkDir) -> Self {
        let all = ["--appendonly", "yes", "--masterauth", REDIS_PASSWORD];
        let master = Redis::with(&[&all[..], &["--repl-diskless-sync-delay", "0"]].concat());
        let set = ["CONFIG", "SET", "requirepass", REDIS_PASSWORD];
        assert_eq!(ask(master.port(), &set).expect("an answer").text(), "OK");
        let of = format!("127.0.0.1 {}", master.port());
        let replica = Redis::with(&[&all[..], &["--replicaof", &of]].concat());
        assert_eq!(ask(replica.port(), &set).expect("an answer").text(), "OK");

        let port = free_port();
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nrequirepass {SENTINEL_PASSWORD}\n\
             sentinel monitor main 127.0.0.1 {} 1\nsentinel auth-pass main {REDIS_PASSWORD}\n",
            place.path().display(),
            master.port(),
        );
        let file = place.file("sentinel.conf", &text);
        let sentinel = redis_server().arg(file).arg("--sentinel").spawn();
        let _sentinel = Killed(sentinel.expect("redis-server is installed"));
        let all = Self { redis: [master, replica], _sentinel, port };
        wait("the replica is not connected to its master", || {
            let info =
                ask_with_password(all.redis[1].port(), REDIS_PASSWORD, &["INFO", "replication"]);
            info.is_some_and(|info| info.text().contains("master_link_status:up"))
        });
        wait("the Sentinel does not find the replica", || {
            let known = all.sentinel(&["SENTINEL", "MASTER", "main"]).unwrap_or(Reply::Nothing);
            known.texts().chunks(2).any(|pair| pair == ["num-slaves", "1"])
        });
        all
    }

    fn sentinel(&self, words: &[&str]) -> Option<Reply> {
        ask_with_password(self.port, SENTINEL_PASSWORD, words)
    }

    fn master(&self) -> Option<u16> {
        let told = self.sentinel(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"])?;
        told.texts().get(1)?.parse().ok()
    }
}

fn wait(what: &str, done: impl Fn() -> bool) {
    eventually_blocking!(done(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_redis_each_get_their_own_password() {
    let place = WorkDir::new();
    let servers = ProtectedServers::start(&place);
    let url = format!("redis+sentinel://127.0.0.1:{}/main", servers.port);
    let own = format!("sentinel_password = \"{SENTINEL_PASSWORD}\"");
    let of_redis = format!("password = \"{REDIS_PASSWORD}\"");
    let both_wrong =
        format!("password = \"{SENTINEL_PASSWORD}\"\nsentinel_password = \"{REDIS_PASSWORD}\"");
    let one_wrong = format!("{own}\npassword = \"{SENTINEL_PASSWORD}\"");
    let [sentinels, redis] = ["by its Sentinels", "failed to open Redis at 127.0.0.1"];
    for (settings, words) in [
        (String::new(), [sentinels, "store.sentinel_password"]),
        (of_redis, [sentinels, "store.sentinel_password"]),
        (both_wrong, [sentinels, "store.sentinel_password"]),
        (own.clone(), [redis, "NOAUTH"]),
        (one_wrong, [redis, "see store.username and store.password"]),
    ] {
        let settings = store(&url, &settings);
        for said in [place.refused(&settings, &words), place.assert_problem(&settings, &words)] {
            assert!(!said.contains(REDIS_PASSWORD) && !said.contains(SENTINEL_PASSWORD), "{said}");
        }
    }
    let unknown = format!("redis+sentinel://127.0.0.1:{}/other", servers.port);
    let both = format!("{own}\npassword = \"{REDIS_PASSWORD}\"");
    let words = ["the master \"other\"", "knows no such master"];
    place.assert_unfit(&store(&unknown, &both), &words);
    let keys = ask_with_password(servers.redis[0].port(), REDIS_PASSWORD, &["KEYS", "*"]);
    assert!(keys.expect("an answer").list().is_empty(), "a refused command has written keys");

    let of_redis = place.file("of-redis", REDIS_PASSWORD);
    let of_sentinels = place.file("of-sentinels", SENTINEL_PASSWORD);
    let of_users = format!(
        "username = \"default\"\npassword_file = \"{of_redis}\"\nsentinel_username = \"default\"\n\
         sentinel_password_file = \"{of_sentinels}\""
    );
    let in_url = url.replace("://", &format!("://default:{REDIS_PASSWORD}@"));
    for settings in [store(&url, &both), store(&in_url, &own), store(&url, &of_users)] {
        place.assert_healthy(&settings, &["role master", "replicas 1"]);
    }

    // The server also uses the passwords for the next master.
    let settings = store(&url, &format!("{both}\nack = \"replica\""));
    let server = place.server(&settings).await;
    let put = async |id: &str| {
        server.post("/jobs", json!({"topic": "t", "id": id})).await.map(|(status, _)| status)
    };
    assert_eq!(put("before").await, Some(201));
    let old = servers.master().expect("a master");
    wait("the Sentinel refuses to begin a failover", || {
        let begun = servers.sentinel(&["SENTINEL", "FAILOVER", "main"]);
        begun.is_some_and(|reply| reply.text() == "OK")
    });
    wait("the Sentinel has not promoted the replica", || {
        servers.master().is_some_and(|port| port != old)
    });
    eventually!(put("after").await == Some(201), "the server does not find the new master");
    assert_eq!(server.get("/jobs/before").await.1["state"], "ready");
}
