//! `/openapi.json`: it must describe all routes and the real answers of the server.

use jsonschema::Validator;
use reqwest::{Method, RequestBuilder, Response};

use crate::start::api_page::{PAGE, difference};
use crate::start::prelude::*;

/// The description, its server, and a token with all scopes.
struct Described {
    server: Process,
    _place: WorkDir,
    client: reqwest::Client,
    description: Value,
    token: String,
}

struct Operation<'a> {
    method: Method,
    path: &'a str,
    about: &'a Value,
}

impl Described {
    async fn start() -> Self {
        let (_place, server) = started("").await;
        let (_, description) = server.get("/openapi.json").await;
        let scopes = ["put", "pop", "read", "manage", "push", "admin"];
        let scopes = BTreeMap::from(scopes.map(|name| (name, json!(["*"]))));
        // While there are no tokens, creating the first one needs no token.
        let first = server.post_ok("/tokens", json!({"name": "all", "scopes": scopes})).await;
        let token = first["token"].as_str().expect("a token").to_owned();
        Self { server, _place, client: crate::support::http::client(), description, token }
    }

    fn operations(&self) -> Vec<Operation<'_>> {
        let mut all = Vec::new();
        for (path, methods) in self.description["paths"].as_object().expect("paths") {
            for (method, about) in methods.as_object().expect("methods") {
                let method = method.to_uppercase().parse().expect("a method");
                all.push(Operation { method, path, about });
            }
        }
        all
    }

    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        let Some(reference) = value["$ref"].as_str() else { return value };
        let pointer = reference.strip_prefix('#').expect("a reference within the description");
        self.description.pointer(pointer).unwrap_or_else(|| panic!("{reference} has no target"))
    }

    fn validator(&self, schema: &Value) -> Validator {
        let mut schema = schema.clone();
        schema["components"] = self.description["components"].clone();
        let options = jsonschema::draft202012::options().should_validate_formats(true);
        options.build(&schema).expect("a schema")
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.server.base));
        request.bearer_auth(&self.token)
    }

    async fn ask(&self, method: Method, path: &str, body: Value) -> Value {
        let request = self.request(method, path);
        let request = if body.is_null() { request } else { request.body(body.to_string()) };
        let answer = request.send().await.expect("an answer").text().await.expect("text");
        serde_json::from_str(&answer).unwrap_or_default()
    }

    /// Asserts that the description of the operation allows this answer. Returns its JSON.
    async fn described(&self, operation: &Operation<'_>, answer: Response) -> Value {
        let (status, headers) = (answer.status(), answer.headers().clone());
        let text = answer.text().await.expect("text");
        let name = &operation.about["operationId"];
        let responses = &operation.about["responses"];
        let response = self.resolved(&responses[status.as_str()]);
        assert!(response.is_object(), "{name}: {status} is not described: {text}");
        for header in response["headers"].as_object().expect("headers").keys() {
            assert!(headers.contains_key(header), "{name}: {status} lacks {header}");
        }
        let Some(content) = response.get("content") else {
            assert_eq!(text, "", "{name}: the answer {status} has an undescribed body");
            return Value::Null;
        };
        let kind = headers["content-type"].to_str().expect("text");
        let schema = &content[kind]["schema"];
        assert!(schema.is_object(), "{name}: {status} is not described as {kind}");
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if let Err(error) = self.validator(schema).validate(&value) {
            panic!("{name}: {status}: {error} at {}: {value}", error.instance_path());
        }
        value
    }

    /// Asserts that the request is refused with this status, as the description says.
    async fn refused(&self, operation: &Operation<'_>, request: RequestBuilder, status: u16) {
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), status, "{}", operation.path);
        self.described(operation, answer).await;
    }

    /// Puts a delayed job `call:1`, and brings it into the state that the operation needs. Returns
    /// a reservation if the operation needs one.
    async fn prepare(&self, name: &str) -> String {
        let example = |path: &str, method: &str| {
            let body = &self.description["paths"][path][method]["requestBody"];
            body["content"]["application/json"]["example"].clone()
        };
        for (method, path) in [
            (Method::DELETE, "/jobs/m1"),
            (Method::POST, "/topics/callbacks/resume"),
            (Method::DELETE, "/topics/callbacks/jobs"),
            (Method::DELETE, "/topics/callbacks/push"),
            (Method::DELETE, "/schedules/daily-report"),
            (Method::DELETE, "/topics/reports/jobs"),
        ] {
            self.ask(method, path, Value::Null).await;
        }
        self.ask(Method::PUT, "/topics/callbacks", example("/topics/{topic}", "put")).await;
        if name.ends_with("_push") && name != "set_push" {
            let push = example("/topics/{topic}/push", "put");
            self.ask(Method::PUT, "/topics/callbacks/push", push).await;
        }
        if name.ends_with("_schedule") && name != "set_schedule" || name == "list_schedules" {
            let schedule = example("/schedules/{name}", "put");
            self.ask(Method::PUT, "/schedules/daily-report", schedule).await;
        }
        if name == "put_job" {
            return String::new();
        }
        self.ask(Method::POST, "/jobs", example("/jobs", "post")).await;
        let of_consumers =
            ["finish", "touch", "release", "bury", "pop", "kick_topic", "count_errors"];
        if of_consumers.iter().any(|act| name.starts_with(act)) {
            self.ask(Method::POST, "/jobs/call:1/kick", Value::Null).await;
        }
        if name.starts_with("pop") || !of_consumers.iter().any(|act| name.starts_with(act)) {
            return String::new();
        }
        let popped = self.ask(Method::GET, "/topics/callbacks/pop", Value::Null).await;
        let reservation = popped["jobs"][0]["reservation"].as_str().expect("a job").to_owned();
        if ["kick_topic", "count_errors"].contains(&name) {
            let error = json!({"error": "no such shop"});
            self.ask(Method::POST, "/jobs/call:1/bury", error).await;
        }
        reservation
    }

    fn example(&self, operation: &Operation<'_>, reservation: &str) -> RequestBuilder {
        let mut path = operation.path.to_owned();
        let mut query = Vec::new();
        for parameter in operation.about["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().expect("a name");
            let Some(example) = parameter["example"].as_str() else { continue };
            match parameter["in"].as_str() {
                Some("path") => path = path.replace(&format!("{{{name}}}"), example),
                _ => query.push((name, example)),
            }
            let fits = self.validator(&parameter["schema"]).is_valid(&json!(example));
            assert!(fits, "{path}: {name}");
        }
        let request = self.request(operation.method.clone(), &path).query(&query);
        let content = &operation.about["requestBody"]["content"]["application/json"];
        let Some(example) = content.get("example") else { return request };
        let body = example.to_string().replace("5f0c9d1e2b3a4800d2c85fd14a0b9e36", reservation);
        let (schema, body) = (&content["schema"], serde_json::from_str(&body).expect("JSON"));
        let valid = self.validator(schema).validate(&body).map_err(|error| error.to_string());
        assert_eq!(valid, Ok(()), "{path}: {body}");
        request.json(&body)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_have_own_names_and_optional_tokens() {
    let described = Described::start().await;
    let operations = described.operations();
    let ids: BTreeSet<_> = operations.iter().map(|one| one.about["operationId"].as_str()).collect();
    assert_eq!(ids.len(), operations.len(), "two operations have the same name");
    for Operation { path, about, .. } in operations {
        let ways = about["security"].as_array().expect("a list");
        let without = ways.is_empty() || ways.contains(&json!({}));
        let has_one_scope = |way: &Value| {
            *way == json!({}) || way["token"].as_array().is_some_and(|scopes| scopes.len() <= 1)
        };
        assert!(without && ways.iter().all(has_one_scope), "{path}: {ways:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_has_every_code_at_its_status() {
    let described = Described::start().await;
    let code = &described.description["components"]["schemas"]["Code"]["enum"];
    let all: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(*code, json!(all));
    let mut found = BTreeSet::new();
    for operation in described.operations() {
        for (status, response) in operation.about["responses"].as_object().expect("responses") {
            let problem = &described.resolved(response)["content"]["application/problem+json"];
            let codes = &problem["schema"]["properties"]["code"]["enum"];
            for code in codes.as_array().into_iter().flatten() {
                found.insert((code.as_str().expect("text").to_owned(), status.clone()));
            }
        }
    }
    // No route returns these codes: they are for unknown paths and unknown methods.
    for code in [Code::RouteNotFound, Code::MethodNotAllowed] {
        let introduction = described.description["info"]["description"].as_str().expect("text");
        assert!(introduction.contains(code.name()));
        found.insert((code.name().to_owned(), code.status().as_str().to_owned()));
    }
    let of = |code: &Code| (code.name().to_owned(), code.status().as_str().to_owned());
    assert_eq!(found, Code::ALL.iter().map(of).collect(), "left: description, right: code");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_description_get_described_answers() {
    let described = Described::start().await;
    for operation in described.operations() {
        let name = operation.about["operationId"].as_str().expect("a name");
        let reservation = described.prepare(name).await;
        let request = described.example(&operation, &reservation);
        let answer = request.send().await.expect("an answer");
        let (status, responses) = (answer.status(), operation.about["responses"].as_object());
        let success: Vec<&String> = responses.expect("responses").keys().take(2).collect();
        assert!(success.iter().any(|one| **one == status.as_str()), "{name}: {status}");
        assert!(status.is_success(), "{name}: {status}");
        let mut value = described.described(&operation, answer).await;
        let content = &operation.about["responses"][status.as_str()]["content"];
        let mut shown = content["application/json"]["example"].clone();
        // These answers depend on the time and on earlier requests.
        let varying = ["get_overview", "get_access", "list_tokens", "test_push", "run_schedule"];
        if shown.is_null() || varying.contains(&name) {
            continue;
        }
        let schema = &content["application/json"]["schema"];
        assert!(described.validator(schema).is_valid(&shown), "{name}: {shown}");
        for counted in [&mut shown, &mut value] {
            counted.as_object_mut().map(|fields| fields.remove("since_start"));
        }
        assert_eq!(difference(&shown, &value, name), None, "{value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_get_described_answers() {
    let described = Described::start().await;
    for operation in described.operations() {
        if operation.about["security"] == json!([]) {
            continue;
        }
        let path = operation.path.replace("{id}", "nope").replace("{topic}", "t");
        let path = path.replace("{name}", "nope");
        let base = &described.server.base;
        let unknown = described.client.request(operation.method.clone(), format!("{base}{path}"));
        described.refused(&operation, unknown, 401).await;
        if path != "/metrics" {
            let request = described.request(operation.method.clone(), &format!("{path}?nope=1"));
            described.refused(&operation, request, 422).await;
        }
        if operation.about["requestBody"].is_object() {
            for (body, status) in [(r#"{"nope":1}"#, 422), ("{", 400)] {
                let request = described.request(operation.method.clone(), &path).body(body);
                described.refused(&operation, request, status).await;
            }
        }
        // A schedule is created by its first `PUT`.
        if path.contains("nope") && operation.about["operationId"] != "set_schedule" {
            let request = described.example(&operation, "0");
            described.refused(&operation, request, 404).await;
        }
    }
}

/// Collects the fields of an object schema and of all nested schemas, with their paths.
fn fields<'a>(schema: &'a Value, path: &str, found: &mut Vec<(String, &'a Value)>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        found.push((format!("{path}.{name}"), field));
        fields(field, &format!("{path}.{name}"), found);
    }
    for inner in schema["anyOf"].as_array().into_iter().flatten() {
        fields(inner, path, found);
    }
    if schema["items"].is_object() {
        fields(&schema["items"], path, found);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_and_field_is_explained_on_the_api_page() {
    let described = Described::start().await;
    let is_text = |value: &Value| value.as_str().is_some_and(|text| text.len() >= 5);
    let mut unexplained = Vec::new();
    for Operation { about, path, .. } in described.operations() {
        if !is_text(&about["summary"]) || !is_text(&about["description"]) {
            unexplained.push(path.to_owned());
        }
        for parameter in about["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().expect("a name");
            let is_named =
                PAGE.contains(&format!("`{name}`")) || PAGE.contains(&format!("{{{name}}}"));
            if !is_text(&parameter["description"]) || !is_named {
                unexplained.push(format!("{path}: {name}"));
            }
        }
    }
    let schemas = described.description["components"]["schemas"].as_object().expect("schemas");
    for (name, schema) in schemas {
        let mut found = Vec::new();
        fields(schema, name, &mut found);
        for (path, field) in found {
            let last = path.rsplit('.').next().unwrap_or_default();
            let explained = is_text(&field["description"])
                || is_text(&described.resolved(field)["description"]);
            let quoted = [format!("`{last}`"), format!("\"{last}\"")];
            if !explained || !quoted.iter().any(|text| PAGE.contains(text)) {
                unexplained.push(path);
            }
        }
    }
    assert_eq!(unexplained, [""; 0], "fields without a description, or missing in docs/api.md");
}
