//! JSON Schemas of single values. Requests allow more forms of durations and times than answers.
//! The generator's contract shows whether a schema is for a request or an answer.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{
    AttemptOutcome, Backoff, Consumer, Headers, JobId, MAX_CONSUMER, MAX_DURATION, MAX_FACTOR,
    MAX_HEADERS, MAX_NAME, MAX_PATTERNS, MAX_SCHEDULE_NAME, MAX_VALUES, Millis, OnConflict,
    Outcome, Priority, Rate, ScheduleName, State, States, TaggedReservation, Topic, Topics,
    TraceParent, UnixMillis,
};

/// One or more numbers with a unit.
const UNITS: &str = r"([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+";

/// Implements `JsonSchema`. A type with a name becomes a component, others are inlined.
#[macro_export]
macro_rules! schemas {
    ($($type:ty $(, $name:literal)? => $schema:expr;)+) => {
        $(impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                [$($name,)? stringify!($type)][0].into()
            }

            fn inline_schema() -> bool {
                [$($name,)? ""][0].is_empty()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema = $schema;
                schema(generator)
            }
        })+
    };
}

schemas! {
    JobId => |_| name("._:-");
    Topic => |_| name("._-");
    State, "State" => |_| json_schema!({
        "type": "string",
        "enum": State::ALL.map(State::name),
        "description": "`delayed`: waits for its due time. `ready`: may be popped. `reserved`: held by a consumer. \
                        `dead`: its attempts are spent, or it was buried; kept until it is kicked, deleted or past \
                        its retention. `finished`: finished, or deleted and remembered; kept until it is deleted or \
                        past its retention.",
    });
    OnConflict, "OnConflict" => |_| json_schema!({
        "type": "string",
        "enum": ["reject", "keep", "replace"],
        "description": "`reject`: 409 `job_exists`. `keep`: the existing job stays as it is. `replace`: the job gets the \
                        new body and schedule.",
    });
    TaggedReservation => |_| json_schema!({ "type": "string", "pattern": "^[0-9a-f]{32}$" });
    Millis => |generator| match generator.contract().is_serialize() {
        true => json_schema!({ "type": "number", "minimum": 0 }),
        false => duration(Millis::ZERO, MAX_DURATION),
    };
    TraceParent => |_| trace_parent();
    Priority => |_| json_schema!({
        "type": "integer", "minimum": Priority::MIN.get(), "maximum": Priority::MAX.get(),
    });
    Consumer => |_| json_schema!({
        "type": "string",
        "pattern": format!("^[A-Za-z0-9._:@/-]{{1,{MAX_CONSUMER}}}$"),
    });
    AttemptOutcome, "AttemptOutcome" => |_| json_schema!({
        "type": "string",
        "enum": ["released", "timed_out", "buried", "finished"],
        "description": "`released`: the consumer gave the job back. `timed_out`: the TTR ended. `buried`: the consumer \
                        made the job dead. `finished`: the consumer finished the job.",
    });
    Outcome, "Outcome" => |_| json_schema!({ "type": "string", "enum": ["finished", "deleted"] });
    UnixMillis => |generator| match generator.contract().is_serialize() {
        true => json_schema!({ "type": "string", "format": "date-time" }),
        false => json_schema!({ "anyOf": [
            { "type": "string", "format": "date-time" },
            { "type": "integer", "minimum": 1_000_000_000_000_u64, "maximum": 9_999_999_999_999_u64 },
        ] }),
    };
    Backoff => |generator| backoff(generator);
    Headers => |_| json_schema!({
        "type": "object",
        "maxProperties": MAX_HEADERS,
        "propertyNames": { "pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
        "additionalProperties": { "type": "string", "pattern": r"^[\t -~]*$" },
    });
    States => |_| json_schema!({
        "type": "string",
        "pattern": format!("^({0})(,({0}))*$", State::ALL.map(State::name).join("|")),
    });
    Topics => |_| json_schema!({
        "type": "array", "minItems": 1, "maxItems": MAX_PATTERNS,
        "items": {
            "type": "string",
            "pattern": format!(r"^([A-Za-z0-9._-]{{0,{}}}\*|[A-Za-z0-9._-]{{1,{MAX_NAME}}})$", MAX_NAME - 1),
            "not": { "enum": [".", ".."] },
        },
    });
    Rate => |_| json_schema!({
        "type": "string", "pattern": "^(?!0+/)(0?[0-9]{1,6}|1000000)/[smh]$",
    });
    ScheduleName => |_| json_schema!({
        "type": "string",
        "pattern": format!("^[A-Za-z0-9._-]{{1,{MAX_SCHEDULE_NAME}}}$"),
        "not": { "enum": [".", "..", "preview"] },
    });
}

/// Returns the schema of a name of letters, digits and `extra` characters.
pub fn name(extra: &str) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": format!("^[A-Za-z0-9{extra}]{{1,{MAX_NAME}}}$"),
        "not": { "enum": [".", ".."] },
    })
}

/// Returns the schema of a `traceparent`: of version 00, or of a later version that begins in the
/// same way. Neither of its ids may be zero.
fn trace_parent() -> Schema {
    let ids = "(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}";
    let pattern = format!("^(00-{ids}|(?!00|ff)[0-9a-f]{{2}}-{ids}(-.*)?)$");
    json_schema!({ "type": "string", "pattern": pattern, "format": "traceparent" })
}

/// Returns the schema of a duration in the JSON of a request.
pub fn duration(min: Millis, max: Millis) -> Schema {
    json_schema!({ "anyOf": [
        { "type": "number", "minimum": whole_seconds(min), "maximum": whole_seconds(max) },
        { "type": "string", "pattern": format!("^{UNITS}$"), "format": format_of(min, max) },
    ] })
}

/// Returns the schema of a duration longer than 0 in the JSON of a request.
pub fn span() -> Schema {
    let mut schema = duration(Millis::new(1), MAX_DURATION);
    if let Some(number) = schema.pointer_mut("/anyOf/0").and_then(Value::as_object_mut) {
        number.remove("minimum");
        number.insert("exclusiveMinimum".to_owned(), 0.into());
    }
    schema
}

/// Returns the schema of a duration in a query.
pub fn duration_in_query(min: Millis, max: Millis) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": format!(r"^([0-9]+(\.[0-9]+)?|{UNITS})$"),
        "format": format_of(min, max),
    })
}

/// Returns a name for the limits of a duration, which a pattern cannot express.
pub fn format_of(min: Millis, max: Millis) -> String {
    format!("duration-from-{}-to-{}", min.as_seconds(), max.as_seconds())
}

/// Returns a limit in seconds, which all limits are whole numbers of.
pub fn whole_seconds(span: Millis) -> u64 {
    span.get() / 1_000
}

fn backoff(generator: &mut SchemaGenerator) -> Schema {
    let span = generator.subschema_for::<Millis>();
    let initial = match generator.contract().is_deserialize() {
        true => self::span(),
        false => span.clone(),
    };
    let optional = |mut schema: Value| {
        if generator.contract().is_deserialize() {
            schema["type"] = json!(["number", "null"]);
        }
        schema
    };
    let required = match generator.contract().is_deserialize() {
        true => json!(["initial", "max"]),
        false => json!(["initial", "factor", "max", "jitter"]),
    };
    json_schema!({ "anyOf": [
        { "type": "array", "items": span, "minItems": 1, "maxItems": MAX_VALUES },
        {
            "type": "object",
            "properties": {
                "initial": described(&initial, "The wait after the first attempt; at least 1 ms."),
                "factor": optional(json!({
                    "type": "number", "minimum": 1, "maximum": MAX_FACTOR, "default": 2,
                    "description": "The factor from each wait to the next.",
                })),
                "max": described(&span, "The longest wait."),
                "jitter": optional(json!({
                    "type": "number", "minimum": 0, "maximum": 1, "default": 0,
                    "description": "The fraction by which a wait may randomly be longer or shorter.",
                })),
            },
            "required": required,
            "additionalProperties": false,
        },
    ] })
}

fn described(schema: &Schema, text: &str) -> Schema {
    let mut schema = schema.clone();
    schema.insert("description".to_owned(), text.into());
    schema
}
