//! Parameters that several routes take.

use serde_json::{Value, json};

use crate::{
    http::{
        extract::filter::MAX_FILTER_BYTES,
        openapi::{Operation, Schemas},
        schema::types,
    },
    job::{JobId, MAX_DURATION, Millis, State, Topic},
};

impl Operation {
    pub fn with_id(self, schemas: &mut Schemas) -> Self {
        let schema = schemas.request::<JobId>();
        self.in_path("id", &schema, "The job's id.", "call:1")
    }

    pub fn with_topic(self, schemas: &mut Schemas) -> Self {
        let schema = schemas.request::<Topic>();
        self.in_path("topic", &schema, "The topic.", "callbacks")
    }

    pub fn with_limit(self, default: u64, most: u64, text: &str) -> Self {
        let schema =
            json!({ "type": "integer", "minimum": 1, "maximum": most, "default": default });
        self.in_query("limit", false, &schema, text)
    }

    pub fn with_cursor(self, text: &str) -> Self {
        self.in_query("cursor", false, &json!({ "type": "string" }), text)
    }

    pub fn with_state(self, schemas: &mut Schemas, required: bool, text: &str) -> Self {
        let schema = schemas.request::<State>();
        self.in_query("state", required, &schema, text)
    }

    pub fn with_time(self, name: &str, text: &str) -> Self {
        self.in_query(name, false, &types::time_in_query().to_value(), text)
    }

    pub fn with_duration(self, name: &str, text: &str) -> Self {
        let schema = types::duration_in_query(Millis::ZERO, MAX_DURATION);
        self.in_query(name, false, &schema.to_value(), text)
    }

    /// Adds the filters of the jobs of a topic.
    pub fn with_filters(self) -> Self {
        let text = json!({ "type": "string", "minLength": 1, "maxLength": MAX_FILTER_BYTES });
        let about =
            |what: &str| format!("{what} At most {MAX_FILTER_BYTES} bytes, case-sensitive.");
        self.in_query(
            "error_contains",
            false,
            &text,
            &about("Only jobs whose last error contains it."),
        )
        .in_query("id_contains", false, &text, &about("Only jobs whose ids contain it."))
        .with_time("died_after", "Only jobs that died then or later; needs the state `dead`.")
        .with_time("died_before", "Only jobs that died earlier; needs the state `dead`.")
        .with_time(
            "due_after",
            "Only jobs that are due then or later; needs a state other than `dead`.",
        )
        .with_time("due_before", "Only jobs that are due earlier; needs a state other than `dead`.")
    }

    pub fn with_dry_run(self) -> Self {
        let schema = json!({ "type": "boolean", "default": false });
        self.in_query("dry_run", false, &schema, "Whether the jobs are only counted.")
    }

    /// Allows an empty object as body, for clients that always send one.
    pub fn may_take_nothing(self) -> Self {
        let nothing: Value = json!({ "type": "object", "additionalProperties": false });
        self.may_take(&nothing, &json!({}))
    }
}
