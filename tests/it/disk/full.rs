//! A full disk: the server refuses puts and nothing else.

use crate::disk::prelude::*;
use crate::disk::shim::EDQUOT;

const KIB: i32 = 1024;

/// Puts jobs of 100 kB until the server refuses one, and returns the number of accepted jobs.
async fn fill(server: &Process, topic: &str) -> usize {
    for n in 0..1000 {
        let put =
            json!({"topic": topic, "id": format!("{topic}:{n}"), "body": "x".repeat(100_000)});
        let (status, answer) = post(server, "/jobs", put).await;
        if status != 201 {
            assert_eq!((status, &answer["code"]), (507, &json!("store_full")), "{answer}");
            assert_eq!(answer["applied"], "no");
            return n;
        }
    }
    panic!("the disk does not fill up");
}

async fn assert_only_puts_are_refused(error: i32) {
    let (disk, server) = Disk::with_server().await;
    put_all(&server, "t", 200, 1).await;
    disk.limit(30 * KIB);
    disk.set(Field::FullError, error);
    let filled = fill(&server, "large").await;
    assert!(filled > 20, "only {filled} jobs of 100 kB were accepted");
    let (status, said) = readiness(&server).await;
    assert_eq!(status, 200, "{said}");
    assert!(said.contains("\"degraded\"") && said.contains("store_full"), "{said}");

    // Puts must not use the reserve that the server has freed for other calls.
    for n in 0..100 {
        assert_eq!(put_one(&server).await, 507);
        let held = pop(&server, "t", 1).await;
        let (action, expected) = [("finish", 204), ("release", 200), ("bury", 200)][n % 3];
        assert_all(expected, &server, &format!("/batch/{action}"), &held).await;
        delete_all(&server, [id("t", 199 - n)]).await;
        tokio::time::sleep(Duration::from_millis(30)).await; // the loop takes longer than a second, so that the server checks the disk
    }
    assert_eq!(readiness(&server).await.0, 200);
    assert_eq!(disk.said("puts are refused until"), 1);
    assert_eq!(disk.said("has room again"), 0);
    assert_eq!(disk.said("nothing can be written"), 0);

    // Deletes enough jobs for the server to accept puts again.
    for n in 0..filled {
        delete_all(&server, [format!("large:{n}")]).await;
    }
    until_puts_are_accepted(&server).await;
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
    let (disk, mut server) = Disk::with_server().await;
    put_all(&server, "t", 300, 1).await;
    disk.limit(20 * KIB);
    // The disk fills up while deletes share a batch with puts.
    let deletes = async {
        for n in 0..300 {
            delete_all(&server, [id("t", n)]).await;
        }
    };
    let (_, filled) = tokio::join!(deletes, fill(&server, "large"));
    let assert_only_accepted = async |server: &Process| {
        let mut topics = server.get("/topics").await.1["topics"].take();
        let topics = topics.as_array_mut().expect("topics");
        assert_eq!(topics.len(), 1, "{topics:?}");
        assert_eq!((&topics[0]["topic"], &topics[0]["ready"]), (&json!("large"), &json!(filled)));
    };
    assert_only_accepted(&server).await;
    assert_eq!(disk.said("puts are refused until"), 1);
    server.kill();
    disk.set(Field::CapacityKib, 0);
    assert_only_accepted(&disk.server().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_a_sync_exhausts_is_a_full_disk() {
    let (disk, server) = Disk::with_server().await;
    assert_eq!(put_one(&server).await, 201);
    disk.set(Field::SyncError, EDQUOT);
    let put = || post(&server, "/jobs", json!({"topic": "small"}));
    let (status, answer) = put().await;
    assert_eq!((status, &answer["applied"]), (503, &json!("unknown")), "{answer}");
    for _ in 0..20 {
        let (status, answer) = put().await;
        let said = (status, &answer["code"], &answer["applied"]);
        assert_eq!(said, (507, &json!("store_full"), &json!("no")), "{answer}");
    }
    disk.set(Field::SyncError, 0);
    until_puts_are_accepted(&server).await;
}
