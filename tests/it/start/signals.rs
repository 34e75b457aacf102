//! SIGTERM and SIGINT.

use crate::start::connections::begin;
use crate::start::prelude::*;
use crate::support::stopwatch::Stopwatch;

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_stops_the_server_at_once() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        // Resets SIGHUP, since a test run under nohup would make the server ignore it.
        let (own, mut command) = (program(dir.path(), &[]), Command::new("env"));
        command.arg("--default-signal=HUP").arg(own.get_program()).args(own.get_args());
        command.current_dir(dir.path());
        let mut server = Process::spawn(free_port(), command).await;
        server.put_job(json!({"topic": "other", "id": "a"})).await;
        let url = format!("{}/topics/t/pop?wait=60s", server.base);
        let waiting = tokio::spawn(crate::support::http::get(url));
        until_pops_wait(&server.base, 1..).await;
        let begin = Stopwatch::start();
        server.signal(signal);
        let code = tokio::task::block_in_place(|| server.wait());
        assert_eq!(code, Some(0), "{signal}");
        assert!(begin.elapsed() < scaled(Duration::from_secs(8)), "{:?}", begin.elapsed());
        let answer = waiting.await.expect("joined").expect("an answer");
        assert_eq!(answer.text().await.expect("text"), "{\"jobs\":[]}\n");
        let server = Process::start(dir.path(), &[]).await;
        assert_eq!(server.get("/jobs/a").await.1["state"], "ready");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_half_a_request_does_not_delay_the_end() {
    let (_place, mut server) = started("").await;
    let slow = begin(&server.address(), b"POST /jobs HTTP/1.1\r\nHost:");
    tokio::task::block_in_place(|| until_read(&slow));
    let begin = Stopwatch::start();
    server.stop();
    assert!(begin.elapsed() < scaled(Duration::from_secs(8)), "{:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_started_with_nohup_survives_its_terminal() {
    let place = WorkDir::new();
    let server = Logged::within(&place, "", &["nohup"]);
    server.signal("-HUP");
    // The log would contain a stop.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.get("/readyz", None).await.status(), 200);
    server.stopped();
}
