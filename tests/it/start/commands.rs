//! Common mistakes with commands: a store in use, a store that does not exist, a closed pipe,
//! certificates.

use crate::start::prelude::*;

#[tokio::test(flavor = "multi_thread")]
async fn token_commands_on_a_store_in_use_refer_to_its_server() {
    let (place, _server) = logged("");
    for act in [&["create", "--name", "a", "--scope", "admin"][..], &["list"], &["revoke", "a"]] {
        let said = one_line(&place.run("", &[], &[&["token"], act].concat()), &["--url URL`"]);
        assert!(!said.contains("another directory"), "{said}");
    }
}

#[test]
fn reading_commands_create_no_store() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let on_redis = store(&redis.url(), "");
    for arguments in [&["token", "list"][..], &["token", "revoke", "a"], &["export", "jobs"]] {
        one_line(&place.run("", &[], arguments), &["there is none in ./data; check store.url"]);
        assert!(!place.path().join("data").exists(), "{arguments:?}");
        one_line(&place.run(&on_redis, &[], arguments), &["there is none in Redis at 127.0.0.1"]);
        assert_empty(&redis);
    }
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let (_server, shell) = Shell::served("");
    shell.one(&["put", "t"]);
    for arguments in [&["--check-config"][..], &["token", "generate"], &["topics"]] {
        let mut command = match arguments {
            ["topics"] => shell.command(arguments),
            _ => program(shell.place.path(), arguments),
        };
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}

fn openssl(place: &WorkDir, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).current_dir(place.path()).output();
    let output = output.expect("openssl runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Creates a self-signed `<name>.pem` and `<name>.key`, with additional options of `openssl req
/// -x509`.
pub fn certificate(place: &WorkDir, name: &str, more: &[&str]) -> (String, String) {
    let (cert, key) = (format!("{name}.pem"), format!("{name}.key"));
    let made = ["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-out", &cert];
    let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    openssl(place, &[&made[..], &["-keyout", &key], &kind, more].concat());
    let path = |name: String| place.path().join(name).display().to_string();
    (path(cert), path(key))
}

/// For each common mistake in a certificate, the program explains the mistake in one sentence.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_certificate_is_explained_in_one_sentence() {
    let name = ["-addext", "subjectAltName=IP:127.0.0.1"];
    let own = ["-addext", "basicConstraints=critical,CA:FALSE"];
    let elsewhere = ["-addext", "subjectAltName=DNS:queue.example"];
    for (kind, more, said) in [
        ("usual", name.to_vec(), ""),
        ("nameless", own.to_vec(), "add the requested host to its subjectAltName"),
        ("elsewhere", [own, elsewhere].concat(), "the certificate is valid for"),
        ("weak", [&own[..], &name[..], &["-sha1"]].concat(), "RSA of 2048 bits or more"),
        ("right", [&own[..], &name[..]].concat(), ""),
    ] {
        let place = WorkDir::new();
        let (cert, key) = certificate(&place, kind, &more);
        let server = Logged::start(&place, &https(&Files { cert: cert.clone(), key }, ""));
        let url = server.base.replace("http://", "https://");
        let ask = |ca: &str| place.run("", &[], &["token", "list", "--url", &url, "--ca-file", ca]);
        match said {
            "" => {
                assert!(ask(&cert).status.success(), "{}", text(&ask(&cert).stderr));
                let (other, _) = certificate(&place, "other", &more);
                let word = if kind == "usual" { "this very certificate" } else { "certificate" };
                fails(&ask(&other), 4, &["failed to reach the server", word]);
            }
            said => {
                fails(&ask(&cert), 4, &["failed to reach the server", said]);
                let line = text(&ask(&cert).stderr);
                for internal in ["Other(", "Context", "invalid peer certificate", "EndEntity"] {
                    assert!(!line.contains(internal), "{kind}: {line}");
                }
            }
        }
    }
}

#[test]
fn tls_to_a_plain_redis_is_refused_with_advice() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = store(&redis.url().replace("redis://", "rediss://"), "");
    let words = ["does not speak TLS", "begin store.url with redis instead of rediss"];
    // The program must not wait for a store that does not support TLS.
    let wait = [("DELAY_QUEUE__STORE__CONNECT_TIMEOUT", "1h")];
    one_line(&place.run(&settings, &wait, &[]), &words);
}
