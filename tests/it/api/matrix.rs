//! Every route with every scope, on an own topic, on another topic, and without a token. The
//! expected results are the table in docs/security.md.

use delay_queue::access::SecretToken;

use crate::api::prelude::*;

const TABLE: &str = include_str!("../../../docs/security.md");
const SCOPES: [&str; 7] = ["put", "pop", "cancel", "read", "manage", "push", "admin"];

struct Row {
    method: Method,
    path: &'static str,
    /// The route needs one of these scopes. Empty if it needs no scope.
    scopes: Vec<&'static str>,
    /// A scope that the route also needs for the topic.
    also: Option<&'static str>,
    /// Whether the route needs no token.
    is_open: bool,
    /// Results for the own topic, another topic, a token without the scope, and no token.
    expected: [&'static str; 4],
}

fn rows() -> Vec<Row> {
    let table = TABLE.lines().filter(|line| line.starts_with("| `") && line.contains(" /"));
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [route, scope, own, other, lacking, none] = cells[..] else { panic!("{line}") };
        let (method, path) = route.trim_matches('`').split_once(' ').expect("a route");
        let is_open = scope == "none";
        let (scope, also) =
            scope.split_once(" and ").map_or((scope, None), |(one, also)| (one, Some(also)));
        let also = also.map(|also| also.trim_matches('`'));
        let scopes = scope.split('`').filter(|word| SCOPES.contains(word)).collect();
        let method = method.parse().expect("a method");
        Row { method, path, scopes, also, is_open, expected: [own, other, lacking, none] }
    };
    table.map(row).collect()
}

/// Asserts that the table has each declared route with its declared scope.
fn assert_every_route_has_its_row(description: &Value) {
    let rows = rows();
    for (path, methods) in description["paths"].as_object().expect("paths") {
        let documented = path.replace("{topic}", "{t}");
        for (method, about) in methods.as_object().expect("methods") {
            let method = method.to_uppercase();
            let is_it = |row: &&Row| row.path == documented && row.method.as_str() == method;
            let row = rows.iter().find(is_it);
            let row = row.unwrap_or_else(|| panic!("docs/security.md lacks {method} {path}"));
            let alternatives = about["security"].as_array().expect("alternatives");
            let declared = alternatives.iter().filter_map(|one| one["token"][0].as_str());
            let declared: Vec<&str> = declared.collect();
            assert_eq!(row.scopes, declared, "left: docs/security.md, right: {method} {path}");
        }
    }
}

struct Matrix {
    server: Server,
    root: String,
    next: u32,
}

impl Matrix {
    async fn new(server: Server) -> Self {
        let every = Value::from_iter(SCOPES.map(|scope| (scope, json!(["*"]))));
        let root = server.token("", "root", every).await;
        Self { server, root, next: 0 }
    }

    async fn send(&self, token: &str, method: Method, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.server.call_as(token, method, path, body).await
    }

    async fn as_root(&self, method: Method, path: &str, body: Value) -> Value {
        let send = async || self.send(&self.root, method.clone(), path, body.clone()).await;
        let mut answer = send().await;
        // A store on a busy machine may not answer in time; then nothing was changed.
        for _ in 0..9 {
            if answer.status.is_success() || !answer.text.contains(r#""applied":"no""#) {
                break;
            }
            answer = send().await;
        }
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
        serde_json::from_str(&answer.text).unwrap_or_default()
    }

    async fn token(&self, name: &str, scopes: Value) -> String {
        self.server.token(&self.root, name, scopes).await
    }

    /// Puts and pops a job of this topic on which the route can act. Releases it if the route needs
    /// a job without a consumer. Returns its id and reservation.
    async fn job(&mut self, topic: &str, act: &str) -> (String, String) {
        self.next += 1;
        let id = format!("job-{}", self.next);
        self.as_root(Method::POST, "/jobs", json!({"topic": topic, "id": id, "ttr": 600})).await;
        if !["finish", "release", "touch", "bury"].contains(&act) {
            return (id, String::new());
        }
        let popped =
            self.as_root(Method::GET, &format!("/topics/{topic}/pop?count=100"), Value::Null).await;
        let jobs = popped["jobs"].as_array().expect("jobs");
        let own = jobs.iter().find(|job| job["id"] == *id).expect("the job is ready");
        (id, own["reservation"].as_str().expect("a reservation").to_owned())
    }

    /// Calls a route on a job, topic or token of this topic. Returns the result in the words of the
    /// table.
    async fn call(&mut self, row: &Row, token: &str, topic: &str) -> String {
        let act = row.path.rsplit('/').next().unwrap_or_default();
        let (mut path, mut body) = (row.path.replace("{t}", topic), Value::Null);
        let is_batch = path.starts_with("/batch/");
        if path.contains("{id}") || (is_batch && act != "jobs") {
            let (id, reservation) = self.job(topic, act).await;
            path = path.replace("{id}", &id);
            let mut job = json!({});
            if !reservation.is_empty() {
                job["reservation"] = reservation.into();
            }
            if act == "patch" {
                job["ttr"] = 60.into();
            }
            if is_batch {
                job["id"] = id.into();
                body = json!({"jobs": [job]});
            } else if row.method != Method::GET {
                body = job;
            }
        }
        if path.contains("/push") {
            let push = json!({"url": "https://hook.invalid/", "timeout": 1});
            self.as_root(Method::PUT, &format!("/topics/{topic}/push"), push.clone()).await;
            body = if row.method == Method::PUT { push } else { Value::Null };
        }
        if path.starts_with("/schedules/{name}") {
            path = path.replace("{name}", &format!("of-{topic}"));
            let schedule = json!({"topic": topic, "every": "1d"});
            self.as_root(Method::PUT, &format!("/schedules/of-{topic}"), schedule.clone()).await;
            body = if row.method == Method::PUT { schedule } else { Value::Null };
        }
        match (row.method.as_str(), row.path) {
            ("POST", "/schedules/preview") => body = json!({"every": "1d"}),
            ("POST", "/jobs") => body = json!({"topic": topic}),
            ("POST", "/batch/jobs") => body = json!({"jobs": [{"topic": topic}]}),
            ("PUT", "/topics/{t}") => body = json!({}),
            ("PATCH", _) => body = json!({"ttr": 60}),
            ("GET", "/topics/{t}/jobs") => path += "?state=ready",
            ("GET", "/topics/{t}/due") => path += DUE,
            ("POST", "/tokens") => {
                self.next += 1;
                body = json!({"name": format!("made-{}", self.next), "scopes": {"put": ["a"]}});
            }
            ("DELETE", "/tokens/{name}") => {
                self.next += 1;
                let name = format!("gone-{}", self.next);
                self.token(&name, json!({"put": ["a"]})).await;
                path = format!("/tokens/{name}");
            }
            _ => {}
        }
        let answer = self.send(token, row.method.clone(), &path, body).await;
        if answer.status.as_u16() == 200 && is_batch {
            return format!("{} each", answer.json()["results"][0]["status"]);
        }
        if answer.status == 200 && ["/schedules", "/topics"].contains(&row.path) {
            let schedule = json!({"topic": topic, "every": "1d"});
            self.as_root(Method::PUT, &format!("/schedules/of-{topic}"), schedule).await;
            self.job(topic, "").await;
            let path = format!("{}?limit=1000", row.path);
            let list = self.send(token, Method::GET, &path, Value::Null).await.json();
            let all = list[&row.path[1..]].as_array().expect("a list");
            let is_there = all.iter().any(|one| one["topic"] == *topic);
            return if is_there { "200" } else { "left out" }.to_owned();
        }
        match answer.status.as_u16() {
            401 => drop(answer.problem(401, "unauthenticated")),
            403 => {
                let problem = answer.problem(403, "forbidden");
                let detail = problem["detail"].as_str().expect("text");
                let named = |scope: &&str| detail.contains(&format!("`{scope}`"));
                let lacks = if row.also.iter().any(named) { row.also } else { None };
                assert!(lacks.is_some() || row.scopes.iter().all(named), "{detail}");
                let challenge = answer.headers["www-authenticate"].to_str().expect("text");
                let lacks = format!("scope=\"{}\"", lacks.unwrap_or(row.scopes[0]));
                assert!(challenge.contains(&lacks), "{challenge}");
            }
            404 if row.path.starts_with("/schedules") => {
                drop(answer.problem(404, "schedule_not_found"));
            }
            404 => drop(answer.problem(404, "job_not_found")),
            _ => {}
        }
        answer.status.as_u16().to_string()
    }
}

const DUE: &str = "?from=2030-01-01T00:00:00Z&until=2030-01-02T00:00:00Z&step=1h";

pub async fn every_route_answers_each_scope_as_the_table_says(server: Server) {
    let description = Server::send(server.request(Method::GET, "/openapi.json")).await;
    assert_every_route_has_its_row(&description.json());
    let mut matrix = Matrix::new(server).await;
    let mut tokens = Vec::new();
    for scope in SCOPES {
        let patterns = if scope == "admin" { "*" } else { "own.*" };
        tokens.push((scope, matrix.token(scope, json!({scope: [patterns]})).await));
    }
    let both = json!({"manage": ["own.*"], "put": ["own.*"]});
    let both = matrix.token("both", both).await;
    let wrong = SecretToken::generate().expect("randomness");
    let mut differ = Vec::new();
    for row in rows() {
        let mut compare = |what: String, found: String, expected: &str| {
            if found != expected {
                differ.push(format!(
                    "{} {} {what}: {found} instead of {expected}",
                    row.method, row.path
                ));
            }
        };
        for token in ["", wrong.reveal()] {
            let found = matrix.call(&row, token, "own.a").await;
            compare("without a token".to_owned(), found, row.expected[3]);
        }
        for (scope, token) in &tokens {
            let suffices = row.is_open || row.scopes.contains(scope);
            if let Some(also) = row.also.filter(|_| suffices) {
                assert_eq!((*scope, also), ("manage", "put"), "{}", row.path);
                let found = matrix.call(&row, token, "own.a").await;
                compare("by manage without put".to_owned(), found, row.expected[2]);
            }
            let token = if row.also.is_some() && suffices { &both } else { token };
            for (index, topic) in [(0, "own.a"), (1, "other")] {
                let expected = row.expected[if suffices { index } else { 2 }];
                let found = matrix.call(&row, token, topic).await;
                compare(format!("by {scope} on {topic}"), found, expected);
            }
        }
    }
    assert_eq!(differ, [""; 0], "results differ from docs/security.md");
}

pub async fn a_change_shows_no_body_to_a_token_that_may_not_read(server: Server) {
    let matrix = Matrix::new(server).await;
    let (body, headers) = (json!("secret"), json!({"a": "secret"}));
    let job = json!({"topic": "own", "id": "x", "body": body, "headers": headers, "delay": "1h"});
    matrix.as_root(Method::POST, "/jobs", job).await;
    let later = json!({"delay": "2h"});
    let batch = json!({"jobs": [{"id": "x", "delay": "2h"}]});
    // A token with the scope `cancel` may read the state of a job, and may change it.
    for (name, scopes, is_shown) in [
        ("canceller", json!({"cancel": ["own"], "read": ["other"]}), false),
        ("blind", json!({"manage": ["*"], "read": ["other"]}), false),
        ("reader", json!({"manage": ["*"], "read": ["own"]}), true),
    ] {
        let token = matrix.token(name, scopes).await;
        let mut answers = vec![
            matrix.send(&token, Method::PATCH, "/jobs/x", later.clone()).await.ok(200),
            matrix.send(&token, Method::POST, "/batch/patch", batch.clone()).await.results()[0]
                .clone(),
        ];
        if name == "canceller" {
            answers.push(matrix.send(&token, Method::GET, "/jobs/x", Value::Null).await.ok(200));
        }
        for shown in answers {
            assert_shows(&shown, json!({"id": "x", "state": "delayed", "error": null}));
            let expected = if is_shown { [Some(&body), Some(&headers)] } else { [None, None] };
            assert_eq!(["body", "headers"].map(|name| shown.get(name)), expected, "{shown}");
        }
    }
}

pub async fn an_id_of_a_forbidden_topic_reveals_and_changes_nothing(server: Server) {
    let matrix = Matrix::new(server).await;
    let put = |topic: &str, on_conflict: &str| {
        let job = json!({"topic": topic, "id": "x", "body": topic, "delay": "1h"});
        with(&job, json!({"on_conflict": on_conflict}))
    };
    matrix.as_root(Method::POST, "/jobs", put("other", "reject")).await;
    let writer = matrix.token("writer", json!({"put": ["own.*"], "read": ["own.*"]})).await;
    let mixed = matrix.token("mixed", json!({"put": ["own.*", "other"]})).await;
    let ask = async |token: &str, on_conflict: &str| {
        let answer = matrix.send(token, Method::POST, "/jobs", put("own.a", on_conflict)).await;
        answer.problem(409, "job_exists")
    };
    for on_conflict in ["reject", "keep", "replace"] {
        let told = ask(&writer, on_conflict).await;
        assert_shows(&told, json!({"state": null, "topic": null}));
        assert!(!told["detail"].as_str().expect("text").contains("other"), "{told}");
        assert_shows(&ask(&mixed, on_conflict).await, json!({"state": "delayed", "topic": null}));
        let batch = json!({"jobs": [put("own.a", on_conflict)]});
        let told = matrix.send(&writer, Method::POST, "/batch/jobs", batch).await.results();
        assert_shows(&told[0], json!({"status": 409, "state": null, "topic": null}));
    }
    assert_shows(&ask(&matrix.root, "reject").await, json!({"state": "delayed", "topic": "other"}));
    assert_eq!(matrix.as_root(Method::GET, "/jobs/x", Value::Null).await["body"], "other");
    // A pop of several topics needs the scope for each.
    let popper = matrix.token("popper", json!({"pop": ["own.*"]})).await;
    let both = matrix.send(&popper, Method::GET, "/topics/own.a,other/pop", Value::Null).await;
    both.problem(403, "forbidden");
    // A list contains no topic that the token may not read, and its cursor names none.
    for topic in ["own.a", "own.b", "zzz", "aaa"] {
        matrix.as_root(Method::POST, "/jobs", json!({"topic": topic})).await;
    }
    let (mut cursor, mut names) = (String::new(), Vec::new());
    loop {
        let path = format!("/topics?limit=1{cursor}");
        let page = matrix.send(&writer, Method::GET, &path, Value::Null).await.ok(200);
        let topics = page["topics"].as_array().expect("topics").iter();
        names.extend(topics.map(|one| one["topic"].as_str().expect("a name").to_owned()));
        let Some(next) = page["cursor"].as_str() else { break };
        assert!(next.starts_with("own."), "{next}");
        cursor = format!("&cursor={next}");
    }
    assert_eq!(names, ["own.a", "own.b"]);
}
