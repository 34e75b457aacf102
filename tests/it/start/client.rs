//! The commands of a client: each once against a real server, its output in a pipe and its exit
//! code.

use crate::start::commands::certificate;
use crate::start::prelude::*;

/// Commands against a server.
pub struct Shell {
    pub place: WorkDir,
    pub variables: Vec<(&'static str, String)>,
}

impl Shell {
    /// Returns a shell in a new folder.
    pub fn new(url: &str) -> Self {
        Self { place: WorkDir::new(), variables: vec![("DELAY_QUEUE_URL", url.to_owned())] }
    }

    /// Starts a server, and returns it with a shell in its folder.
    pub fn served(settings: &str) -> (Logged, Self) {
        let (place, server) = logged(settings);
        let variables = vec![("DELAY_QUEUE_URL", server.base.clone())];
        (server, Self { place, variables })
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(self.place.path(), arguments);
        // A client does not check the settings of a server.
        command.env("DELAY_QUEUE__NOT_A_SETTING", "1").envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Output {
        let child = self.command(arguments).stdin(Stdio::piped()).spawn();
        let mut child = child.expect("the program runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("written");
        drop(stdin);
        child.wait_with_output().expect("its output")
    }

    /// Runs a command that must succeed silently. Returns its lines of JSON.
    #[track_caller]
    pub fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        lines(&self.run(arguments))
    }

    #[track_caller]
    pub fn one(&self, arguments: &[&str]) -> Value {
        let lines = self.lines(arguments);
        assert_eq!(lines.len(), 1, "{arguments:?}: {lines:?}");
        lines.into_iter().next().expect("one line")
    }

    /// Runs a command that must fail with this exit code and one line with all of `words`.
    #[track_caller]
    pub fn fails(&self, arguments: &[&str], code: i32, words: &[&str]) {
        fails(&self.run(arguments), code, words);
    }
}

#[track_caller]
pub fn lines(output: &Output) -> Vec<Value> {
    let said = text(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let printed = text(&output.stdout);
    printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Runs each command once.
fn use_all(shell: &Shell) {
    let rules = ["--ttr", "90s", "--max-attempts", "5", "--backoff", "2m,10m", "--priority", "7"];
    let more = ["--expires-after", "2d", "--finished-retention", "1h", "--header", "x=a=b"];
    let put = ["put", "t", r#"{"n": 12345678901234567890123}"#, "--id", "a", "--delay", "1h"];
    let put = [&put[..], &rules, &more].concat();
    assert_eq!(shell.one(&put)["state"], "delayed");
    shell.fails(&put, 1, &["409 job_exists"]);
    assert_eq!(shell.one(&[&put[..], &["--on-conflict", "keep"]].concat())["state"], "delayed");
    let shown = shell.run(&["get", "a"]);
    assert!(text(&shown.stdout).contains(r#""body":{"n":12345678901234567890123}"#), "{shown:?}");
    let shown = &lines(&shown)[0];
    let fields = ["ttr", "max_attempts", "backoff", "priority", "headers"];
    let fields = fields.map(|field| shown[field].clone());
    assert_eq!(json!(fields), json!([90, 5, [120, 600], 7, {"x": "a=b"}]));
    assert!(shown["expires_at"].is_string(), "{shown}");
    let listed = shell.lines(&["list", "t", "--state", "delayed", "--id-contains", "a"]);
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &json!("a")));

    let nothing = shell.run(&["pop", "t", "--wait", "1ms"]);
    assert_eq!(nothing.status.code(), Some(3), "{nothing:?}");
    assert!(nothing.stdout.is_empty() && nothing.stderr.is_empty(), "{nothing:?}");
    assert_eq!(shell.one(&["kick", "a"])["state"], "ready");
    let pop = ["pop", "s", "t", "--count", "2", "--ttr", "30", "--consumer", "me", "--wait", "5s"];
    let popped = shell.one(&pop);
    let held = ["a", "--reservation", popped["reservation"].as_str().expect("text")];
    let end = |command: &'static str, more: &[&'static str]| [&[command], &held[..], more].concat();
    assert!(shell.one(&end("touch", &["--ttr", "1m"]))["reserved_until"].is_string());
    let release = end("release", &["--uncounted", "--delay", "0", "--error", "early"]);
    assert_eq!(shell.one(&release)["state"], "ready");
    shell.fails(&end("finish", &[]), 1, &["reservation_lost"]);
    shell.one(&["pop", "t"]);
    assert_eq!(shell.one(&["bury", "a", "--error", "no shop"])["state"], "dead");
    let counted = json!({"error": "no shop", "count": 1, "example": "a"});
    assert_eq!(shell.one(&["errors", "t"]), counted);
    let kick = ["kick", "--topic", "t", "--error-contains", "shop"];
    shell.fails(&kick, 2, &["--yes"]);
    let counted = shell.one(&[&kick[..], &["--dry-run"]].concat());
    assert_eq!(counted, json!({"kicked": 1, "more": false, "dry_run": true}));
    assert_eq!(shell.one(&[&kick[..], &["--yes"]].concat())["kicked"], 1);
    shell.one(&["pop", "t"]);
    assert!(shell.lines(&["finish", "a", "--result", "[1, 2]"]).is_empty());
    assert_eq!(shell.one(&["get", "a", "--wait", "30s"])["result"], json!([1, 2]));
    assert_eq!(shell.one(&["get", "a", "--watch"])["state"], "finished");
    assert_eq!(shell.one(&["delete", "a", "--state", "finished"])["state"], "finished");
    shell.fails(&["get", "a"], 1, &["404 job_not_found"]);

    let set = ["topic", "t", "set", "--ttr", "5m", "--dead-to", "graves"];
    assert_eq!(shell.one(&set)["defaults"]["ttr"], 300);
    let set = shell.one(&["topic", "t", "set", "--backoff", "1s", "--unset", "ttr"]);
    assert_eq!(set["defaults"]["ttr"], Value::Null);
    assert_eq!(set["defaults"]["dead_to"], "graves");
    assert_eq!(shell.one(&["topics", "--prefix", "t"])["topic"], "t");
    assert!(shell.one(&["pause", "t", "--for", "10m"])["paused_until"].is_string());
    assert_eq!(shell.one(&["topic", "t"])["paused"], true);
    assert_eq!(shell.one(&["resume", "t"])["paused"], false);

    let push = ["push", "set", "p", "https://shop.example", "--batch-max", "5"];
    assert_eq!(shell.one(&push)["batch"]["max"], 5);
    assert_eq!(shell.one(&["push", "pause", "p"])["state"], "paused");
    assert_eq!(shell.one(&["push", "get", "p"])["state"], "paused");
    shell.one(&["push", "resume", "p"]);
    shell.one(&["push", "test", "p"]);
    assert!(shell.lines(&["push", "delete", "p"]).is_empty());

    for id in ["d1", "d2", "d3"] {
        shell.one(&["put", "late", "--id", id, "--delay", "1h"]);
    }
    let kick = ["kick", "--topic", "late", "--state", "delayed", "--limit", "2", "--yes"];
    assert_eq!(shell.one(&kick), json!({"kicked": 2, "more": true}));

    shell.one(&["put", "t"]);
    let counted = shell.one(&["purge", "t", "--dry-run"]);
    assert_eq!(counted, json!({"purged": 1, "more": false, "dry_run": true}));
    shell.fails(&["purge", "t"], 2, &["--yes"]);
    assert_eq!(shell.one(&["purge", "t", "--state", "ready", "--yes"])["purged"], 1);
}

/// Uses each command on a server of its own. With TLS, the server has a certificate as plain
/// `openssl req -x509` makes it.
fn use_all_on(redis: Option<&Redis>, needs_token: bool, is_tls: bool) {
    let (place, root) = (WorkDir::new(), secret());
    let mut settings = if needs_token { bootstrap(&root) } else { String::new() };
    let mut shell = Shell { place: place.clone(), variables: Vec::new() };
    if is_tls {
        let (cert, key) = certificate(&place, "usual", &["-addext", "subjectAltName=IP:127.0.0.1"]);
        shell.variables.push(("DELAY_QUEUE_CA_FILE", cert.clone()));
        settings += &https(&Files { cert, key }, "");
    }
    if let Some(redis) = redis {
        settings += &store(&redis.url(), "");
    }
    let (_place, server) = logged(&settings);
    let url = if is_tls { server.base.replace("http:", "https:") } else { server.base.clone() };
    shell.variables.push(("DELAY_QUEUE_URL", url));
    if is_tls {
        // The file of authorities is of no use over HTTP, and does not prevent it.
        shell.fails(&["topics", "--url", &server.base], 1, &["requires TLS", "https://"]);
    }
    if needs_token {
        shell.fails(&["topics"], 5, &["401 unauthenticated", "DELAY_QUEUE_TOKEN"]);
        let scopes = ["admin", "put=*", "pop=*", "read=*", "manage=*", "push=*"];
        let scopes = scopes.iter().flat_map(|scope| ["--scope", scope]);
        let create = ["token", "create", "--name", "all", "--token", &root];
        let create: Vec<&str> = create.into_iter().chain(scopes).collect();
        let created = shell.run(&create);
        shell.variables.push(("DELAY_QUEUE_TOKEN", text(&created.stdout).trim().to_owned()));
        assert_eq!(shell.one(&["token", "list"])["name"], "all");
        shell.fails(&["topics", "--token", &secret()], 5, &["401 unauthenticated"]);
    }
    use_all(&shell);
}

#[test]
fn each_command_works_on_each_store_with_tokens_and_tls() {
    let redis: [Redis; 4] = std::array::from_fn(|_| Redis::start());
    thread::scope(|scope| {
        for (number, redis) in redis.iter().enumerate() {
            let (needs_token, is_tls) = (number % 2 == 1, number >= 2);
            for redis in [None, Some(redis)] {
                scope.spawn(move || use_all_on(redis, needs_token, is_tls));
            }
        }
    });
}

#[test]
fn the_body_comes_from_an_argument_a_file_or_standard_input() {
    let (_server, shell) = Shell::served("");
    let file = shell.place.file("body.json", "[1]\n");
    lines(&shell.run_with_input(&["put", "t", "-", "--id", "stdin"], "[2]\n"));
    for (id, arguments, body) in [
        ("none", &["put", "t"][..], Value::Null),
        ("argument", &["put", "t", "-3"], json!(-3)),
        ("file", &["put", "t", "--body-file", &file], json!([1])),
    ] {
        shell.one(&[arguments, &["--id", id]].concat());
        assert_eq!(shell.one(&["get", id])["body"], body);
    }
    assert_eq!(shell.one(&["get", "stdin"])["body"], json!([2]));
    let at = ["put", "t", "--id", "at", "--at", "2027-12-24 18:00 Europe/Berlin"];
    assert_eq!(shell.one(&at)["due_at"], "2027-12-24T17:00:00.000Z");
}

#[test]
fn lines_are_put_in_batches_and_refusals_name_their_line() {
    let (_server, shell) = Shell::served("");
    let many: String =
        (0..2_500).map(|n| format!("{{\"topic\":\"m\",\"id\":\"{n}\"}}\n")).collect();
    assert_eq!(lines(&shell.run_with_input(&["put", "--jsonl", "-"], &many)).len(), 2_500);
    assert_eq!(shell.one(&["topic", "m"])["ready"], 2_500);
    assert_eq!(shell.lines(&["list", "m", "--state", "ready", "--limit", "1500"]).len(), 1_500);
    let odd = concat!(
        "{\"topic\":\"o\",\"id\":\"a\"}\n\n{\"topic\":\"o\",\"delay\":-1}\n{\"topic\":\"o\",\"id\":\"a\"}\n",
        "no JSON\n{\"topic\":\"o\",\"id\":\"b\"}\n",
    );
    let file = shell.place.file("odd.jsonl", odd);
    shell.fails(&["put", "--jsonl", &file], 1, &["line 3", "`delay`", "were put: 1"]);
    let output = shell.run(&["put", "--jsonl", &file, "--keep-going"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for word in ["line 3: ", "line 4: ", "job_exists", "line 5: is not JSON", "were put: 1"] {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
    assert_eq!(text(&output.stdout).lines().count(), 1);
    shell.fails(&["put", "t", "--jsonl", &file], 2, &["--jsonl reads whole jobs"]);
}

#[test]
fn batches_that_are_too_large_are_halved() {
    let limits = "[limits]\nmax_body_bytes = 4000\nrequest_bytes = 8200\n";
    let (_server, shell) = Shell::served(limits);
    let line = |n: u32| {
        let text = "x".repeat(if n == 3 { 9_000 } else { 900 });
        format!("{{\"topic\":\"m\",\"id\":\"{n}\",\"body\":\"{text}\"}}\n")
    };
    let lines: String = (1..=40).map(line).collect();
    let output = shell.run_with_input(&["put", "--jsonl", "-", "--keep-going"], &lines);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("line 3: ") && said.contains("413 body_too_large"), "{said}");
    assert_eq!(shell.one(&["topic", "m"])["ready"], 39, "{said}");
}

#[test]
fn an_output_that_cannot_be_written_is_a_failure() {
    let (_server, shell) = Shell::served("");
    let full = fs::File::options().write(true).open("/dev/full").expect("a full device");
    let output = shell.command(&["put", "t"]).stdout(full).output().expect("runs");
    fails(&output, 1, &["failed to write to standard output", "space"]);
}

#[test]
fn the_form_of_the_output_can_be_chosen() {
    let (_server, shell) = Shell::served("");
    for id in ["a", "b"] {
        shell.one(&["put", "t", "{ \"x\" : 1 }", "--id", id, "--output", "json"]);
    }
    let list = ["list", "t", "--state", "ready", "-o"];
    let listed = shell.run(&[&list[..], &["json"]].concat());
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).expect("a list");
    assert_eq!(listed.len(), 2);
    let table = text(&shell.run(&[&list[..], &["table"]].concat()).stdout);
    assert!(table.starts_with("ID  STATE") && table.lines().count() == 3, "{table}");
    assert!(!table.contains('\x1b'), "{table}");
}
