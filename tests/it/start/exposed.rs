//! Listeners that other machines can reach.

use crate::start::connections::{ask, request};
use crate::start::prelude::*;

#[test]
fn a_server_reachable_by_others_does_not_start_without_tokens() {
    let place = WorkDir::new();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let output = super::output(place.path(), &["--listen", listen]);
        one_line(&output, &[listen, "server.listen", "token create", "server.insecure"]);
    }
    place.file("file", "");
    for (settings, words) in [
        ("admin_listen = \"unix:file\"", ["server.admin_listen", "not a socket"]),
        ("admin_listen = \"x\"", ["server.admin_listen", "a host and a port"]),
        ("bootstrap_token = \"dq_5ecret\"", ["server.bootstrap_token ", "must be a token"]),
        ("bootstrap_token_file = \"none\"", ["server.bootstrap_token_file", "none"]),
        ("hosts = [\"a.test:80\"]", ["server.hosts", "a.test:80"]),
        ("trusted_proxies = [\"10.0.0.0/33\"]", ["server.trusted_proxies", "10.0.0.0/33"]),
        ("trusted_proxies = [\"proxy.test\"]", ["server.trusted_proxies", "proxy.test"]),
        ("cors_origins = [\"*\"]", ["server.cors_origins", "\"*\""]),
        ("cors_origins = [\"https://a.test/x\"]", ["server.cors_origins", "a.test/x"]),
    ] {
        let line = place.refused(&format!("[server]\n{settings}\n"), &words);
        assert!(!line.contains("5ecret"), "{line}");
    }
}

#[test]
fn an_insecure_server_warns_at_every_start_of_each_open_address() {
    let place = WorkDir::new();
    let port = free_port();
    let warning = |host: &str, admin: &str| {
        let settings = format!("[server]\ninsecure = true\nadmin_listen = \"{admin}:{port}\"\n");
        let server = Logged::start_on(&place, host, &settings);
        let topics = ask(&server.address(), &request("GET /topics", "")).expect("an answer");
        assert_eq!(topics.status, 200);
        let log = server.stopped();
        let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN")).collect();
        assert!(warnings.len() <= 1, "{log}");
        warnings.first().map(|line| (*line).to_owned())
    };
    for _ in 0..2 {
        let both = warning("0.0.0.0", "0.0.0.0").expect("a warning");
        assert!(both.contains("insecure: ") && both.contains("server.insecure"), "{both}");
        assert!(
            both.matches("0.0.0.0:").count() == 2 && both.contains(&port.to_string()),
            "{both}"
        );
    }
    let admin = warning("127.0.0.1", "0.0.0.0").expect("a warning");
    assert!(admin.contains(&format!("addresses=\"0.0.0.0:{port}\"")), "{admin}");
    assert_eq!(warning("127.0.0.1", "127.0.0.1"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requests_with_the_bootstrap_token_are_accepted() {
    let place = WorkDir::new();
    let token = secret();
    let file = place.file("token", &format!("{token}\n"));
    let settings = format!("[server]\nbootstrap_token_file = {file:?}\n");
    let server = Logged::start_on(&place, "0.0.0.0", &settings);
    let ask = async |path: &str, token: Option<&str>| {
        let answer = server.get(path, token).await;
        let challenge = answer.headers().get("www-authenticate");
        let challenge = challenge.map(|text| text.to_str().expect("text").to_owned());
        (answer.status().as_u16(), challenge.unwrap_or_default())
    };
    assert_eq!(ask("/healthz", None).await.0, 200);
    assert_eq!(ask("/v1/readyz", None).await.0, 200);
    assert_eq!(ask("/topics", None).await, (401, "Bearer realm=\"delay-queue\"".to_owned()));
    let (status, challenge) = ask("/topics", Some(&secret())).await;
    assert_eq!(status, 401);
    assert!(challenge.ends_with("error=\"invalid_token\""), "{challenge}");
    assert_eq!(ask("/no/such/route", None).await.0, 401);
    assert_eq!(ask("/no/such/route", Some(&token)).await.0, 404);
    let log = server.wait_for("serving");
    assert!(!log.contains("WARN") && !log.contains(&token), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_hosts_refuses_other_host_names() {
    let (place, token) = (WorkDir::new(), secret());
    let with_token = format!("bootstrap_token = \"{token}\"\n");
    for more in ["insecure = true\n", &with_token] {
        let settings = format!("[server]\nhosts = [\"queue.test\"]\n{more}");
        let server = Logged::start_on(&place, "0.0.0.0", &settings);
        let ask = async |path: &str, host: &str| {
            let request = server.request("GET", path).header("host", host).bearer_auth(&token);
            let answer = request.send().await.expect("an answer");
            (answer.status().as_u16(), answer.text().await.expect("a body"))
        };
        assert_eq!(ask("/access", "queue.test:9277").await.0, 200, "{more}");
        let (status, problem) = ask("/access", "rebound.test").await;
        assert_eq!(status, 403, "{more}: {problem}");
        assert!(problem.contains("forbidden_origin"), "{problem}");
        let probe = ask("/healthz", "10.1.2.3").await;
        assert_eq!(probe.0, 200, "a health probe by address was refused");
    }
}
