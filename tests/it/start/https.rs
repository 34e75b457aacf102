//! TLS to clients: versions, client certificates, and new certificates while the server runs.

use rcgen::date_time_ymd;

use crate::start::connections::{HEALTH, ask};
use crate::start::prelude::*;

/// Returns `[server.tls]` with these files and additional lines.
pub fn https(files: &Files, more: &str) -> String {
    format!("[server.tls]\n{}{more}\n", files.settings())
}

/// A running server with a certificate of its own authority.
pub struct Https {
    pub place: WorkDir,
    pub authority: Authority,
    pub server: Logged,
    pub curl: Curl,
}

impl Https {
    pub fn start(settings: &str) -> Self {
        Self::start_in(&WorkDir::new(), settings)
    }

    pub fn start_in(place: &WorkDir, settings: &str) -> Self {
        let authority = Authority::new(place, "ours");
        let server = Logged::start(place, &https(&authority.sign(place, "127.0.0.1"), settings));
        let curl = Curl::new(&server, &authority);
        Self { place: place.clone(), authority, server, curl }
    }
}

/// Runs curl against an HTTPS server.
pub struct Curl {
    url: String,
    ca: String,
}

impl Curl {
    pub fn new(server: &Logged, authority: &Authority) -> Self {
        Self { url: format!("https://{}", server.address()), ca: authority.file.clone() }
    }

    pub fn run(&self, path: &str, arguments: &[&str]) -> Output {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-m", "30", "--cacert", &self.ca, "-w", "\n%{http_version} %{http_code}"]);
        curl.args(arguments).arg(format!("{}{path}", self.url)).output().expect("curl runs")
    }

    /// Returns the version of HTTP with the status, and the body.
    #[track_caller]
    pub fn get(&self, path: &str, arguments: &[&str]) -> (String, Value) {
        let output = self.run(path, arguments);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{path} {arguments:?}: {said} {:?}", output.status);
        let (body, last) = said.rsplit_once('\n').expect("two lines");
        (last.to_owned(), serde_json::from_str(body).unwrap_or_default())
    }

    /// Returns whether the server has refused TLS.
    fn is_refused(&self, arguments: &[&str]) -> bool {
        // Exit codes of curl: 35 for a failed handshake, 55 and 56 for an alert instead of the
        // answer.
        let code = self.run("/healthz", arguments).status.code();
        assert!([Some(0), Some(35), Some(55), Some(56)].contains(&code), "{code:?}");
        code != Some(0)
    }
}

#[test]
fn plain_http_is_refused_and_health_speaks_tls() {
    let Https { place, server, .. } = &Https::start("");
    let plain = ask(&server.address(), HEALTH).expect("an answer");
    assert_eq!(plain.status, 400);
    assert!(plain.json()["detail"].as_str().expect("text").contains("https://"), "{}", plain.head);
    let health = health(place, server);
    assert_eq!((health.status.code(), text(&health.stderr)), (Some(0), String::new()));
}

/// Runs `delay-queue health` with the settings of a server.
fn health(place: &WorkDir, server: &Logged) -> Output {
    let file = place.path().join("logged.toml").display().to_string();
    output(place.path(), &["--config", &file, "--listen", &server.address(), "health"])
}

/// Returns whether openssl's handshake with the server succeeds, and its output.
fn handshake(server: &Logged, arguments: &[&str]) -> (bool, String) {
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-connect", &server.address(), "-brief"]).args(arguments);
    let output = openssl.stdin(std::process::Stdio::null()).output().expect("openssl runs");
    let said = text(&output.stdout) + &text(&output.stderr);
    (said.contains("CONNECTION ESTABLISHED"), said)
}

#[test]
fn only_tls_1_2_and_1_3_with_secure_suites_are_accepted() {
    let Https { server, .. } = &Https::start("");
    const ALL: &str = "ALL:eNULL:@SECLEVEL=0";
    for (version, is_spoken) in
        [("-tls1_2", true), ("-tls1_3", true), ("-tls1", false), ("-tls1_1", false)]
    {
        let (spoken, said) = handshake(server, &[version, "-cipher", ALL]);
        assert_eq!(spoken, is_spoken, "{version}: {said}");
    }
    let suites = Command::new("openssl").args(["ciphers", "-tls1_2", ALL]).output();
    let suites = text(&suites.expect("openssl runs").stdout);
    let suites: Vec<&str> = suites.trim().split(':').filter(|s| !s.starts_with("TLS_")).collect();
    assert!(suites.len() > 50, "{suites:?}");
    let taken: Vec<&str> = suites
        .into_iter()
        .filter(|suite| {
            let cipher = format!("{suite}:@SECLEVEL=0");
            handshake(server, &["-tls1_2", "-cipher", &cipher]).0
        })
        .collect();
    let ends = ["-GCM-SHA256", "-GCM-SHA384", "-CHACHA20-POLY1305"];
    let is_sound =
        |suite: &&str| suite.starts_with("ECDHE-") && ends.iter().any(|end| suite.ends_with(end));
    assert!(!taken.is_empty() && taken.iter().all(is_sound), "{taken:?}");
    let (_, said) = handshake(server, &["-tls1_2"]);
    assert!(said.contains("Signature type: ECDSA"), "{said}");
    let (_, said) = handshake(server, &["-tls1_3", "-groups", "X25519"]);
    assert!(said.contains("X25519"), "{said}");
}

#[test]
fn client_certificates_of_other_authorities_are_refused() {
    let place = WorkDir::new();
    let (ours, others) = (Authority::new(&place, "ours"), Authority::new(&place, "others"));
    let client_ca = format!("client_ca_file = \"{}\"", ours.file);
    let server = Logged::start(&place, &https(&others.sign(&place, "127.0.0.1"), &client_ca));
    let curl = Curl::new(&server, &others);
    let (known, unknown) = (ours.sign(&place, "client"), others.sign(&place, "client"));
    for flag in ["--http1.1", "--http2"] {
        for (files, is_refused) in [(&known, false), (&unknown, true)] {
            let shown = [flag, "--cert", &files.cert, "--key", &files.key];
            assert_eq!(curl.is_refused(&shown), is_refused, "{shown:?}");
        }
        assert!(curl.is_refused(&[flag]));
    }
    assert_eq!(health(&place, &server).status.code(), Some(0), "the server does not run");
}

#[test]
fn unusable_tls_files_are_refused_with_their_setting() {
    let place = WorkDir::new();
    let authority = Authority::new(&place, "ours");
    let (one, other) = (authority.sign(&place, "127.0.0.1"), authority.sign(&place, "127.0.0.1"));
    let dated = |from: i32, until: i32| {
        authority.sign_with(&place, "127.0.0.1", |params: &mut CertificateParams| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
        })
    };
    let no_pem = place.file("no.pem", "nothing\n");
    let pair = |cert: &str, key: &str| {
        format!("[server.tls]\ncert_file = \"{cert}\"\nkey_file = \"{key}\"\n")
    };
    let client_ca = |file: &str| https(&one, &format!("client_ca_file = \"{file}\""));
    let (expired, early) = (dated(2001, 2002), dated(2400, 2401));
    let alone = |key: &str| format!("[server.tls]\n{key} = \"{}\"\n", one.cert);
    let (cert, key) = ("server.tls.cert_file", "server.tls.key_file");
    for (settings, words) in [
        (pair(&one.cert, &other.key), [key, cert, &other.key]),
        (https(&expired, ""), [cert, "has expired", &expired.cert]),
        (https(&early, ""), [cert, "not valid yet", &early.cert]),
        (pair("nowhere.pem", &one.key), [cert, "nowhere.pem", ""]),
        (pair(&one.cert, "nowhere.key"), [key, "nowhere.key", ""]),
        (pair(&no_pem, &one.key), [cert, "no.pem", ""]),
        (pair(&one.cert, &no_pem), [key, "no.pem", ""]),
        (client_ca(&no_pem), ["server.tls.client_ca_file", "no.pem", ""]),
        (alone("cert_file"), [key, "set together with", cert]),
        (alone("client_ca_file"), ["server.tls.client_ca_file", "", ""]),
    ] {
        place.refused(&settings, &words);
    }
}

/// Requests `/healthz` on new connections until `stop` is set. Counts the requests in `asked`.
/// Returns the errors.
fn ask_on(curl: &Curl, flag: &str, stop: &AtomicBool, asked: &AtomicUsize) -> Vec<String> {
    let (mut wrong, end) = (Vec::new(), Instant::now() + patience());
    while !stop.load(Ordering::SeqCst) && Instant::now() < end {
        // Two requests per connection.
        let again = format!("{}/healthz", curl.url);
        let output = curl.run("/healthz", &[flag, &again]);
        if !output.status.success() || text(&output.stdout).matches(" 200").count() != 2 {
            wrong.push(format!("{:?}: {}", output.status, text(&output.stdout)));
        }
        asked.fetch_add(2, Ordering::SeqCst);
    }
    wrong
}

/// Returns the serial number of the server's current certificate.
fn served_serial(server: &Logged) -> String {
    let script = format!(
        "openssl s_client -connect {} < /dev/null 2> /dev/null | openssl x509 -noout -serial",
        server.address()
    );
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
    text(&output.stdout).trim().to_owned()
}

#[test]
fn renewed_certificates_take_effect_under_load() {
    let place = WorkDir::new();
    let authority = Authority::new(&place, "ours");
    let sign = || authority.sign(&place, "127.0.0.1");
    let files = sign();
    let server = Logged::start(&place, &https(&files, ""));
    let curl = Curl::new(&server, &authority);
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let wait_for_another = |before: &str| {
        eventually_blocking!(served_serial(&server) != before, "{before} is still in use");
    };
    let renew = || {
        // Overwrites one file after the other, as certbot does.
        let (first, new) = (served_serial(&server), sign());
        fs::copy(&new.cert, &files.cert).expect("copied");
        fs::copy(&new.key, &files.key).expect("copied");
        wait_for_another(&first);
        let said = server.wait_for("new TLS files are in use");
        assert!(!said.contains("failed to load"), "{said}");

        let (second, odd) = (served_serial(&server), sign());
        fs::copy(&odd.cert, &files.cert).expect("copied");
        let said = server.wait_for("failed to load the new TLS files");
        assert!(said.contains("server.tls.key_file"), "{said}");
        assert_eq!(served_serial(&server), second, "the last valid files are not in use");
        fs::remove_file(&files.cert).expect("removed");
        server.wait_for("must name a file that can be read");
        assert_eq!(served_serial(&server), second, "the last valid files are not in use");
        fs::copy(&odd.cert, &files.cert).expect("copied");
        fs::copy(&odd.key, &files.key).expect("copied");
        wait_for_another(&second);
    };
    thread::scope(|scope| {
        let clients =
            ["--http1.1", "--http2"].map(|flag| scope.spawn(|| ask_on(&curl, flag, &stop, &asked)));
        renew();
        stop.store(true, Ordering::SeqCst);
        for client in clients {
            assert_eq!(client.join().expect("joined"), Vec::<String>::new());
        }
    });
    assert!(asked.load(Ordering::SeqCst) > 20, "{asked:?}");
}
