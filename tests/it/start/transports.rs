//! Promises of every transport: HTTP/1.1, also with TLS, HTTP/2, and a Unix socket. Other files
//! test properties that only one of them has.

use crate::start::prelude::*;

/// A running server, and the arguments with which curl reaches it.
struct Transport {
    name: &'static str,
    version: &'static str,
    place: WorkDir,
    server: Logged,
    curl: Vec<String>,
    url: String,
}

impl Transport {
    fn start(name: &'static str, settings: &str) -> Self {
        let place = WorkDir::new();
        let authority = Authority::new(&place, "ours");
        let tls = || https(&authority.sign(&place, "127.0.0.1"), "") + settings;
        let ca = ["--cacert", &authority.file];
        let (server, scheme, curl) = match name {
            "HTTP/1.1" => (Logged::start(&place, settings), "http", vec![]),
            "TLS" => (Logged::start(&place, &tls()), "https", [&ca[..], &["--http1.1"]].concat()),
            "HTTP/2" => (Logged::start(&place, &tls()), "https", [&ca[..], &["--http2"]].concat()),
            "Unix" => {
                let server = Logged::start_on(&place, "unix:dq.sock", settings);
                (server, "http", vec!["--unix-socket", "dq.sock"])
            }
            other => panic!("there is no transport {other}"),
        };
        let url = format!("{scheme}://{}", server.address());
        let version = if name == "HTTP/2" { "2" } else { "1.1" };
        let curl = curl.into_iter().map(str::to_owned).collect();
        Self { name, version, place, server, curl, url }
    }

    fn begin(&self, path: &str, arguments: &[&str]) -> Child {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-m", "60", "-w", "\n%{http_version} %{http_code}"]).args(&self.curl);
        curl.args(arguments).arg(format!("{}{path}", self.url)).current_dir(self.place.path());
        curl.stdout(Stdio::piped()).spawn().expect("curl runs")
    }

    /// Returns the status and the text of an answer.
    #[track_caller]
    fn end(&self, curl: Child) -> (u16, String) {
        let output = curl.wait_with_output().expect("its output");
        let said = text(&output.stdout);
        let (body, last) = said.rsplit_once('\n').expect("two lines");
        let (version, status) = last.split_once(' ').expect("two words");
        assert_eq!(version, self.version, "{}: {said} {:?}", self.name, output.status);
        (status.parse().expect("a status"), body.to_owned())
    }

    #[track_caller]
    fn ask(&self, status: u16, path: &str, arguments: &[&str]) -> Value {
        let (given, body) = self.end(self.begin(path, arguments));
        assert_eq!(given, status, "{}: {path}: {body}", self.name);
        serde_json::from_str(&body).unwrap_or_default()
    }

    fn put(&self, job: &Value) -> Value {
        let file = self.place.file("put.json", &job.to_string());
        self.ask(201, "/jobs", &["-d", &format!("@{file}")])
    }

    fn until_pops_wait(&self, count: usize) {
        let waiting = || waiting_pops(&self.end(self.begin("/metrics", &[])).1);
        eventually_blocking!(waiting() == count, "{}: {} pops wait", self.name, waiting());
    }

    fn jobs_pass_whole(&self) {
        let body = "x".repeat(200_000);
        let put = self.put(&json!({"topic": "t", "body": body}));
        let popped = self.ask(200, "/topics/t/pop", &[])["jobs"][0].clone();
        assert_eq!((&popped["id"], &popped["body"]), (&put["id"], &json!(body)), "{}", self.name);
        let word = |field: &str| popped[field].as_str().expect("text");
        let finish = format!("/jobs/{}/finish?reservation={}", word("id"), word("reservation"));
        self.ask(204, &finish, &["-X", "POST"]);
        assert_eq!(self.ask(404, "/nowhere", &[])["code"], "route_not_found", "{}", self.name);
    }

    fn a_consumer_that_leaves_gets_no_job(&self) {
        let mut consumer = self.begin("/topics/left/pop?wait=60s", &[]);
        self.until_pops_wait(1);
        consumer.kill().expect("it runs");
        consumer.wait().expect("it was killed");
        self.until_pops_wait(0);
        self.put(&json!({"topic": "left", "max_attempts": 1}));
        let popped = self.ask(200, "/topics/left/pop?wait=5s", &[]);
        assert_eq!(popped["jobs"][0]["attempt"], 1, "{}: {popped}", self.name);
    }

    fn a_head_over_the_limit_is_refused(&self) {
        let large = format!("A: {}", "x".repeat(9_000));
        let (status, body) = self.end(self.begin("/healthz", &["-H", &large]));
        assert_eq!(status, 431, "{}: {body}", self.name);
        // An answer of the HTTP/2 protocol itself has no body.
        assert!(self.version == "2" || body.contains("headers_too_large"), "{}", self.name);
    }

    fn a_stop_answers_pops_that_wait(self) {
        let waiting: Vec<_> = (0..8).map(|_| self.begin("/topics/t/pop?wait=50s", &[])).collect();
        self.until_pops_wait(8);
        self.server.signal("-TERM");
        for pop in waiting {
            assert_eq!(self.end(pop), (200, "{\"jobs\":[]}\n".to_owned()), "{}", self.name);
        }
        assert_eq!(self.server.ended().0, Some(0), "{}", self.name);
    }
}

#[test]
fn each_transport_keeps_the_same_promises() {
    let transports = ["HTTP/1.1", "TLS", "HTTP/2", "Unix"].map(|name| {
        thread::spawn(move || {
            let transport = Transport::start(name, "[limits]\nheader_bytes = 8192\n");
            transport.jobs_pass_whole();
            transport.a_consumer_that_leaves_gets_no_job();
            transport.a_head_over_the_limit_is_refused();
            transport.a_stop_answers_pops_that_wait();
        })
    });
    for transport in transports {
        transport.join().expect("the promises hold");
    }
}
