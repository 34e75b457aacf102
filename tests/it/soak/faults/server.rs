//! Faults of a server process.

use tokio::time::sleep;

use crate::soak::prelude::*;
use crate::{disk::shim::Field, faults::load::TTR};

/// Kills a server at a random moment.
pub async fn killed(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    sleep(Duration::from_millis(scene.random_below(300))).await;
    scene.stage.kill(server).await;
    true
}

/// Kills a server after it has read a request and before its call reaches the store.
pub async fn killed_before_the_store_call(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    let Store::File(disk) = &scene.stage.store else {
        return killed_while(scene, server, Mode::Swallow, 0).await;
    };
    // The server is killed before the first write of a commit.
    disk.set(Field::CrashWithin, 0);
    let soon = disk.get(Field::Changes) + 5;
    crashed_by(scene, server, Field::CrashAt, soon).await
}

/// Kills a server after the store has made a transition and before the server gets the answer.
pub async fn killed_after_the_store_call(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    match &scene.stage.store {
        Store::File(_) => crashed_by(scene, server, Field::CrashSynced, 1).await,
        _ => killed_while(scene, server, Mode::Mute, 1).await,
    }
}

/// Crashes a server by setting the field `when` of its disk to `value`.
async fn crashed_by(scene: Scene<'_>, server: usize, when: Field, value: i32) -> bool {
    scene.stage.disk().set(when, value);
    let process = &mut scene.stage.servers[server].process;
    let crashed = holds_soon(|| process.has_ended()).await;
    scene.stage.disk().set(when, 0);
    scene.stage.restart(server).await;
    crashed
}

/// Kills a server once a connection to Redis has lost bytes in one direction.
async fn killed_while(scene: Scene<'_>, server: usize, mode: Mode, direction: usize) -> bool {
    let lost = bytes_are_lost(&scene.stage.single().proxy, mode, direction).await;
    block_in_place(|| scene.stage.servers[server].process.kill());
    // Connections of the other server have lost bytes too.
    cut_and_pass(&scene.stage.single().proxy).await;
    scene.stage.restart(server).await;
    lost
}

/// Kills a server after it has written an answer and before the answer arrives.
pub async fn killed_before_the_answer(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    let target = &mut scene.stage.servers[server];
    let lost = bytes_are_lost(&target.proxy, Mode::Mute, 1).await;
    block_in_place(|| target.process.kill());
    cut_and_pass(&target.proxy).await;
    scene.stage.restart(server).await;
    lost
}

/// Sets the mode of a proxy. Returns whether it then loses bytes in this direction.
pub async fn bytes_are_lost(proxy: &Proxy, mode: Mode, direction: usize) -> bool {
    let before = proxy.swallowed()[direction];
    proxy.set(mode);
    holds_soon(|| proxy.swallowed()[direction] > before).await
}

/// Closes connections that have lost bytes, since no more bytes pass through them.
pub async fn cut_and_pass(proxy: &Proxy) {
    proxy.set(Mode::Cut);
    sleep(Duration::from_millis(50)).await; // until the open connections are reset
    proxy.set(Mode::Pass);
}

/// Freezes a server for longer than a TTR, while requests fill its buffers.
pub async fn frozen(mut scene: Scene<'_>) -> bool {
    let (server, began) = (scene.any_server(), scene.history.now());
    let process = &scene.stage.servers[server].process;
    let frozen = Frozen::freeze(process.id());
    sleep(TTR + Duration::from_millis(500)).await;
    frozen.thaw();
    // A server is ready only if its timers run again.
    eventually!(process.get("/readyz").await.0 == 200, "the thawed server does not become ready");
    holds_soon(|| scene.history.longest_since(began) > TTR).await
}

/// Stops a server with SIGTERM. It must exit with 0.
pub async fn terminated(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    let process = &mut scene.stage.servers[server].process;
    process.signal("-TERM");
    let code = block_in_place(|| process.wait());
    assert_eq!(code, Some(0), "the server did not exit with 0 after SIGTERM");
    scene.stage.restart(server).await;
    true
}

/// Uses up the server's file descriptors. The server closes idle connections to get new ones, or
/// answers later.
pub async fn out_of_descriptors(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    let server = &scene.stage.servers[server];
    let (port, pid) = (server.port, server.process.id().to_string());
    let limit = |soft: usize| {
        let limits = format!("--nofile={soft}:");
        let set = Command::new("prlimit").args(["--pid", &pid, &limits]).status();
        assert!(set.expect("prlimit runs").success());
    };
    let clients = || (0..32).filter_map(|_| TcpStream::connect(("127.0.0.1", port)).ok()).collect();
    block_in_place(|| {
        let idle: Vec<TcpStream> = clients();
        assert!(
            idle.iter().all(|client| is_answered(client, 5000)),
            "the server does not answer although it has file descriptors"
        );
        limit(std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process").count());
        let more: Vec<TcpStream> = clients();
        let unanswered = more.iter().filter(|client| !is_answered(client, 100)).count();
        limit(4096);
        let closed = idle.iter().filter(|client| !is_answered(client, 5000)).count();
        unanswered + closed > 0
    })
}

/// Returns whether the server answers within `millis`.
fn is_answered(mut client: &TcpStream, millis: u64) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(millis))).expect("a socket");
    let sent = client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    sent.is_ok() && client.read(&mut [0; 1024]).is_ok_and(|length| length > 0)
}
