//! Export of spans to a collector: OTLP over HTTP, in batches, by a thread of the SDK.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry::{
    Context, KeyValue,
    trace::{
        SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
    },
};
use opentelemetry_http::{HttpClient, HttpError, Request, Response, hyper::HyperClient};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracerProvider},
};
use tokio::runtime::Handle;
use tracing::{Span, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, Registry, filter::Targets};

use super::TARGET;
use crate::job::TraceParent;

/// Maximum time that the collector may take to answer a batch; after it, the batch is lost.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to send the last spans when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The export of spans, which ends when this value is dropped.
pub struct Export {
    provider: SdkTracerProvider,
}

impl Export {
    /// Creates the export of spans to `endpoint`, of a part `sampled` of all traces, from 0 to 1;
    /// `None` without an endpoint. Its HTTP requests run on `runtime`.
    ///
    /// # Errors
    /// The endpoint is not a URL.
    pub fn new(
        endpoint: Option<&str>,
        sampled: f64,
        runtime: Handle,
    ) -> Result<Option<Self>, ExporterBuildError> {
        let Some(endpoint) = endpoint else { return Ok(None) };
        let client = Arc::new(HyperClient::with_default_connector(TIMEOUT, None));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(RuntimeClient { runtime, client })
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .with_timeout(TIMEOUT)
            .build()?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name("delay-queue");
        let root = Sampler::TraceIdRatioBased(sampled);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(root)))
            .with_resource(resource.with_attribute(version).build());
        Ok(Some(Self { provider: provider.build() }))
    }

    /// Returns the layer that exports spans, except those of the SDK and its HTTP client.
    pub fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let tracer = self.provider.tracer("delay-queue");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        let layer = layer.with_location(false).with_threads(false).with_target(false);
        let own_spans = Targets::new().with_target(TARGET, LevelFilter::DEBUG);
        layer.with_tracked_inactivity(false).with_filter(own_spans).boxed()
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT) {
            tracing::warn!(%error, "failed to export the last spans");
        }
    }
}

/// HTTP client that runs on the server's tokio runtime: the client needs a runtime, and the SDK
/// calls it from a thread without one.
#[derive(Debug)]
struct RuntimeClient {
    runtime: Handle,
    client: Arc<HyperClient>,
}

#[async_trait]
impl HttpClient for RuntimeClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = Arc::clone(&self.client);
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}

/// Makes the span a part of its caller's trace.
pub fn continues(span: &Span, caller: TraceParent) {
    let parent = Context::new().with_remote_span_context(remote(caller));
    // Fails only without a collector; then the parent does not matter.
    let _ = span.set_parent(parent);
}

/// Links the span to that of the put.
pub fn links(span: &Span, put: TraceParent) {
    span.add_link(remote(put));
}

fn remote(parent: TraceParent) -> SpanContext {
    let (trace, span) = (parent.trace().to_be_bytes(), parent.span().to_be_bytes());
    let (trace, span) = (TraceId::from_bytes(trace), SpanId::from_bytes(span));
    SpanContext::new(trace, span, TraceFlags::new(parent.flags()), true, TraceState::NONE)
}
