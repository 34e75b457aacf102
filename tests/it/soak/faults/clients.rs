//! Misbehaving clients.

use socket2::SockRef;
use tokio::time::sleep;

use crate::faults::history::{Ask, StoreResult};
use crate::soak::prelude::*;

const POP: &[u8] = b"POST /topics/t/pop?wait=2s&count=3 HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn connect(port: u16) -> TcpStream {
    let client = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    client.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    client
}

/// Consumers disconnect within the request, before the answer, within the answer, or after it. Half
/// of them reset the connection.
pub async fn hang_up(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    let port = scene.stage.servers[server].port;
    for _ in 0..40 {
        let start = scene.history.now();
        let (phase, later) = (scene.random_below(5), scene.random_below(60));
        let (abrupt, part) = (scene.random_below(2) == 0, scene.random_below(60));
        block_in_place(|| {
            let mut client = connect(port);
            if abrupt {
                SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("a socket");
            }
            let part = usize::try_from(part).expect("a few bytes");
            client.write_all(if phase == 0 { &POP[..part] } else { POP }).expect("sent");
            match phase {
                0 | 1 => {}
                2 => std::thread::sleep(Duration::from_millis(later)),
                3 => drop(client.read(&mut [0; 1])),
                _ => drop(client.read(&mut [0; 8192])),
            }
        });
        // An answer that arrived cost attempts, of which the judge must know.
        let lost = (Ask::Pop { topic: "t", server }, StoreResult::Unknown);
        scene.history.add("pop", start, [lost]);
    }
    true
}

/// Puts end within their head or body, and create no job.
pub async fn send_half_a_request(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    let port = scene.stage.servers[server].port;
    let body = r#"{"topic":"half","body":"x"}"#;
    let head =
        format!("POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    let whole = head + body;
    for _ in 0..30 {
        let part =
            usize::try_from(scene.random_below(whole.len() as u64 - 1)).expect("a few bytes");
        block_in_place(|| connect(port).write_all(&whole.as_bytes()[..=part])).expect("sent");
    }
    sleep(Duration::from_millis(100)).await;
    // The store may be unavailable for a moment, if the fault before this one has just ended.
    let (mut status, mut topic);
    eventually!(
        {
            (status, topic) = scene.stage.servers[server].process.get("/topics/half").await;
            status == 200
        },
        "the topic cannot be read: {status} {topic}"
    );
    assert_eq!(topic["ready"], 0, "an incomplete put has created a job");
    true
}

/// Clients send many requests without reading answers.
pub async fn do_not_read(mut scene: Scene<'_>) -> bool {
    let server = scene.any_server();
    let port = scene.stage.servers[server].port;
    let page = "GET /topics/kept/jobs?state=delayed&limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let clients: Vec<TcpStream> = (0..8).map(|_| block_in_place(|| connect(port))).collect();
    for mut client in &clients {
        client.set_nonblocking(true).expect("a socket");
        for _ in 0..50 {
            // Sends until the server stops reading, since it cannot write.
            if client.write_all(page.as_bytes()).is_err() {
                break;
            }
        }
    }
    sleep(Duration::from_secs(1)).await;
    !clients.is_empty()
}
