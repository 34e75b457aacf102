//! Faults of the disk below the store.

use tokio::time::sleep;

use crate::disk::shim::{EIO, ENOSPC, Field};
use crate::soak::prelude::*;

/// Cuts the power: all writes since the last sync are lost.
pub async fn power_lost(scene: Scene<'_>) -> bool {
    if let Store::File(disk) = &scene.stage.store {
        block_in_place(|| {
            scene.stage.servers[0].process.kill();
            disk.cut_power(|_| 0);
        });
        scene.stage.restart(0).await;
        return true;
    }
    let single = scene.stage.single();
    let cut = block_in_place(|| {
        single.redis.kill();
        single.disk.cut_to_lengths()
    });
    println!("power lost: {cut} bytes of Redis' log were not synced");
    sleep(Duration::from_millis(200)).await;
    block_in_place(|| single.redis.resume());
    cut > 0
}

/// Cuts the power within a write: a part of the unsynced bytes of each file is kept.
pub async fn power_lost_in_a_write(scene: Scene<'_>) -> bool {
    let Scene { stage, random, .. } = scene;
    block_in_place(|| {
        stage.servers[0].process.kill();
        stage.disk().cut_power(|bytes| rand::RngExt::random_range(random, 0..=bytes));
    });
    stage.restart(0).await;
    true
}

pub async fn full(scene: Scene<'_>) -> bool {
    if let Store::File(_) = &scene.stage.store {
        return filled(scene, ENOSPC).await;
    }
    // Redis refuses writes, or exits if it must sync each write and cannot.
    let (single, before) = (scene.stage.single(), scene.history.failures_with(": 50"));
    single.disk.set(Field::WriteError, ENOSPC);
    let refused = holds_soon(|| scene.history.failures_with(": 50") > before).await;
    sleep(Duration::from_millis(500)).await;
    single.disk.set(Field::WriteError, 0);
    if single.has_ended() {
        block_in_place(|| single.redis.resume());
    }
    refused
}

/// Fills the rest of the disk with large jobs. Meanwhile the server refuses puts and carries out
/// all other calls.
pub async fn filled(scene: Scene<'_>, error: i32) -> bool {
    let (disk, server) = (scene.stage.disk(), &scene.stage.servers[0].process);
    let before = scene.history.failures_with("507 store_full");
    disk.limit(disk.used_kib() + 2048);
    disk.set(Field::FullError, error);
    // Many batches may be needed, since the file may contain much free space.
    let is_full = !put_large(server, 100).await;
    let is_refused = || scene.history.failures_with("507 store_full") > before;
    let refused = is_full && holds_soon(is_refused).await;
    sleep(Duration::from_millis(500)).await;
    disk.set(Field::CapacityKib, 0);
    purge_large(server).await;
    refused
}

pub async fn reads_fail(scene: Scene<'_>) -> bool {
    let (disk, server) = (scene.stage.disk(), &scene.stage.servers[0].process);
    // These jobs exceed SQLite's cache, so that reads need the disk.
    assert!(put_large(server, 4).await, "the disk has no room for the jobs");
    disk.set(Field::ReadError, EIO);
    let refused = server.get("/topics/large/jobs?state=ready&limit=1000").await.0 == 503;
    sleep(Duration::from_millis(500)).await;
    disk.set(Field::ReadError, 0);
    purge_large(server).await;
    refused
}

/// Puts batches of sixty jobs of 100 kB until one is refused. Returns whether all were accepted.
async fn put_large(server: &Process, batches: usize) -> bool {
    let job = json!({"topic": "large", "body": "x".repeat(100_000)});
    let batch = json!({"jobs": vec![job; 60]});
    for _ in 0..batches {
        let Some((status, put)) = server.post("/batch/jobs", batch.clone()).await else {
            return false;
        };
        let text = put.to_string();
        if text.contains("\"store_full\"") {
            return false;
        }
        if status != 200 || text.contains("\"status\":5") {
            let shown: String = text.chars().take(400).collect();
            println!("large jobs are refused: {status} {shown}");
        }
    }
    true
}

/// Purges the large jobs. A slow disk may take longer than the server waits for it.
async fn purge_large(server: &Process) {
    let purged = async || server.delete("/topics/large/jobs").await == Some(200);
    eventually!(purged().await, "they are not purged");
}

/// Makes all reads, writes or syncs fail with EIO for a while.
pub async fn failing(scene: Scene<'_>, field: Field) -> bool {
    let disk = scene.stage.disk();
    let before = scene.history.failures_with("503 store_unavailable");
    disk.set(field, EIO);
    let refused =
        holds_soon(|| scene.history.failures_with("503 store_unavailable") > before).await;
    sleep(Duration::from_millis(500)).await;
    disk.set(field, 0);
    refused
}
