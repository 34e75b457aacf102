//! Schemas of single values. Requests allow more forms of durations and times than answers. The
//! generator's contract shows whether a schema is for a request or an answer.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::{
    access::{Scope, Scopes, TokenName},
    http::problem::Code,
    job::{
        MAX_ERROR_BYTES, MAX_FINISHED_RETENTION, MAX_NAME, MAX_PATTERNS, MAX_TTR, MIN_TTR, Millis,
        Topics,
    },
};

pub use crate::job::schema::{duration, duration_in_query};

/// Any JSON value.
pub struct Anything;
/// Time that a consumer has to finish a job.
pub struct Ttr;
/// Time that a finished job is kept.
pub struct FinishedRetention;
/// Time from the due time of a job until it expires.
pub struct ExpiresAfter;
/// A duration longer than 0.
pub struct Span;
/// Reason of a release or bury.
pub struct ErrorText;
/// Health of a server and its store.
pub struct Health;
super::schemas! {
    Anything => |_| json_schema!(true);
    TokenName => |_| crate::job::schema::name("._-");
    Span => |_| crate::job::schema::span();
    Ttr => |_| duration(MIN_TTR, MAX_TTR);
    ExpiresAfter => |_| crate::job::schema::span();
    FinishedRetention => |_| duration(Millis::ZERO, MAX_FINISHED_RETENTION);
    ErrorText => |_| json_schema!({ "type": "string", "maxLength": MAX_ERROR_BYTES });
    Health => |_| json_schema!({ "type": "string", "enum": ["ok", "degraded", "unavailable"] });
    Code, "Code" => |_| json_schema!({
        "type": "string",
        "enum": Code::ALL.iter().map(|code| code.name()).collect::<Vec<_>>(),
    });
    Scopes => |generator| scopes(generator);
}

/// Returns the schema of a time in a query.
pub fn time_in_query() -> Schema {
    json_schema!({ "anyOf": [
        { "type": "string", "format": "date-time" },
        { "type": "string", "pattern": "^[0-9]{13}$" },
    ] })
}

/// Returns the schema of the topics in the path of a pop: one, or several separated by commas.
pub fn topics_of_path(max_topics: usize) -> Schema {
    let topic = format!("[A-Za-z0-9._-]{{1,{MAX_NAME}}}");
    json_schema!({
        "type": "string",
        "pattern": format!("^{topic}(,{topic}){{0,{}}}$", max_topics - 1),
        "format": "topics",
        "not": { "enum": [".", ".."] },
    })
}

/// Returns the schema of a token's scopes. Each may be absent, and in a request null.
fn scopes(generator: &mut SchemaGenerator) -> Schema {
    let is_request = generator.contract().is_deserialize();
    let mut property = |scope: Scope| {
        let mut topics = match scope {
            Scope::Admin => {
                json!({ "type": "array", "items": { "const": "*" }, "minItems": 1, "maxItems": MAX_PATTERNS })
            }
            _ => generator.subschema_for::<Topics>().to_value(),
        };
        topics["description"] = allows(scope).into();
        if is_request {
            topics["type"] = json!(["array", "null"]);
        }
        (scope.name().to_owned(), topics)
    };
    let properties: serde_json::Map<_, _> = Scope::ALL.into_iter().map(&mut property).collect();
    let none = Scope::ALL.map(|scope| (scope.name(), json!({ "type": "null" })));
    json_schema!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "not": { "properties": serde_json::Map::from_iter(none.map(|(name, null)| (name.to_owned(), null))) },
        "description": "The actions that a token allows: at least one scope, each with a list of topic patterns. \
                        `billing` matches that topic, `billing.*` all topics that begin with `billing.`, and `*` all \
                        topics. The only pattern of `admin` is `*`.",
    })
}

/// Returns the actions that a scope allows, for the documentation.
pub fn allows(scope: Scope) -> &'static str {
    match scope {
        Scope::Put => "Put jobs.",
        Scope::Pop => "Pop, finish, release, touch and bury jobs.",
        Scope::Cancel => {
            "Get, delete, change and kick jobs by their ids; without `read`, the answers have no contents."
        }
        Scope::Read => "Read jobs, topics and metrics.",
        Scope::Manage => {
            "Kick, delete and change jobs; pause, resume, purge and set the defaults of topics."
        }
        Scope::Push => {
            "Set, read, pause and test the push of topics, by which the server sends requests."
        }
        Scope::Admin => {
            "Create, list and revoke tokens. Its pattern is `*`, since tokens belong to no topic."
        }
    }
}
