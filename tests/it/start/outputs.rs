//! Runs the program and checks its output: one clear line for an error, without a password.

use std::{ffi::OsStr, sync::mpsc};

use crate::start::prelude::*;

/// Temporary folder in which the program runs, with settings files.
#[derive(Clone)]
pub struct WorkDir(Arc<TempDir>);

impl WorkDir {
    pub fn new() -> Self {
        Self(Arc::new(tempfile::tempdir().expect("a temporary folder")))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let file = self.path().join(name);
        fs::write(&file, text).expect("written");
        file.display().to_string()
    }

    /// Starts a server with these settings, and waits until it is ready.
    pub async fn server(&self, settings: &str) -> Process {
        let file = self.file("server.toml", settings);
        Process::start(self.path(), &["--config", &file]).await
    }

    /// Runs the program to its end with these settings and environment variables, without waiting
    /// for an unavailable store.
    pub fn run(&self, settings: &str, with: &[(&str, &str)], arguments: &[&str]) -> Output {
        let file = self.file("settings.toml", settings);
        let listen = format!("127.0.0.1:{}", free_port());
        let mut all = vec!["--config", file.as_str(), "--listen", listen.as_str()];
        all.extend(arguments);
        let mut command = program(self.path(), &all);
        command.env("DELAY_QUEUE__STORE__CONNECT_TIMEOUT", "0");
        command.envs(with.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("the program runs");
        let pid = child.id();
        let (send, ended) = mpsc::channel();
        thread::spawn(move || send.send(child.wait_with_output()));
        // With a timeout, a server that starts although it should refuse fails its test instead of
        // blocking it.
        let output = ended.recv_timeout(scaled(Duration::from_secs(20))).unwrap_or_else(|_| {
            send_signal(pid, "-TERM");
            ended.recv().expect("the program ends")
        });
        output.expect("its output")
    }

    /// Runs a command without settings, which must succeed with all of `words` in its output.
    /// Returns the output.
    #[track_caller]
    pub fn assert_succeeds(&self, arguments: &[&str], words: &[&str]) -> String {
        let output = output(self.path(), arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        let is_complete = words.iter().all(|word| said.contains(word));
        assert!(output.status.success() && is_complete, "{words:?} by {arguments:?}: {said}");
        said
    }

    /// Runs a command without settings, which must fail with all of `words` in its output. Returns
    /// the output.
    #[track_caller]
    pub fn assert_fails(&self, arguments: &[&str], words: &[&str]) -> String {
        let output = output(self.path(), arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} by {arguments:?}: {said}");
        said
    }

    /// Repairs the store of these settings. Returns what the doctor prints.
    #[track_caller]
    pub fn repair(&self, settings: &str) -> String {
        let output = self.run(settings, &[], &["doctor", "--repair"]);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        said
    }

    /// Starts a server, which must refuse with one line that contains all of `words`. Returns the
    /// line.
    #[track_caller]
    pub fn refused(&self, settings: &str, words: &[&str]) -> String {
        let output = self.run(settings, &[], &[]);
        one_line(&output, words)
    }

    /// Runs the doctor, which must report a problem with all of `words`.
    #[track_caller]
    pub fn assert_problem(&self, settings: &str, words: &[&str]) -> String {
        let output = self.run(settings, &[], &["doctor"]);
        one_line(&output, &["to repair (see above)"]);
        let said = text(&output.stdout);
        let mend = |line: &str| {
            line.starts_with("to repair ") && words.iter().all(|word| line.contains(word))
        };
        assert!(said.lines().any(mend), "{words:?} not in {said}");
        said
    }

    /// Asserts that a server refuses these settings, and that the doctor reports them, both with
    /// all of `words`.
    #[track_caller]
    pub fn assert_unfit(&self, settings: &str, words: &[&str]) {
        self.refused(settings, words);
        self.assert_problem(settings, words);
    }

    /// Runs the doctor, which must find no problem and print all of `words`. Returns its output.
    #[track_caller]
    pub fn assert_healthy(&self, settings: &str, words: &[&str]) -> String {
        let output = self.run(settings, &[], &["doctor"]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        for word in [words, &["to repair   nothing"]].concat() {
            assert!(said.contains(word), "no {word:?} in {said}");
        }
        said
    }
}

/// Asserts a failure with one line that begins with the program's name and contains all of `words`.
/// Returns the line.
#[track_caller]
pub fn one_line(output: &Output, words: &[&str]) -> String {
    fails(output, 1, words)
}

/// Does the same for a failure with this exit code.
#[track_caller]
pub fn fails(output: &Output, code: i32, words: &[&str]) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.starts_with("delay-queue: ") && said.lines().count() == 1, "{said}");
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in {said:?}");
    }
    said
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
pub fn assert_empty(redis: &Redis) {
    assert_eq!(redis.command("KEYS *").as_deref(), Some("*0\r\n"), "a key was written");
}

/// Returns `[store]` with this URL and additional lines.
pub fn store(url: &str, more: &str) -> String {
    format!("[store]\nurl = \"{url}\"\n{more}\n")
}

/// Returns a new access token.
pub fn secret() -> String {
    SecretToken::generate().expect("randomness").reveal().to_owned()
}

/// Returns `[server]` with this bootstrap token.
pub fn bootstrap(token: &str) -> String {
    format!("[server]\nbootstrap_token = \"{token}\"\n")
}

/// Starts a server with these settings in a new folder, and waits until it is ready.
pub async fn started(settings: &str) -> (WorkDir, Process) {
    let place = WorkDir::new();
    let server = place.server(settings).await;
    (place, server)
}

/// Starts a server with these settings in a new folder, and waits until it answers.
pub fn logged(settings: &str) -> (WorkDir, Logged) {
    let place = WorkDir::new();
    let server = Logged::start(&place, settings);
    (place, server)
}

/// A running server whose log the test reads.
pub struct Logged {
    pub base: String,
    child: Killed,
    log: PathBuf,
}

impl Logged {
    /// Starts a server, and waits until it answers.
    pub fn start(place: &WorkDir, settings: &str) -> Self {
        Self::start_on(place, "127.0.0.1", settings)
    }

    /// Starts a server that listens on this host or Unix socket, and waits until it answers.
    pub fn start_on(place: &WorkDir, host: &str, settings: &str) -> Self {
        let logged = Self::spawn(place, host, settings, &[]);
        logged.wait_for("serving");
        logged
    }

    pub fn begin(place: &WorkDir, settings: &str) -> Self {
        Self::spawn(place, "127.0.0.1", settings, &[])
    }

    /// Starts a server with the command `wrapper`, and waits until it answers.
    pub fn within(place: &WorkDir, settings: &str, wrapper: &[&str]) -> Self {
        let logged = Self::spawn(place, "127.0.0.1", settings, wrapper);
        logged.wait_for("serving");
        logged
    }

    fn spawn(place: &WorkDir, host: &str, settings: &str, wrapper: &[&str]) -> Self {
        let (log, file) = (place.path().join("log"), place.file("logged.toml", settings));
        let port = free_port();
        let is_socket = host.starts_with("unix:");
        let listen = if is_socket { host.to_owned() } else { format!("{host}:{port}") };
        let stderr = fs::File::create(&log).expect("a file");
        let plain = program(place.path(), &["--config", &file, "--listen", &listen]);
        let mut command = Command::new(wrapper.first().map_or(plain.get_program(), OsStr::new));
        if let Some(rest) = wrapper.get(1..) {
            command.args(rest).arg(plain.get_program());
        }
        command.args(plain.get_args()).current_dir(place.path());
        let child = command.stderr(Stdio::from(stderr)).spawn().expect("the program runs");
        Self { base: format!("http://127.0.0.1:{port}"), child: Killed(child), log }
    }

    pub fn signal(&self, signal: &str) {
        send_signal(self.id(), signal);
    }

    /// Waits for the end of the server. Returns the exit code and the log.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let said = || fs::read_to_string(&self.log).expect("text");
        let mut status;
        eventually_blocking!(
            {
                status = self.child.0.try_wait().expect("the process is ours");
                status.is_some()
            },
            "the server does not end: {}",
            said()
        );
        (status.and_then(|status| status.code()), said())
    }

    /// Stops the server by SIGTERM. Returns the log.
    pub fn stopped(self) -> String {
        self.signal("-TERM");
        let (code, said) = self.ended();
        assert_eq!(code, Some(0), "{said}");
        said
    }

    /// Returns the address of the server, as in `--listen`.
    pub fn address(&self) -> String {
        self.base.trim_start_matches("http://").to_owned()
    }

    /// Sends a GET, perhaps with an access token.
    pub async fn get(&self, path: &str, token: Option<&str>) -> reqwest::Response {
        let request = self.request("GET", path);
        let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
        request.send().await.expect("an answer")
    }

    /// Begins a request to the server.
    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().expect("a method");
        crate::support::http::client().request(method, format!("{}{path}", self.base))
    }

    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Waits until the log contains this word. Returns the log.
    pub fn wait_for(&self, word: &str) -> String {
        self.wait_until(word, |said| said.contains(word))
    }

    /// Waits until `holds` returns true for the log. Returns the log.
    pub fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let said = || fs::read_to_string(&self.log).expect("text");
        eventually_blocking!(holds(&said()), "the log has no {what:?}: {}", said());
        said()
    }
}
