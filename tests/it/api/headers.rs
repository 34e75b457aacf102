//! Headers, which a producer gives to the consumers of its job.

use crate::api::prelude::*;

pub async fn headers_reach_every_consumer_and_change_by_patch(server: Server) {
    let headers = json!({"X-Tenant": "7 of 9;\t100%", "a": ""});
    let put = |id: &str| json!({"topic": "t", "id": id, "headers": headers});
    server.put(put("one")).await;
    server.put_all([put("two"), json!({"topic": "t", "id": "none", "headers": null})]).await;

    for attempt in 1..=2 {
        let jobs = server.pop("t/pop?count=10").await;
        assert_eq!(jobs.len(), 3, "attempt {attempt}");
        for job in jobs {
            let id = id_of(&job);
            let expected = if id == "none" { None } else { Some(&headers) };
            assert_eq!(job.get("headers"), expected, "attempt {attempt}, {id}");
            server.act(id, "release", r#"{"delay":0}"#).await.ok(200);
        }
    }

    let patch = async |change: Value| server.patch("one", change).await.ok(200);
    // A client may send the whole answer of a GET back.
    let shown = server.job("one").await;
    assert_eq!(shown["headers"], headers);
    assert_eq!(patch(shown).await["headers"], headers);
    let other = json!({"b": "2"});
    let changed = patch(json!({ "headers": other })).await;
    assert_eq!(changed["headers"], other, "the new headers have not replaced the old ones");
    assert_eq!(patch(json!({"ttr": 90})).await["headers"], other);
    let popped = server.pop("t/pop?count=10").await;
    assert_eq!(popped.iter().filter(|job| job["headers"] == other).count(), 1);
    server.act("one", "release", r#"{"delay":0}"#).await.ok(200);
    assert!(patch(json!({"headers": null})).await.get("headers").is_none());
    assert!(server.job("one").await.get("headers").is_none());
}
