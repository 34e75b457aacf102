//! Access tokens on the command line and on several servers, and their log lines.

use crate::start::prelude::*;
use crate::support::resp::ask as ask_redis;

#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim_end().to_owned()
}

/// Repeats the request until the answer has this status.
async fn wait_for(server: &Logged, path: &str, token: Option<&str>, status: u16) {
    let is_so = async || server.get(path, token).await.status() == status;
    eventually!(is_so().await, "{path} is never answered with {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_created_on_the_command_line_works_on_all_servers() {
    let redis = Redis::start();
    let (place, other_place) = (WorkDir::new(), WorkDir::new());
    let settings = store(&redis.url(), "");
    let (one, other) = (Logged::start(&place, &settings), Logged::start(&other_place, &settings));
    let run = |arguments: &[&str]| place.run(&settings, &[], &[&["token"], arguments].concat());

    let create = ["create", "--name", "reader", "--scope", "read=a.*", "--expires", "1h"];
    one_line(&run(&create), &["the first token", "admin"]);
    let before = one.get("/topics/a.b", None).await;
    assert_eq!(before.status(), 200, "a request without a token is refused before the first one");
    let root = run(&["create", "--name", "root", "--scope", "admin"]);
    printed(&root);
    assert!(text(&root.stderr).contains("401 to every request without a token"), "{root:?}");
    let output = run(&create);
    assert!(!text(&output.stderr).contains("first token"), "{output:?}");
    let token = printed(&output);
    assert!(token.starts_with("dq_") && token.lines().count() == 1, "{token}");
    one_line(&run(&create), &["reader"]);
    let listed = printed(&run(&["list"]));
    let listed = listed.lines().find(|line| line.contains("reader")).expect("a line");
    let listed: Value = serde_json::from_str(listed).expect("JSON");
    assert_eq!((&listed["name"], &listed["scopes"]), (&"reader".into(), &json!({"read": ["a.*"]})));
    assert!(!listed.to_string().contains(&token[3..]), "{listed}");

    for server in [&one, &other] {
        wait_for(server, "/topics/a.b", None, 401).await;
        wait_for(server, "/topics/a.b", Some(&token), 200).await;
        assert_eq!(server.get("/topics/b", Some(&token)).await.status(), 403);
        let own: Value = server.get("/access", Some(&token)).await.json().await.expect("JSON");
        assert_eq!((&own["name"], &own["scopes"]), (&"reader".into(), &json!({"read": ["a.*"]})));
        assert!(own["expires_at"].is_string(), "{own}");
    }
    printed(&run(&["revoke", "reader"]));
    one_line(&run(&["revoke", "reader"]), &["reader"]);
    for server in [&one, &other] {
        wait_for(server, "/topics/a.b", Some(&token), 401).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_later_version_makes_the_server_refuse_all() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url(), "");
    drop(Logged::start(&place, &settings)); // creates the store
    let hash = "0".repeat(64);
    let later = format!(
        r#"{{"hash":"{hash}","scopes":{{"fly":["*"]}},"created_at":1763690000000,"expires_at":null}}"#
    );
    let key = ask_redis(redis.port(), &["KEYS", "*tokens*"]).expect("an answer").texts();
    assert_eq!(key, [""; 0], "the store has a key of tokens");
    let set = ["HSET", "{dq:tokens}:all", "=later", &later, "version", "7"];
    ask_redis(redis.port(), &set).expect("an answer");
    let server = Logged::start(&place, &settings);
    assert_eq!(server.get("/topics", None).await.status(), 401);
    assert!(server.wait_for("failed to read a stored token").contains("later"));
    let listed = place.run(&settings, &[], &["token", "list"]);
    let row: Value = serde_json::from_str(&printed(&listed)).expect("one line of JSON");
    assert_eq!(row["name"], "later");
    assert!(row["error"].as_str().is_some_and(|error| error.contains("fly")), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_create_and_revoke_tokens_over_http() {
    let (place, root) = (WorkDir::new(), secret());
    let file = place.file("root", &root);
    let server = &Logged::start(&place, &format!("[server]\nbootstrap_token_file = {file:?}\n"));
    let by_server = ["--url", &server.base, "--token-file", &file];
    let run =
        |arguments: &[&str]| place.run("", &[], &[&["token"], arguments, &by_server].concat());
    let create = ["create", "--name", "ops", "--scope", "manage=*"];
    one_line(&run(&create), &["answered 422", "the first token", "admin"]);
    let output = run(&[&create[..], &["--scope", "admin"]].concat());
    assert!(text(&output.stderr).contains("this is the first token"), "{output:?}");
    let token = printed(&output);
    wait_for(server, "/topics", Some(&token), 403).await;
    assert!(printed(&run(&["list"])).contains("\"ops\""));
    printed(&run(&["create", "--name", "manager", "--scope", "manage=*"]));
    printed(&run(&["revoke", "ops"]));
    wait_for(server, "/topics", Some(&token), 401).await;
    assert!(server.wait_for("no token with the scope admin is left").contains("ops"));

    // An expired token does not count.
    let short = ["create", "--name", "short", "--scope", "read=*", "--expires", "2s"];
    let token = printed(&run(&short));
    wait_for(server, "/topics", Some(&token), 401).await;

    let log = server.wait_for("token short created");
    for line in ["token ops created", "token ops revoked", "a refused request"] {
        let line = log.lines().find(|one| one.contains(line)).unwrap_or_else(|| panic!("{log}"));
        assert!(line.contains("delay_queue::audit") && line.contains("127.0.0.1:"), "{line}");
    }
    assert!(log.contains("bootstrap"), "the log does not name the caller: {log}");
    for secret in [root, token] {
        assert!(!log.contains(&secret), "{log}");
    }
}

/// `commands` tests certificates, and `bench` creates a token over TLS.
#[test]
fn the_certificate_of_a_server_is_checked_by_file_or_system() {
    let (place, root) = (WorkDir::new(), secret());
    let file = place.file("root", &root);
    let Https { authority, server, .. } = &Https::start_in(&place, &bootstrap(&root));
    let url = server.base.replace("http://", "https://");
    let run = |variables: &[(&str, &str)], arguments: &[&str]| {
        let list = ["token", "list", "--token-file", &file];
        place.run("", variables, &[&list, arguments].concat())
    };
    assert_eq!(printed(&run(&[("SSL_CERT_FILE", &authority.file)], &["--url", &url])), "");
    let name = url.replace("127.0.0.1", "localhost");
    let empty = place.file("empty.pem", "");
    for (url, ca, code, words) in [
        (&name, &authority.file, 4, ["failed to reach the server", "certificate"]),
        (&url, &empty, 2, ["--ca-file", "it contains no certificate"]),
        (&server.base, &authority.file, 2, ["--ca-file", "https://"]),
    ] {
        let output = run(&[], &["--url", url, "--ca-file", ca]);
        fails(&output, code, &words);
        assert!(!text(&output.stderr).contains(&root), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_guesses_is_limited_but_its_right_token_works() {
    let (root, wrong) = (secret(), secret());
    let (_place, server) = logged(&bootstrap(&root));
    let mut refused = 0;
    let last = loop {
        let answer = server.get("/tokens", Some(&wrong)).await;
        if answer.status() != 401 {
            break answer;
        }
        refused += 1;
    };
    assert_eq!((last.status().as_u16(), refused), (429, 100));
    assert!(last.headers().contains_key("retry-after"));
    let problem: Value = last.json().await.expect("JSON");
    assert_eq!(problem["code"], "too_many_requests");
    assert_eq!(server.get("/tokens", Some(&root)).await.status(), 200);
    // A request without a token is no guess. The server answers each request, but does not log it,
    // so that guesses cannot fill the log.
    for _ in 0..51 {
        assert_eq!(server.get("/tokens", None).await.status(), 401);
    }
    let log = server.wait_for("tokens listed");
    assert_eq!(log.matches("a refused request").count(), 101, "{log}");
    assert_eq!(log.matches("from its address are not logged").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_audit_see_clients_of_trusted_proxies() {
    let (place, root, wrong) = (WorkDir::new(), bootstrap(&secret()), secret());
    let start =
        |more: &str| Logged::start(&place, &format!("{root}{more}[log]\nformat = \"json\"\n"));
    let guess = async |server: &Logged, name: &str, value: &str| {
        let request = server.request("GET", "/tokens").header(name, value).bearer_auth(&wrong);
        request.send().await.expect("an answer").status().as_u16()
    };
    let last_peer = |log: &str| {
        let line = log.lines().rfind(|line| line.contains("a refused request")).expect("a line");
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["peer"].as_str().expect("text").to_owned()
    };
    let server = start("trusted_proxies = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\n");
    assert_eq!(guess(&server, "forwarded", "for=192.0.2.9;proto=https").await, 401);
    assert_eq!(last_peer(&server.wait_for("a refused request")), "192.0.2.9");
    for _ in 0..100 {
        assert_eq!(guess(&server, "x-forwarded-for", "1.1.1.1, 192.0.2.7, 10.0.0.2").await, 401);
    }
    // Neither another client of the proxy nor the proxy itself is limited.
    for (name, value, status) in [
        ("x-forwarded-for", "192.0.2.7", 429),
        ("x-forwarded-for", "192.0.2.8", 401),
        ("x-other", "192.0.2.7", 401),
    ] {
        assert_eq!(guess(&server, name, value).await, status, "{name}: {value}");
    }
    drop(server);

    let server = start("trusted_proxies = [\"10.0.0.0/8\"]\n");
    assert_eq!(guess(&server, "x-forwarded-for", "192.0.2.7").await, 401);
    let peer = last_peer(&server.wait_for("a refused request"));
    assert!(peer.starts_with("127.0.0.1:"), "{peer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_log_contains_a_secret_at_any_level() {
    const SECRET: &str = "5eed-of-a-secret";
    let root = secret();
    let (_place, server) = logged(&(bootstrap(&root) + "[log]\nfilter = \"debug\"\n"));
    let send = async |method: &str, path: &str, token: &str, body: &str| {
        let request = server.request(method, path).bearer_auth(token);
        let request = request.header("x-secret", SECRET).header("cookie", SECRET);
        request.body(body.to_owned()).send().await.expect("an answer").status().as_u16()
    };
    let scopes = json!({"put": ["*"], "pop": ["*"], "manage": ["*"], "admin": ["*"]});
    let all = json!({"name": "all", "scopes": scopes}).to_string();
    let request = server.request("POST", "/tokens").bearer_auth(&root).body(all);
    let created: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    let token = created["token"].as_str().expect("a token");
    let job = json!({"topic": "t", "id": "a", "body": {"password": SECRET}}).to_string();
    let (pop, error) = (format!("/topics/t/pop?token={SECRET}"), json!({"error": SECRET}));
    for (method, path, token, body, status) in [
        ("POST", "/jobs", token, &job[..], 201),
        ("POST", "/jobs", token, &job[..40], 400),
        ("POST", &pop, token, "", 422),
        ("POST", &pop, SECRET, "", 401),
        ("POST", "/topics/t/pop", token, "", 200),
        ("POST", "/jobs/a/bury", token, &error.to_string(), 200),
        ("DELETE", "/jobs/a", token, "", 200),
    ] {
        assert_eq!(send(method, path, token, body).await, status, "{method} {path}");
    }
    let log = server.stopped();
    // The log has lines of the level debug.
    assert!(log.contains("answered") && log.contains("a refused request"), "{log}");
    for secret in [SECRET, token, &root] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}
