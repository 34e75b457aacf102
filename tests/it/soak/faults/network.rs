//! Faults of the network between clients and a server, and between servers and Redis.

use tokio::time::sleep;

use crate::soak::faults::server::{bytes_are_lost, cut_and_pass};
use crate::soak::prelude::*;

macro_rules! both_ways {
    ($($to_clients:ident $to_redis:ident $fault:ident,)+) => {$(
        pub async fn $to_clients(mut scene: Scene<'_>) -> bool {
            let server = scene.any_server();
            $fault(&scene.stage.servers[server].proxy).await
        }

        pub async fn $to_redis(scene: Scene<'_>) -> bool {
            $fault(&scene.stage.single().proxy).await
        }
    )+};
}

both_ways! {
    delayed redis_delayed delay,
    black_hole redis_in_a_black_hole swallow,
    reset redis_reset cut,
    answers_lost redis_answers_lost mute,
    answers_cut_short redis_answers_cut_short truncate,
}

/// Delays answers for 200 ms and then sends all of them at once.
async fn delay(proxy: &Proxy) -> bool {
    let before = proxy.held();
    for _ in 0..5 {
        proxy.set(Mode::Hold);
        sleep(Duration::from_millis(200)).await;
        proxy.set(Mode::Pass);
        sleep(Duration::from_millis(100)).await;
    }
    proxy.held() > before
}

/// Loses all bytes without closing connections.
async fn swallow(proxy: &Proxy) -> bool {
    lose_bytes(proxy, (Mode::Swallow, 0), Duration::from_millis(1000)).await
}

/// Resets all connections, including new ones for a moment.
async fn cut(proxy: &Proxy) -> bool {
    let before = proxy.cut();
    proxy.set(Mode::Cut);
    sleep(Duration::from_millis(300)).await;
    proxy.set(Mode::Pass);
    proxy.cut() > before
}

/// Loses the answers of requests that were carried out.
async fn mute(proxy: &Proxy) -> bool {
    lose_bytes(proxy, (Mode::Mute, 1), Duration::from_millis(200)).await
}

/// Waits until bytes are lost in one direction, and then loses bytes for the time `longer`.
async fn lose_bytes(proxy: &Proxy, (mode, direction): (Mode, usize), longer: Duration) -> bool {
    let lost = bytes_are_lost(proxy, mode, direction).await;
    sleep(longer).await;
    cut_and_pass(proxy).await;
    lost
}

/// Passes only half of an answer.
async fn truncate(proxy: &Proxy) -> bool {
    let before = proxy.truncated();
    for _ in 0..5 {
        proxy.set(Mode::Truncate);
        sleep(Duration::from_millis(150)).await;
        proxy.set(Mode::Pass);
        sleep(Duration::from_millis(150)).await;
    }
    proxy.truncated() > before
}
