//! Passwords and ACLs of Redis. The server names the reason of a refusal, and never shows a
//! password.

use crate::start::api_page::run_examples;
use crate::start::prelude::*;
use crate::support::resp::ask_with_password;

const RIGHT: &str = "tRue-p4ss%word";
const WRONG: &str = "gu3ssed-p4ssword";

/// Rights that a queue with the prefix `dq` needs on one Redis. The documentation has the same
/// list.
const KEYS: &str = "~dq:layout ~{dq:*";
const CHANNELS: &str = "resetchannels &{dq:*";
const COMMANDS: &str = "-@all +info +scan +get +mget +set +eval +evalsha +time +exists \
                        +hset +hget +hmget +hexists +hdel +hscan +hlen +zadd +zscore +zcard +zcount \
                        +zrange +zrem +zremrangebyrank +zscan";
/// Rights to publish and receive hints. Without these rights, servers only poll.
const HINTS: &str = "+ssubscribe +spublish";

/// Returns the rule of the documentation, without user and password.
pub fn smallest() -> String {
    format!("{KEYS} {CHANNELS} {COMMANDS} {HINTS}")
}

/// Creates a user with only the rights of this rule. Returns the URL.
fn user(redis: &Redis, rule: &str) -> String {
    let line = [&["ACL", "SETUSER", "me", "reset", "on", ">secret"], &words(rule)[..]].concat();
    assert_eq!(ask(redis.port(), &line).expect("an answer").text(), "OK", "{rule}");
    format!("redis://me:secret@127.0.0.1:{}/", redis.port())
}

fn words(rule: &str) -> Vec<&str> {
    rule.split_whitespace().collect()
}

#[test]
fn a_wrong_password_is_refused_and_no_password_is_shown() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let set = ask(redis.port(), &["CONFIG", "SET", "requirepass", RIGHT]).expect("an answer");
    assert_eq!(set.text(), "OK");
    let file = |name: &str, password: &str| place.file(name, &format!("{password}\nmore\n"));
    let (right, wrong) = (file("right", RIGHT), file("wrong", WRONG));
    let plain = redis.url();
    let with = |login: &str| plain.replace("redis://", &format!("redis://{login}@"));
    let encoded = RIGHT.replace('%', "%25");
    // This server creates the store. The exports below need an existing store.
    Logged::start(&place, &store(&with(&format!(":{encoded}")), "")).wait_for("serving");
    let env = "DELAY_QUEUE__STORE__PASSWORD";
    for (is_right, settings, environment) in [
        (false, store(&with(&format!(":{WRONG}")), ""), vec![]),
        (false, store(&with(&format!("default:{WRONG}")), ""), vec![]),
        (false, store(&with(&format!("nobody:{encoded}")), ""), vec![]),
        (false, store(&plain, &format!("password = \"{WRONG}\"")), vec![]),
        (false, store(&plain, &format!("password_file = \"{wrong}\"")), vec![]),
        (false, store(&plain, ""), vec![(env, WRONG)]),
        (false, store(&plain, ""), vec![("DELAY_QUEUE__STORE__PASSWORD_FILE", &wrong[..])]),
        (false, store(&plain, ""), vec![("DELAY_QUEUE__STORE__SENTINEL_PASSWORD", RIGHT)]),
        (true, store(&with(&format!(":{encoded}")), ""), vec![]),
        (true, store(&with(&format!("default:{encoded}")), ""), vec![]),
        (true, store(&plain, &format!("username = \"default\"\npassword = \"{RIGHT}\"")), vec![]),
        (true, store(&plain, &format!("password_file = \"{right}\"")), vec![]),
        (true, store(&plain, ""), vec![(env, RIGHT)]),
    ] {
        let settings = format!("{settings}[log]\nfilter = \"trace\"\n");
        let run = |command: &[&str]| {
            let output = place.run(&settings, &environment, command);
            let said = text(&output.stdout) + &text(&output.stderr);
            let shown = [RIGHT, WRONG, &encoded].iter().any(|password| said.contains(password));
            assert!(!shown, "{command:?} with {settings:?}: {said}");
            assert!(!said.contains("panicked"), "{said}");
            (output, said)
        };
        assert!(run(&["--check-config"]).0.status.success());
        let (output, said) = run(&["doctor"]);
        assert_eq!(output.status.success(), is_right, "{said}");
        assert!(is_right || said.contains("see store.username and store.password"), "{said}");
        // Tests the right password with an export, since a server would not exit.
        let (output, said) = match is_right {
            true => run(&["export", "--force", "nothing.ndjson"]),
            false => run(&[]),
        };
        assert_eq!(output.status.success(), is_right, "{said}");
        if !is_right {
            let last = said.lines().last().unwrap_or_default();
            let words = ["delay-queue: failed to open Redis at 127.0.0.1", "store.password"];
            assert!(words.iter().all(|word| last.contains(word)), "{said}");
        }
    }
    // Also searches the most verbose log of a running server.
    let url = with(&format!(":{encoded}"));
    let settings = store(&url, "") + "[log]\nfilter = \"trace\"\n";
    let said = Logged::start(&place, &settings).wait_for("serving");
    assert!(![RIGHT, WRONG, &encoded].iter().any(|password| said.contains(password)), "{said}");
    // Only the successful commands have written: the layout, the key of reservations, the lease,
    // the incarnation and, perhaps already, the note of a walk.
    let keys = ask_with_password(redis.port(), RIGHT, &["KEYS", "*"]).expect("an answer");
    let keys = keys.texts().into_iter().filter(|key| !key.ends_with(":walked"));
    assert_eq!(keys.collect::<Vec<_>>().len(), 4);
}

#[test]
fn each_command_that_an_acl_forbids_is_reported() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    for command in words(COMMANDS).into_iter().skip(1) {
        let name = command.trim_start_matches('+');
        // Allows all commands except this one, once by forbidding it and once by not allowing it.
        let others: Vec<&str> = words(COMMANDS).into_iter().filter(|c| *c != command).collect();
        let allowed = others.join(" ");
        for rule in [format!("~* &* +@all -{name}"), format!("{KEYS} {CHANNELS} {allowed}")] {
            let denied = "its ACL denies this user permissions that the queue needs";
            place.refused(&store(&user(&redis, &rule), ""), &[denied, name]);
            assert_empty(&redis);
        }
    }
    let settings = store(&user(&redis, "~* &* +@all -zadd -evalsha"), "");
    place.assert_problem(&settings, &["allow +zadd +evalsha"]);
    let confirmed = store(&user(&redis, "~* &* +@all -wait -config"), "ack = \"replica\"");
    place.refused(&confirmed, &["ACL", "'wait'"]);
    let info = ask(redis.port(), &["INFO", "server"]).expect("an answer");
    if info.text().contains("redis_version:7.0") {
        let synced = confirmed.replace("replica", "fsync");
        place.refused(&synced, &["ACL", "'config|get'"]);
    }
    assert_empty(&redis);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_do_not_fit_the_prefix_are_refused() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    for keys in [
        "~dq:*",
        "~{dq:*",
        "~dq:layout ~{dq:[0-9]*",
        "~dq:layout ~{dq:topics}:* ~{dq:0*",
        "~dq:layout ~{dq:topics}:* ~{dq:1*",
        "~other:layout ~{other:*",
        "%R~dq:layout %R~{dq:*",
        "",
    ] {
        let settings = store(&user(&redis, &format!("{keys} &* +@all")), "");
        let words = ["ACL", "on the keys ~dq:layout ~{dq:*", "permissions to access"];
        place.assert_unfit(&settings, &words);
        assert_empty(&redis);
    }
    for (keys, prefix) in [(KEYS, "dq"), ("~*dq:*", "dq"), ("~other:layout ~{other:*", "other")] {
        let url = user(&redis, &format!("{keys} &* +@all"));
        let server = place.server(&store(&url, &format!("prefix = \"{prefix}\""))).await;
        server.put_job(json!({"topic": "t"})).await;
    }
}

/// Uses every feature of a server: the examples of docs/api.md, and the promotion of a job.
async fn use_all(server: &Process) {
    run_examples(server);
    server.put_job(json!({"topic": "soon", "id": "soon", "delay": "100ms"})).await;
    let soon = server.get("/topics/soon/pop?wait=10s").await.1;
    assert_eq!(soon["jobs"][0]["id"], "soon", "{soon}");
    server.text("/metrics").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_acl_suffices_for_all_features() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let url = user(&redis, &smallest());
    let settings = store(&url, "");
    let servers = [place.server(&settings).await, place.server(&settings).await];
    use_all(&servers[0]).await;
    place.assert_healthy(&settings, &["servers     2 of delay-queue running", "appendfsync ?"]);
    drop(servers);
    for command in ["export", "import"] {
        place.assert_succeeds(&["--store", &url, command, "all.ndjson"], &[]);
    }
    // Redis logs the denied commands. Only optional requests of the doctor may be denied and, since
    // 7.2, the name of the client's library.
    let denied = ask(redis.port(), &["ACL", "LOG"]).expect("an answer");
    let objects: Vec<String> = denied.list().iter().map(|entry| entry.texts()[7].clone()).collect();
    let spared = ["config|get", "client|setinfo"];
    assert!(objects.iter().all(|object| spared.contains(&object.as_str())), "{objects:?}");
}

#[test]
fn revoked_rights_are_reported_at_the_next_connection() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let rule = smallest();
    let server = Logged::start(&place, &store(&user(&redis, &rule), ""));
    let lost = [("-zadd", "allow +zadd"), ("resetkeys", "on the keys ~dq:layout ~{dq:*")];
    for (before, (less, named)) in lost.into_iter().enumerate() {
        let rules = [&["ACL", "SETUSER", "me"], &words(less)[..]].concat();
        assert_eq!(ask(redis.port(), &rules).expect("an answer").text(), "OK");
        ask(redis.port(), &["CLIENT", "KILL", "USER", "me"]).expect("an answer");
        server.wait_for(named);
        user(&redis, &rule);
        // When the rights are restored, the server recovers by itself.
        let count = |said: &str| said.matches("connected to redis").count();
        server.wait_until("connected once more", |said| count(said) == before + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_acl_of_a_cluster_has_two_more_commands() {
    let (place, cluster) = (WorkDir::new(), shared::cluster());
    let prefix = shared::prefix();
    let rule = smallest().replace("dq:", &format!("{prefix}:"));
    let set = |more: &str| {
        for node in 0..6 {
            let rule = format!("{rule} {more}");
            let line = [&["ACL", "SETUSER", "me", "reset", "on", ">secret"], &words(&rule)[..]];
            assert_eq!(cluster.command(node, &line.concat()).text(), "OK");
        }
    };
    let url = cluster.url().replace("://", "://me:secret@");
    let settings = store(&url, &format!("prefix = \"{prefix}\""));
    set("+cluster|info");
    place.refused(&settings, &["ACL", "'cluster|slots'"]);
    set("+cluster|slots");
    place.refused(&settings, &["ACL", "'cluster|info'"]);
    set("+cluster|slots +cluster|info");
    let server = place.server(&settings).await;
    use_all(&server).await;
    place.assert_healthy(&settings, &["servers     1 of delay-queue running"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_channels_a_server_warns_once_and_polls() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let url = user(&redis, &format!("{KEYS} resetchannels +@all"));
    let settings = store(&url, "");
    let deaf = Logged::start(&place, &settings);
    let server = place.server(&settings).await;
    use_all(&server).await;
    server.put_job(json!({"topic": "x", "id": "x"})).await;
    let popped = deaf.get("/topics/x/pop?wait=10s", None).await;
    let popped = popped.text().await.expect("text");
    assert!(popped.contains("\"id\":\"x\""), "not the job of the other server: {popped}");
    // The server retries every second, and logs the failure only once.
    thread::sleep(Duration::from_millis(2_500));
    let said = deaf.wait_for("falling back to polling");
    let warnings: Vec<&str> = said.lines().filter(|line| !line.contains(" INFO ")).collect();
    assert_eq!(warnings.len(), 1, "{said}");
}
