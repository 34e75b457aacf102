//! Traces: the real server exports the spans of its requests to a collector inside the test.

use std::sync::Mutex;

use axum::{Router, body::Bytes, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    trace::v1::{Span, span::SpanKind},
};
use prost::Message;

use crate::start::prelude::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Starts a collector on a free port. Returns its URL and the requests that it receives.
async fn collector() -> (String, Arc<Mutex<Vec<ExportTraceServiceRequest>>>) {
    let got = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&got);
    let take = async move |body: Bytes| {
        to.lock().expect("unpoisoned").push(ExportTraceServiceRequest::decode(body).expect("OTLP"));
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
    let routes = Router::new().route("/v1/traces", post(take));
    tokio::spawn(crate::support::serve::serve(listener, routes));
    (url, got)
}

async fn call(server: &Logged, path: &str, traceparent: Option<&str>, body: Value) -> Value {
    let request = traceparent.into_iter().fold(server.request("POST", path), |request, parent| {
        request.header("traceparent", parent)
    });
    let answer = request.body(body.to_string()).send().await.expect("an answer");
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    serde_json::from_str(&answer.text().await.expect("text")).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the spans that the collector has received, each from a resource with the service name.
fn exported(got: &Mutex<Vec<ExportTraceServiceRequest>>) -> Vec<Span> {
    let exports = std::mem::take(&mut *got.lock().expect("unpoisoned"));
    let resources = exports.into_iter().flat_map(|export| export.resource_spans);
    let scopes = resources.flat_map(|resource| {
        let attributes = format!("{:?}", resource.resource);
        assert!(attributes.contains("delay-queue"), "no service name: {attributes}");
        resource.scope_spans
    });
    scopes.flat_map(|scope| scope.spans).collect()
}

#[track_caller]
fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    let [span] = found[..] else { panic!("{} spans {name:?} of {spans:#?}", found.len()) };
    span
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_joins_the_callers_trace_and_a_pop_links_to_it() {
    let (url, got) = collector().await;
    let (_place, server) = logged(&format!("[traces]\notlp_endpoint = {url:?}"));
    let caller = format!("00-{TRACE}-{PARENT}-01");
    call(&server, "/jobs", Some(&caller), json!({"topic": "t", "id": "a"})).await;
    let popped = call(&server, "/topics/t/pop", None, json!({})).await;
    assert_eq!(popped["jobs"][0]["traceparent"], caller);
    call(&server, "/jobs/a/finish", None, json!({})).await;
    call(&server, "/batch/jobs", None, json!({"jobs": [{"topic": "t", "delay": 0.05}]})).await;
    let late = call(&server, "/topics/t/pop", Some(&caller), json!({"wait": "1m"})).await;
    assert_eq!(late["jobs"].as_array().map(Vec::len), Some(1));
    server.stopped();

    let spans = exported(&got);
    let put = named(&spans, "POST /jobs");
    assert_eq!((hex(&put.trace_id), hex(&put.parent_span_id)), (TRACE.into(), PARENT.into()));
    assert_eq!(put.kind, SpanKind::Server as i32);
    let attributes = format!("{:?}", put.attributes);
    for word in ["http.response.status_code", "201", "http.route", "request_id"] {
        assert!(attributes.contains(word), "{word}: {attributes}");
    }
    let within = |parent: &Span| {
        let within = spans.iter().find(|span| span.parent_span_id == parent.span_id);
        within.unwrap_or_else(|| panic!("no span within {parent:#?}: {spans:#?}"))
    };
    let batch = within(put);
    assert_eq!((batch.name.as_str(), within(batch).name.as_str()), ("batch", "store put"));
    assert!(spans.iter().any(|span| span.name == "store promote"), "{spans:#?}");

    let pops = spans.iter().filter(|span| span.name == "POST /topics/{topic}/pop");
    let (linked, not): (Vec<&Span>, Vec<&Span>) = pops.partition(|span| !span.links.is_empty());
    let ([pop], [late]) = (&linked[..], &not[..]) else {
        panic!("the spans must have exactly two pops: {spans:#?}")
    };
    assert_eq!(hex(&late.trace_id), TRACE);
    let linked: Vec<_> =
        pop.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect();
    assert_eq!(linked, [(TRACE.to_owned(), PARENT.to_owned())]);
    assert_ne!(hex(&pop.trace_id), TRACE, "the pop must have its own trace");
    assert_eq!(within(named(&spans, "POST /jobs/{id}/finish")).name, "batch");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsampled_request_is_exported_only_for_its_caller() {
    let (url, got) = collector().await;
    let (_place, server) = logged(&format!("[traces]\notlp_endpoint = {url:?}\nsampled = 0.0"));
    let caller = format!("00-{TRACE}-{PARENT}-01");
    let not_sampled = format!("00-{TRACE}-{PARENT}-00");
    call(&server, "/jobs", None, json!({"topic": "t"})).await;
    call(&server, "/topics/t/pause", Some(&not_sampled), json!({})).await;
    call(&server, "/topics/t/resume", Some(&caller), json!({})).await;
    server.stopped();
    let names: Vec<String> = exported(&got).into_iter().map(|span| span.name).collect();
    assert!(names.contains(&"POST /topics/{topic}/resume".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("jobs") || name.contains("pause")), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_collector_delays_no_request() {
    let url = format!("http://127.0.0.1:{}/v1/traces", free_port());
    let (_place, server) = logged(&format!("[traces]\notlp_endpoint = {url:?}"));
    call(&server, "/jobs", None, json!({"topic": "t"})).await;
    assert_eq!(call(&server, "/topics/t/pop", None, json!({})).await["jobs"][0]["topic"], "t");
    let log = server.stopped();
    assert!(log.contains("BatchSpanProcessor") || log.contains("export"), "{log}");
}

#[test]
fn an_endpoint_that_is_not_a_url_is_refused() {
    let place = WorkDir::new();
    for endpoint in ["collector:4318", "https://127.0.0.1:4318", "http://me:secret@host", ""] {
        let line = place
            .refused(&format!("[traces]\notlp_endpoint = {endpoint:?}"), &["traces.otlp_endpoint"]);
        assert!(!line.contains("secret"), "{line}");
    }
    place.refused("[traces]\nsampled = 1.5", &["traces.sampled", "from 0 to 1", "1.5"]);
}
