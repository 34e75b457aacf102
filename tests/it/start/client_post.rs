//! `delay-queue work --post`: the requests of a push, and the ends of attempts by the answers.

use crate::start::prelude::*;
use crate::support::endpoint::{Endpoint, status};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_posted_with_the_headers_and_the_signature_of_a_push() {
    let (_server, shell) = Shell::served("");
    let endpoint = Endpoint::start(|received| match received.header("delay-queue-id") {
        Some("refused") => (status(410), "{}"),
        Some("later") => (status(503), "{}"),
        Some("failed") => (status(500), "{}"),
        _ => (status(200), "{\"stored\": 7}"),
    })
    .await;
    let put = |id: &str, more: &[&str]| {
        let put = ["put", "t", "{\"n\": 1.0}", "--id", id, "--header", "x-tenant=7"];
        shell.one(&[&put[..], more].concat());
    };
    put("kept", &["--finished-retention", "1h"]);
    put("refused", &[]);
    put("later", &[]);
    put("failed", &[]);
    put("own", &["--backoff", "1h"]);
    let secret = shell.place.file("secret", SECRET);
    let url = endpoint.url();
    let work = ["work", "--topic", "t", "--post", &url, "--secret-file", &secret, "--result"];
    let mut worker = Killed(shell.command(&work).spawn().expect("the program runs"));
    for _ in 0..5 {
        let received = endpoint.next().await;
        assert_eq!(&received.body[..], b"{\"n\": 1.0}");
        for (name, value) in [
            ("x-tenant", "7"),
            ("content-type", "application/json"),
            ("delay-queue-topic", "t"),
            ("delay-queue-attempt", "1"),
        ] {
            assert_eq!(received.header(name), Some(value), "{name}");
        }
        for name in ["delay-queue-due-at", "webhook-id", "webhook-timestamp"] {
            assert!(received.header(name).is_some(), "no {name}");
        }
        let signature = received.header("webhook-signature").expect("a signature");
        assert!(signature.starts_with("v1,"), "{signature}");
    }
    let job = |id: &str| shell.one(&["get", id]);
    eventually!(job("kept")["state"] == "finished", "{}", job("kept"));
    assert_eq!(job("kept")["result"], json!({"stored": 7}));
    eventually!(job("refused")["state"] == "dead", "{}", job("refused"));
    assert_eq!(job("refused")["error"], "the endpoint answered 410 Gone");
    eventually!(job("later")["state"] == "delayed", "{}", job("later"));
    assert_eq!(job("later")["attempt"], 0, "the attempt counts");
    eventually!(job("failed")["state"] == "delayed", "{}", job("failed"));
    assert_eq!(job("failed")["attempt"], 1);
    eventually!(shell.run(&["get", "own"]).status.code() == Some(1), "the job is not finished");
    assert_eq!(worker.end_by("-TERM"), Some(0));
}

#[test]
fn a_wrong_endpoint_or_secret_is_explained() {
    let shell = Shell::new("http://127.0.0.1:1");
    let work = ["work", "--topic", "t", "--post"];
    shell.fails(&[&work[..], &["ftp://here"]].concat(), 2, &["--post", "ftp://here"]);
    let secret = shell.place.file("secret", "hunter2");
    let wrong = ["http://here", "--secret-file", &secret];
    let output = shell.run(&[&work[..], &wrong].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("whsec_") && !said.contains("hunter2"), "{said}");
    let both = [&work[..], &["http://here", "--", "true"]].concat();
    assert_eq!(shell.run(&both).status.code(), Some(2));
}
