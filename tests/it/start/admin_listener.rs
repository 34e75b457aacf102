//! A separate listener for operators.

use crate::start::connections::{ask, request};
use crate::start::prelude::*;

fn status(address: &str, path: &str) -> u16 {
    ask(address, &request(&format!("GET {path}"), "")).expect("an answer").status
}

#[test]
fn the_admin_listener_serves_only_metrics_and_readiness() {
    let admin = format!("127.0.0.1:{}", free_port());
    let (place, server) = logged(&format!("[server]\nadmin_listen = \"{admin}\"\n"));
    let public = server.address();
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
    place.assert_succeeds(&["--config", &file, "--listen", &public, "health"], &[]);
    let said = server.stopped();
    assert!(said.contains(&format!("admin={admin}")), "{said}");
}
