//! The schemas of whole requests and answers, made from the types that read and write them.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Those that were asked for.
pub struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
    parts: Map<String, Value>,
}

impl Schemas {
    pub fn new() -> Self {
        let settings = || {
            let change = |settings: &mut SchemaSettings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            };
            SchemaSettings::draft2020_12().with(change)
        };
        Self {
            requests: settings().for_deserialize().into_generator(),
            answers: settings().for_serialize().into_generator(),
            parts: Map::new(),
        }
    }

    /// What a request may have that is read as this type.
    pub fn request<T: JsonSchema>(&mut self) -> Value {
        self.requests.subschema_for::<T>().to_value()
    }

    /// What an answer has that is written from this type.
    pub fn answer<T: JsonSchema>(&mut self) -> Value {
        self.answers.subschema_for::<T>().to_value()
    }

    /// What an answer has that is written from this type, and not as a reference.
    pub fn whole<T: JsonSchema>(&mut self) -> Value {
        T::json_schema(&mut self.answers).to_value()
    }

    /// A part that has a name already.
    pub fn of_name(&self, name: &str) -> Value {
        self.parts.get(name).cloned().unwrap_or_default()
    }

    /// A request of one job, whose id stands in the path.
    pub fn in_path<T: JsonSchema>(&mut self) -> Value {
        let mut whole = T::json_schema(&mut self.requests).to_value();
        if let Some(fields) = whole["properties"].as_object_mut() {
            fields.remove("id");
        }
        self.part(&T::schema_name(), whole)
    }

    /// The same as one of a batch, where the id is required.
    pub fn in_batch<T: JsonSchema>(&mut self, name: &str) -> Value {
        let mut whole = T::json_schema(&mut self.requests).to_value();
        whole["properties"]["id"] = self.request::<crate::job::JobId>();
        whole["properties"]["id"]["description"] = "Which job.".into();
        whole["required"] = json!(["id"]);
        let one = self.part(&format!("{name}One"), whole);
        self.batch(&format!("{name}Batch"), &one)
    }

    /// A batch of such requests.
    pub fn batch(&mut self, name: &str, one: &Value) -> Value {
        let jobs = json!({
            "type": "array", "minItems": 1, "maxItems": crate::store::MAX_BATCH, "items": one,
            "description": "What is asked of each job.",
        });
        let batch = json!({
            "type": "object", "properties": { "jobs": jobs }, "required": ["jobs"],
            "additionalProperties": false,
        });
        self.part(name, batch)
    }

    /// An answer that has these fields of a type, always.
    pub fn some_of<T: JsonSchema>(&mut self, name: &str, text: &str, fields: &[&str]) -> Value {
        let whole = self.whole::<T>();
        let of = |field: &&str| {
            let mut schema = whole["properties"][*field].clone();
            not_null(&mut schema);
            ((*field).to_owned(), schema)
        };
        let properties: Map<String, Value> = fields.iter().map(of).collect();
        let some = json!({
            "type": "object", "description": text, "properties": properties, "required": fields,
        });
        self.part(name, some)
    }

    /// An answer that has every field of a type, also those that others leave out.
    pub fn complete<T: JsonSchema>(&mut self, name: &str, text: &str) -> Value {
        let mut whole = self.whole::<T>();
        tidy_answer(&mut whole);
        let fields = whole["properties"].as_object().into_iter().flatten();
        whole["required"] = fields.map(|(name, _)| name.clone()).collect();
        whole["description"] = text.into();
        self.part(name, whole)
    }

    /// A schema under a name; answers a reference to it.
    pub fn part(&mut self, name: &str, schema: Value) -> Value {
        self.parts.insert(name.to_owned(), schema);
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    /// All of them by their names.
    pub fn finish(mut self) -> Value {
        let mut all = self.requests.take_definitions(true);
        for (name, mut schema) in self.answers.take_definitions(true) {
            tidy_answer(&mut schema);
            // A name has one meaning, in both directions.
            debug_assert!(all.get(&name).is_none_or(|other| *other == schema), "{name}");
            all.insert(name, schema);
        }
        all.extend(self.parts);
        all.into()
    }
}

/// A field that an answer leaves out is never null.
fn tidy_answer(schema: &mut Value) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required =
        |name: &str| required.as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, field) in fields.into_iter().flatten() {
        if !is_required(name) {
            not_null(field);
        }
    }
}

fn not_null(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|one| one != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    let Some(any) = schema.get_mut("anyOf").and_then(Value::as_array_mut) else { return };
    any.retain(|one| one.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(only)] = &any[..] {
        let only = only.clone();
        schema.remove("anyOf");
        schema.extend(only);
    }
}
