//! Declarations of routes: the handler, the required token or scope, and the description in
//! OpenAPI.

use std::collections::BTreeMap;

use axum::{handler::Handler, http::Method, response::Response};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use crate::{
    access::Scope,
    http::{
        call::{Call, Endpoint},
        client::need::Need,
        problem::{Code, Written},
    },
};

const JSON: &str = "application/json";

/// The listener that serves a route, if operators have their own listener (`server.admin_listen`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// The listener for jobs and topics.
    Queue,
    /// The listener for operators and their monitors.
    Operations,
    /// Both listeners.
    Both,
    /// The listener for jobs and topics, without admission: every caller may read the description.
    Description,
    /// The same as `Description`, for a page, which has no path under `/v1`.
    Page,
}

/// Method with its handler.
pub struct Handled(Method, Endpoint);

/// Routes requests with this method to this handler.
pub fn on<H, T>(method: Method, handler: H) -> Handled
where
    H: Handler<T, Call, Future = BoxFuture<'static, Response>>,
{
    Handled(method, Endpoint::new(handler))
}

/// Declaration of a route and method, for the router, the check of scopes and OpenAPI.
pub struct Operation {
    pub method: Method,
    pub path: &'static str,
    pub endpoint: Endpoint,
    pub listener: Listener,
    pub need: Need,
    /// Whether HEAD is refused, because the GET changes jobs.
    pub refuses_head: bool,
    content: Map<String, Value>,
    parameters: Vec<Value>,
    answers: Vec<(u16, Value)>,
    codes: Vec<Code>,
}

impl Operation {
    /// Declares an operation, without answers yet. `name` is for generated clients, `summary` for
    /// people.
    pub fn new(handler: Handled, path: &'static str, name: &str, summary: &str) -> Self {
        let Handled(method, endpoint) = handler;
        let content = json!({ "operationId": name, "summary": summary });
        let Value::Object(content) = content else { unreachable!("an object") };
        let codes = vec![
            Code::ForbiddenOrigin,
            Code::RequestTimeout,
            Code::UnsupportedEncoding,
            Code::UnsupportedTransferEncoding,
            Code::HeadersTooLarge,
            Code::Internal,
            Code::ShuttingDown,
        ];
        Self {
            method,
            path,
            endpoint,
            listener: Listener::Queue,
            need: Need::AnyToken,
            refuses_head: false,
            content,
            parameters: Vec::new(),
            answers: Vec::new(),
            codes,
        }
    }

    /// Sets the description, in CommonMark.
    pub fn text(mut self, text: &str) -> Self {
        self.content.insert("description".to_owned(), text.into());
        self
    }

    pub fn tag(mut self, tag: &str) -> Self {
        self.content.insert("tags".to_owned(), json!([tag]));
        self
    }

    /// Sets the listener, by default [`Listener::Queue`].
    pub fn served_on(self, listener: Listener) -> Self {
        Self { listener, ..self }
    }

    /// Refuses HEAD, and leaves it out of `Allow`.
    pub fn without_head(self) -> Self {
        Self { refuses_head: true, ..self }
    }

    /// Requires a token with any of these scopes.
    pub fn needs(self, scopes: &'static [Scope]) -> Self {
        let names = scopes.iter().map(|scope| json!([scope.name()]));
        let secured = self.secured(names).refuses(&[Code::Forbidden]);
        Self { need: Need::AnyOf(scopes), ..secured }
    }

    /// Requires a token with any scope.
    pub fn needs_any_token(self) -> Self {
        self.secured([json!([])])
    }

    /// Adds the alternative scopes, an empty alternative for servers without tokens, and the
    /// problems of requests with tokens.
    fn secured(mut self, alternatives: impl IntoIterator<Item = Value>) -> Self {
        let tokens = alternatives.into_iter().map(|scopes| json!({ "token": scopes }));
        let all: Vec<Value> = tokens.chain([json!({})]).collect();
        self.content.insert("security".to_owned(), all.into());
        self.refuses(&[
            Code::Unauthenticated,
            Code::InvalidField,
            Code::TooManyRequests,
            Code::StoreUnavailable,
            Code::StoreReplaced,
        ])
    }

    /// Requires no token.
    pub fn open(mut self) -> Self {
        self.content.insert("security".to_owned(), json!([]));
        Self { need: Need::Nothing, ..self }
    }

    pub fn in_path(self, name: &str, schema: &Value, text: &str, example: &str) -> Self {
        self.parameter(json!({
            "name": name, "in": "path", "required": true,
            "description": text, "schema": schema, "example": example,
        }))
    }

    pub fn in_query(self, name: &str, required: bool, schema: &Value, text: &str) -> Self {
        self.parameter(json!({
            "name": name, "in": "query", "required": required, "description": text, "schema": schema,
        }))
    }

    /// Adds an example to the last parameter.
    pub fn such_as(mut self, example: &str) -> Self {
        if let Some(parameter) = self.parameters.last_mut() {
            parameter["example"] = example.into();
        }
        self
    }

    fn parameter(mut self, parameter: Value) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// Requires a body.
    pub fn takes(self, schema: &Value, example: &Value) -> Self {
        self.body(schema, example, true)
    }

    /// Allows a body.
    pub fn may_take(self, schema: &Value, example: &Value) -> Self {
        self.body(schema, example, false)
    }

    fn body(mut self, schema: &Value, example: &Value, required: bool) -> Self {
        let body = json!({
            "required": required,
            "content": { JSON: { "schema": schema, "example": example } },
        });
        self.content.insert("requestBody".to_owned(), body);
        self.refuses(&[
            Code::InvalidJson,
            Code::InvalidRequest,
            Code::BodyTooLarge,
            Code::UnsupportedMediaType,
            Code::InvalidField,
            Code::Overloaded,
        ])
    }

    /// Adds a success without a body.
    pub fn done(mut self, status: u16, text: &str) -> Self {
        self.answers.push((status, json!({ "description": text, "headers": headers(&[]) })));
        self
    }

    /// Adds a success with JSON.
    pub fn gives(self, status: u16, text: &str, schema: &Value, example: &Value) -> Self {
        self.gives_as(status, text, JSON, &json!({ "schema": schema, "example": example }))
    }

    /// Adds a success with content of another type.
    pub fn gives_as(mut self, status: u16, text: &str, kind: &str, content: &Value) -> Self {
        let answer =
            json!({ "description": text, "headers": headers(&[]), "content": { kind: content } });
        self.answers.push((status, answer));
        self
    }

    /// Adds another content type to the last success.
    pub fn or_as(mut self, kind: &str, content: &Value) -> Self {
        if let Some((_, answer)) = self.answers.last_mut() {
            answer["content"][kind] = content.clone();
        }
        self
    }

    /// Adds a header to the last success.
    pub fn with_header(mut self, name: &str, text: &str, example: &str) -> Self {
        if let Some((_, answer)) = self.answers.last_mut() {
            answer["headers"][name] = json!({
                "description": text, "schema": { "type": "string" }, "example": example,
            });
        }
        self
    }

    /// Adds problems that the route may answer with.
    pub fn refuses(mut self, codes: &[Code]) -> Self {
        let new = codes.iter().filter(|code| !self.codes.contains(code));
        let new: Vec<Code> = new.copied().collect();
        self.codes.extend(new);
        self
    }

    /// Returns the operation's description, and adds its problems to the shared `responses`.
    pub fn finish(mut self, responses: &mut Map<String, Value>, schemas: &mut Schemas) -> Value {
        let mut answers: Map<String, Value> =
            self.answers.into_iter().map(|(status, answer)| (status.to_string(), answer)).collect();
        let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
        for &code in Code::ALL.iter().filter(|code| self.codes.contains(code)) {
            by_status.entry(code.status().as_u16()).or_default().push(code);
        }
        for (status, codes) in by_status {
            let names: Vec<String> = codes.iter().map(|code| format!("{code:?}")).collect();
            let name = names.join("Or");
            answers.insert(
                status.to_string(),
                json!({ "$ref": format!("#/components/responses/{name}") }),
            );
            responses.entry(name).or_insert_with(|| problems(&codes, schemas));
        }
        if !self.parameters.is_empty() {
            self.content.insert("parameters".to_owned(), self.parameters.into());
        }
        self.content.insert("responses".to_owned(), answers.into());
        self.content.into()
    }
}

/// Describes an answer with one of these codes, which all have the same status.
fn problems(codes: &[Code], schemas: &mut Schemas) -> Value {
    let lines = codes.iter().map(|code| format!("`{}`: {}", code.name(), code.when()));
    let lines: Vec<String> = lines.collect();
    let mut schema = schemas.answer::<Written>();
    let names: Vec<&str> = codes.iter().map(|code| code.name()).collect();
    schema["properties"] = json!({ "code": { "enum": names } });
    let mut extra = Vec::new();
    match codes[0].status().as_u16() {
        429 | 503 => extra.push("Retry-After"),
        401 => extra.push("WWW-Authenticate"),
        _ => {}
    }
    json!({
        "description": format!("{}.", lines.join(".\n\n")),
        "headers": headers(&extra),
        "content": { "application/problem+json": { "schema": schema } },
    })
}

/// Describes the headers that every answer has, and `others`.
fn headers(others: &[&str]) -> Value {
    let all = ["X-Request-Id"].into_iter().chain(others.iter().copied());
    let all = all
        .map(|name| (name.to_owned(), json!({ "$ref": format!("#/components/headers/{name}") })));
    Map::from_iter(all).into()
}
