//! Trace contexts that jobs have from their producers.

use crate::api::prelude::*;

pub async fn a_job_gives_its_consumers_the_traceparent_of_its_put(server: Server) {
    let [own, of_request] = ["1", "2"]
        .map(|digit| format!("00-4bf92f3577b34da6a3ce929d0e0e473{digit}-00f067aa0ba902b7-01"));
    let put = |header: &str, body: String| {
        let put = server.request(Method::POST, "/jobs").header("traceparent", header).body(body);
        async { Server::send(put).await.ok(201) }
    };
    put(&of_request, r#"{"topic":"t","id":"header"}"#.to_owned()).await;
    put(&of_request, format!(r#"{{"topic":"t","id":"field","traceparent":"{own}"}}"#)).await;
    put("not-one", r#"{"topic":"t","id":"neither"}"#.to_owned()).await;
    let long = format!(r#"{{"topic":"t","id":"long","body":"{}"}}"#, "x".repeat(10_000));
    put(&of_request, long).await;
    let batch = format!(
        r#"{{"jobs":[{{"topic":"t","id":"one","traceparent":"{own}"}},{{"topic":"t","id":"two"}}]}}"#
    );
    server.post("/batch/jobs", batch).await.ok(200);

    for attempt in 1..=2 {
        let jobs = server.pop("t/pop?count=10").await;
        let mut given: Vec<_> =
            jobs.iter().map(|job| (job["id"].as_str(), job["traceparent"].as_str())).collect();
        given.sort_unstable();
        let (own, of_request) = (Some(own.as_str()), Some(of_request.as_str()));
        let expected = [
            (Some("field"), own),
            (Some("header"), of_request),
            (Some("long"), of_request),
            (Some("neither"), None),
            (Some("one"), own),
            (Some("two"), None),
        ];
        assert_eq!(given, expected, "attempt {attempt}");
        for job in jobs {
            let id = id_of(&job);
            server.act(id, "release", r#"{"delay":0}"#).await.ok(200);
        }
    }

    // A client may send the `traceparent` of a GET back, but no other one.
    let shown = server.job("field").await;
    assert_eq!(shown["traceparent"], own.as_str());
    let patch = async |body: String| server.patch("field", body).await;
    assert_eq!(patch(shown.to_string()).await.ok(200)["traceparent"], own.as_str());
    let same = format!(r#"{{"ttr":90,"traceparent":"{own}"}}"#);
    assert_eq!(patch(same).await.ok(200)["traceparent"], own.as_str());
    let other = format!(r#"{{"ttr":90,"traceparent":"{of_request}"}}"#);
    patch(other).await.problem(422, "invalid_field");
    let bad = r#"{"topic":"t","traceparent":"00-1"}"#;
    server.post("/jobs", bad).await.problem(422, "invalid_field");
}
