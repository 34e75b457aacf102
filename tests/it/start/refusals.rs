//! Settings that the server refuses at its start. Each message names the mistake and the remedy.

use crate::start::prelude::*;

/// Starts the server, and expects a refusal in one line that contains all of `words`.
#[track_caller]
fn refused(dir: &Path, arguments: &[&str], words: &[&str]) {
    let listen = format!("127.0.0.1:{}", free_port());
    let mut all = vec!["--listen", listen.as_str()];
    all.extend(arguments);
    one_line(&output(dir, &all), words);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_directory_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut first = Process::start(dir.path(), &[]).await;
    refused(dir.path(), &[], &["data", "another delay-queue", "store.url"]);
    first.kill();
    Process::start(dir.path(), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_of_buckets_is_refused() {
    let redis = Redis::start();
    for store in ["file:./data", &redis.url()] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let settings = |count: u16| {
            let file = dir.path().join(format!("{count}.toml"));
            fs::write(&file, format!("[store]\nbuckets = {count}\n")).expect("written");
            file.display().to_string()
        };
        let (four, eight) = (settings(4), settings(8));
        Process::start(dir.path(), &["--store", store, "--config", &four]).await;
        let words = ["buckets = 4", "8", "store.buckets"];
        refused(dir.path(), &["--store", store, "--config", &eight], &words);
        // Without a number in the settings, the server uses the number of the store.
        Process::start(dir.path(), &["--store", store]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut server = Process::start(dir.path(), &[]).await;
    server.signal("-TERM");
    server.wait();
    let file = rusqlite::Connection::open(dir.path().join("data/jobs.db")).expect("opened");
    let changed = file.execute(
        "UPDATE layout SET text = 'schema=7' || substr(text, 9) WHERE text LIKE 'schema=6 %'",
        (),
    );
    assert_eq!(changed.expect("updated"), 1);
    drop(file);
    refused(dir.path(), &[], &["schema = 7", "newer"]);

    let redis = Redis::start();
    Process::start(dir.path(), &["--store", &redis.url()]).await.kill();
    redis.command("SET dq:layout \"schema=7 hash=xxh3-64 buckets=16\"").expect("an answer");
    refused(dir.path(), &["--store", &redis.url()], &["schema = 7", "newer"]);
}

#[test]
fn a_redis_that_may_lose_jobs_is_refused_unless_accepted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let no_aof = Redis::with(&["--appendonly", "no"]);
    refused(dir.path(), &["--store", &no_aof.url()], &["appendonly", "accept_data_loss"]);
    let evicts = Redis::with(&["--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"]);
    refused(dir.path(), &["--store", &evicts.url()], &["maxmemory-policy", "noeviction"]);
    let replica_of = format!("127.0.0.1 {}", free_port());
    let replica = Redis::with(&["--appendonly", "yes", "--replicaof", &replica_of]);
    refused(dir.path(), &["--store", &replica.url()], &["role", "master"]);

    let accepted = tokio::runtime::Runtime::new().expect("a runtime");
    let file = dir.path().join("accept.toml");
    fs::write(&file, "[store]\naccept_data_loss = true\n").expect("written");
    let file = file.display().to_string();
    let arguments = ["--store", &no_aof.url(), "--config", &file];
    accepted.block_on(async { drop(Process::start(dir.path(), &arguments).await) });
}

#[test]
fn a_missing_redis_and_a_missing_password_are_reported() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let url = format!("redis://user:secret@127.0.0.1:{}/", free_port());
    refused(dir.path(), &["--store", &url], &["127.0.0.1"]);
    let listen = format!("127.0.0.1:{}", free_port());
    let said = output(dir.path(), &["--listen", &listen, "--store", &url]).stderr;
    assert!(!text(&said).contains("secret"), "the message contains a password");
    let redis = Redis::with(&["--appendonly", "yes"]);
    redis.command("CONFIG SET requirepass secret").expect("an answer");
    refused(dir.path(), &["--store", &redis.url()], &["127.0.0.1", "NOAUTH"]);
}

#[test]
fn unknown_and_invalid_settings_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let bad = [
        ("[server]\nlisen = \"x\"\n", "lisen"),
        ("[sevrer]\nlisten = \"x\"\n", "sevrer"),
        ("[timer]\npoll_interval = \"1ms\"\n", "timer.poll_interval"),
        ("[timer]\npoll_interval = \"soon\"\n", "poll_interval"),
        ("[job_defaults]\nttr = 0\n", "job_defaults.ttr"),
        ("[job_defaults]\nttr = \"30\"\n", "lacks a unit"),
        ("[job_defaults]\ndead_retention = \"1M\"\n", "\"M\" is not a unit"),
        ("[store]\nprefix = \"a{b}\"\n", "store.prefix"),
        ("[store]\nbuckets = 0\n", "store.buckets"),
        ("[store]\nurl = \"mysql://x\"\n", "store.url"),
        ("[limits]\nrequest_bytes = 1\n", "limits.request_bytes"),
        ("[limits]\nmemory_bytes = 33554431\n", "limits.memory_bytes"),
        ("[limits]\nwrite_timeout = \"1ms\"\n", "limits.write_timeout"),
        ("[server]\nunix_socket_mode = \"660\"\n", "server.unix_socket_mode"),
        ("[server]\nunix_socket_mode = 0o660\n", "server.unix_socket_mode"),
        ("[limits]\nheader_bytes = 0\n", "limits.header_bytes"),
        ("[limits]\nconnections = 0\n", "limits.connections"),
        ("[limits]\nconnections_per_address = 0\n", "limits.connections_per_address"),
        ("[limits]\nrequests_in_flight = 0\n", "limits.requests_in_flight"),
        ("[limits]\nwaiting_pops = 0\n", "limits.waiting_pops"),
        ("[limits]\nputs_per_second = 0\n", "limits.puts_per_second"),
        ("[limits]\ntopic_jobs = 0\n", "limits.topic_jobs"),
        ("[limits]\ntopic_bytes = 0\n", "limits.topic_bytes"),
        ("[limits]\nstore_jobs = 0\n", "limits.store_jobs"),
        ("[limits]\nstore_bytes = 0\n", "limits.store_bytes"),
        ("[limits]\nheader_timeout = 0\n", "limits.header_timeout"),
        ("[limits]\nbody_timeout = 0\n", "limits.body_timeout"),
        ("[limits]\nidle_timeout = 0\n", "limits.idle_timeout"),
        ("[log]\nfilter = \"a=b=c\"\n", "log.filter"),
        ("[log]\nformat = \"xml\"\n", "format"),
        ("nonsense", "line 1, column 9: key with no value"),
    ];
    for (number, (settings, named)) in bad.into_iter().enumerate() {
        let file = dir.path().join(format!("{number}.toml"));
        fs::write(&file, settings).expect("written");
        refused(dir.path(), &["--config", &file.display().to_string()], &[named]);
        let check = ["--check-config", "--config", &file.display().to_string()];
        refused(dir.path(), &check, &[named]);
    }
    refused(dir.path(), &["--config", "nowhere.toml"], &["nowhere.toml"]);
    refused(dir.path(), &["--store", "mysql://u:secret@h/"], &["store.url", "file:<directory>"]);
    for settings in [
        "store = \"redis://:secret@h\"\n",
        "[store]\nurl = \"redis://:secret#1\n",
        "[store]\nurl = \"redis://:secret#1\"\n",
    ] {
        let file = dir.path().join("secret.toml");
        fs::write(&file, settings).expect("written");
        let said = output(dir.path(), &["--config", &file.display().to_string()]);
        let said = one_line(&said, &["delay-queue: failed"]);
        assert!(!said.contains("secret#") && !said.contains(":secret"), "{said}");
    }
    let listen = output(dir.path(), &["--listen", "nonsense"]);
    one_line(&listen, &["server.listen"]);
    assert!(output(dir.path(), &["--check-config"]).status.success());
    assert!(!dir.path().join("data").exists(), "checking the settings has created a store");
}

#[test]
fn flags_override_the_environment_which_overrides_files() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("file.toml");
    fs::write(&file, "[job_defaults]\nttr = 0\n").expect("written");
    let file = file.display().to_string();
    let checked = |ttr: &str, store: &str, flags: &[&str]| {
        let mut arguments = vec!["--check-config", "--config", file.as_str()];
        arguments.extend(flags);
        let mut command = program(dir.path(), &arguments);
        command.env("DELAY_QUEUE__JOB_DEFAULTS__TTR", ttr).env("DELAY_QUEUE__STORE__URL", store);
        command.output().expect("the program runs").status.success()
    };
    assert!(checked("30s", "file:./data", &[]));
    assert!(checked("30", "file:./data", &[]));
    assert!(checked("1.5", "file:./data", &[]));
    assert!(!checked("0", "file:./data", &[]));
    assert!(!checked("1M", "file:./data", &[]));
    assert!(!checked("30s", "nonsense", &[]));
    assert!(checked("30s", "nonsense", &["--store", "file:./data"]));
    let unknown = program(dir.path(), &["--check-config"])
        .env("DELAY_QUEUE__JOB_DEFAULTS__TTL", "1")
        .output();
    assert!(!unknown.expect("the program runs").status.success());
}
