//! A separate listener for operators.

use crate::start::connections::ask;
use crate::start::prelude::*;

fn status(address: &str, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    ask(address, request.as_bytes()).expect("an answer").status
}

#[test]
fn the_admin_listener_serves_only_metrics_and_readiness() {
    let place = WorkDir::new();
    let admin = format!("127.0.0.1:{}", free_port());
    let server = Logged::start(&place, &format!("[server]\nadmin_listen = \"{admin}\"\n"));
    let public = server.base.trim_start_matches("http://").to_owned();
    for (path, at_public, at_admin) in [
        ("/healthz", 200, 200),
        ("/v1/healthz", 200, 200),
        ("/readyz", 404, 200),
        ("/v1/readyz", 404, 200),
        ("/metrics", 404, 200),
        ("/topics", 200, 404),
        ("/topics/t", 200, 404),
        ("/v1/topics/t/pop", 200, 404),
        ("/jobs/1", 404, 404),
    ] {
        assert_eq!((status(&public, path), status(&admin, path)), (at_public, at_admin), "{path}");
    }
    let file = place.path().join("logged.toml").display().to_string();
    let health =
        program(place.path(), &["--config", &file, "--listen", &public, "health"]).output();
    assert!(health.expect("the program runs").status.success());
    server.signal("-TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("admin={admin}")), "{said}");
}

#[test]
fn an_unusable_address_is_refused_with_its_setting() {
    let place = WorkDir::new();
    let file = place.file("file", "");
    let taken = format!("[server]\nadmin_listen = \"unix:{file}\"\n");
    place.refused(&taken, &["server.admin_listen", "not a socket"]);
    place.refused("[server]\nadmin_listen = \"x\"\n", &["server.admin_listen"]);
}
