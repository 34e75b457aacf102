//! Schemas of whole requests and answers, generated from the types that parse and serialise them.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Collection of the schemas that operations use.
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

    /// Returns the schema of a request of this type.
    pub fn request<T: JsonSchema>(&mut self) -> Value {
        self.requests.subschema_for::<T>().to_value()
    }

    /// Returns the schema of an answer of this type.
    pub fn answer<T: JsonSchema>(&mut self) -> Value {
        self.answers.subschema_for::<T>().to_value()
    }

    /// Returns the schema of an answer of this type in full, not as a reference.
    pub fn whole<T: JsonSchema>(&mut self) -> Value {
        T::json_schema(&mut self.answers).to_value()
    }

    /// Returns a schema that was added under this name.
    pub fn of_name(&self, name: &str) -> Value {
        self.parts.get(name).cloned().unwrap_or_default()
    }

    /// Adds the schema of an action on the job in the path, without the field `id`.
    pub fn in_path<T: JsonSchema>(&mut self) -> Value {
        let mut whole = T::json_schema(&mut self.requests).to_value();
        if let Some(fields) = whole["properties"].as_object_mut() {
            fields.remove("id");
        }
        self.part(&T::schema_name(), whole)
    }

    /// Adds the schema of a batch of this action, where each job must have an `id`.
    pub fn in_batch<T: JsonSchema>(&mut self, name: &str) -> Value {
        let mut whole = T::json_schema(&mut self.requests).to_value();
        whole["properties"]["id"] = self.request::<crate::job::JobId>();
        whole["properties"]["id"]["description"] = "The id of the job.".into();
        whole["required"] = json!(["id"]);
        let one = self.part(&format!("{name}One"), whole);
        self.batch(&format!("{name}Batch"), &one)
    }

    /// Adds the schema of a batch with items of schema `one`.
    pub fn batch(&mut self, name: &str, one: &Value) -> Value {
        let jobs = json!({
            "type": "array", "minItems": 1, "maxItems": crate::store::MAX_BATCH, "items": one,
            "description": "The jobs, each with its own options.",
        });
        let batch = json!({
            "type": "object", "properties": { "jobs": jobs }, "required": ["jobs"],
            "additionalProperties": false,
        });
        self.part(name, batch)
    }

    /// Adds the schema of an answer that always has these fields of a type.
    pub fn some_of<T: JsonSchema>(&mut self, name: &str, text: &str, fields: &[&str]) -> Value {
        let whole = self.whole::<T>();
        let property = |field: &&str| {
            let mut schema = whole["properties"][*field].clone();
            not_null(&mut schema);
            ((*field).to_owned(), schema)
        };
        let properties: Map<String, Value> = fields.iter().map(property).collect();
        let some = json!({
            "type": "object", "description": text, "properties": properties, "required": fields,
        });
        self.part(name, some)
    }

    /// Adds a field of a type that an answer made by [`Self::some_of`] may have.
    pub fn may_have<T: JsonSchema>(&mut self, name: &str, field: &str, text: &str) {
        let mut property = self.whole::<T>()["properties"][field].clone();
        not_null(&mut property);
        property["description"] = text.into();
        if let Some(part) = self.parts.get_mut(name) {
            part["properties"][field] = property;
        }
    }

    /// Adds the schema of an answer with all fields of a type, even fields that other answers omit.
    pub fn complete<T: JsonSchema>(&mut self, name: &str, text: &str) -> Value {
        let mut whole = self.whole::<T>();
        tidy_answer(&mut whole);
        let fields = whole["properties"].as_object().into_iter().flatten();
        whole["required"] = fields.map(|(name, _)| name.clone()).collect();
        whole["description"] = text.into();
        self.part(name, whole)
    }

    /// Adds a schema under a name and returns a reference to it.
    pub fn part(&mut self, name: &str, schema: Value) -> Value {
        self.parts.insert(name.to_owned(), schema);
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    /// Returns all schemas by name.
    pub fn finish(mut self) -> Value {
        let mut all = self.requests.take_definitions(true);
        for (name, mut schema) in self.answers.take_definitions(true) {
            tidy_answer(&mut schema);
            // A type that is both request and answer must have one schema.
            debug_assert!(all.get(&name).is_none_or(|other| *other == schema), "{name}");
            all.insert(name, schema);
        }
        all.extend(self.parts);
        all.into()
    }
}

/// Removes null from fields that an answer may omit: it omits them instead.
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
