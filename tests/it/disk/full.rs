//! A full disk: the server refuses puts and nothing else.

use crate::disk::prelude::*;
use crate::disk::shim::EDQUOT;

const KIB: i32 = 1024;

/// Puts jobs of 100 kB until the server refuses one, and returns the number of accepted jobs.
async fn fill(server: &Process, topic: &str) -> usize {
    for n in 0..1000 {
        let put =
            json!({"topic": topic, "id": format!("{topic}:{n}"), "body": "x".repeat(100_000)});
        let (status, answer) = server.post("/jobs", put).await.expect("an answer");
        if status != 201 {
            assert_eq!((status, &answer["code"]), (507, &json!("store_full")), "{answer}");
            assert_eq!(answer["applied"], "no");
            return n;
        }
    }
    panic!("the disk does not fill up");
}

async fn put_small(server: &Process) -> u16 {
    server.post("/jobs", json!({"topic": "small"})).await.expect("an answer").0
}

async fn delete(server: &Process, id: String) {
    let (status, answer) =
        server.post("/batch/delete", json!({"jobs": [{"id": id}]})).await.expect("an answer");
    assert_eq!((status, &answer["results"][0]["status"]), (200, &json!(200)), "{answer}");
}

async fn assert_only_puts_are_refused(error: i32) {
    let disk = Disk::new();
    let server = disk.server().await;
    for n in 0..200 {
        server.post("/jobs", json!({"topic": "t", "id": format!("t:{n}")})).await.expect("put");
    }
    disk.set(Field::FullError, error);
    disk.set(Field::CapacityKib, 30 * KIB);
    let filled = fill(&server, "large").await;
    assert!(filled > 20, "only {filled} jobs of 100 kB were accepted");
    let (status, said) = readiness(&server).await;
    assert_eq!(status, 200, "{said}");
    assert!(said.contains("\"degraded\"") && said.contains("store_full"), "{said}");

    // Puts must not use the reserve that the server has freed for other calls.
    for n in 0..100 {
        assert_eq!(put_small(&server).await, 507);
        let (_, popped) = server.get("/topics/t/pop?ttr=1h").await;
        let id = popped["jobs"][0]["id"].as_str().expect("a job").to_owned();
        let hold = json!({"reservation": popped["jobs"][0]["reservation"]});
        let (action, expected) = match n % 3 {
            0 => ("finish", 204),
            1 => ("release", 200),
            _ => ("bury", 200),
        };
        let (status, answer) =
            server.post(&format!("/jobs/{id}/{action}"), hold).await.expect("an answer");
        assert_eq!(status, expected, "{action}: {answer}");
        delete(&server, format!("t:{}", 199 - n)).await;
        tokio::time::sleep(Duration::from_millis(30)).await; // the loop takes longer than a second, so that the server checks the disk
    }
    assert_eq!(readiness(&server).await.0, 200);
    assert_eq!(disk.said("puts are refused until"), 1);
    assert_eq!(disk.said("has room again"), 0);
    assert_eq!(disk.said("nothing can be written"), 0);

    // Deletes enough jobs for the server to accept puts again.
    for n in 0..filled {
        delete(&server, format!("large:{n}")).await;
    }
    until(|| put_small(&server), |status| *status == 201).await;
    assert!(readiness(&server).await.1.contains("\"ok\""));
    assert_eq!(disk.said("has room again"), 1);
    assert!(fill(&server, "again").await > filled / 3, "few puts were accepted after the deletes");
    assert!(
        readiness(&server).await.1.contains("store_full"),
        "readyz does not report that the disk is full again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_only_puts() {
    assert_only_puts_are_refused(ENOSPC).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_quota_is_a_full_disk() {
    assert_only_puts_are_refused(EDQUOT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_succeed_in_one_batch_with_a_put_that_finds_no_room() {
    let disk = Disk::new();
    let server = disk.server().await;
    for n in 0..300 {
        server.post("/jobs", json!({"topic": "t", "id": format!("t:{n}")})).await.expect("put");
    }
    disk.set(Field::FullError, ENOSPC);
    disk.set(Field::CapacityKib, 20 * KIB);
    // The disk fills up while deletes share a batch with puts.
    let deletes = async {
        for n in 0..300 {
            delete(&server, format!("t:{n}")).await;
        }
    };
    let (_, filled) = tokio::join!(deletes, fill(&server, "large"));
    let count = async || server.get("/topics/large").await.1["ready"].as_u64();
    assert_eq!(count().await, Some(filled as u64), "refused puts have created jobs");
    let topics: Vec<Value> =
        server.get("/topics").await.1["topics"].as_array().expect("topics").clone();
    assert_eq!(topics.len(), 1, "{topics:?}");
    assert_eq!(disk.said("puts are refused until"), 1);
    let mut server = server;
    server.kill();
    disk.set(Field::CapacityKib, 0);
    let server = disk.server().await;
    let after = server.get("/topics/large").await.1;
    assert_eq!(
        after["ready"].as_u64(),
        Some(filled as u64),
        "refused puts have created jobs after a restart"
    );
    assert_eq!(server.get("/topics/t").await.1["ready"].as_u64().unwrap_or_default(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_a_sync_exhausts_is_a_full_disk() {
    let disk = Disk::new();
    let server = disk.server().await;
    assert_eq!(put_small(&server).await, 201);
    disk.set(Field::SyncError, EDQUOT);
    let (status, answer) =
        server.post("/jobs", json!({"topic": "small"})).await.expect("an answer");
    assert_eq!((status, &answer["applied"]), (503, &json!("unknown")), "{answer}");
    for _ in 0..20 {
        let (status, answer) =
            server.post("/jobs", json!({"topic": "small"})).await.expect("an answer");
        let said = (status, &answer["code"], &answer["applied"]);
        assert_eq!(said, (507, &json!("store_full"), &json!("no")), "{answer}");
    }
    disk.set(Field::SyncError, 0);
    until(|| put_small(&server), |status| *status == 201).await;
}
