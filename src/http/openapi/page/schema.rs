//! What values may be, in words.

use serde_json::Value;

use super::{
    html::{Html, code},
    members, text,
};

/// The fields of an object, and those of objects within it.
pub fn fields(html: &mut Html, schema: &Value) {
    html.push("<dl class=\"list\">");
    let is_required = |name: &str| {
        schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    let mut all: Vec<_> = members(&schema["properties"]).collect();
    all.sort_by_key(|(name, _)| !is_required(name));
    for (name, field) in all {
        html.field(name, is_required(name), &kind(field), text(&field["description"]));
        if let Some(inner) = object_within(field) {
            html.push("<dd>");
            fields(html, inner);
            html.push("</dd>");
        }
    }
    html.push("</dl>");
}

/// The object that a value may be, or that its items are.
fn object_within(schema: &Value) -> Option<&Value> {
    if schema["properties"].is_object() {
        return Some(schema);
    }
    let choices = schema["anyOf"].as_array().into_iter().flatten();
    choices.chain(schema.get("items")).find_map(object_within)
}

/// What a value may be; markup.
pub fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return either(choices);
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> =
            values.iter().map(|value| code(value.as_str().unwrap_or(&value.to_string()))).collect();
        return values.join(", ");
    }
    match &schema["type"] {
        Value::String(name) => of_type(schema, name),
        Value::Array(names) => {
            let names: Vec<String> = names.iter().map(|name| of_type(schema, text(name))).collect();
            names.join(" or ")
        }
        _ => "any JSON".to_owned(),
    }
}

fn either(choices: &[Value]) -> String {
    let is_duration = |one: &&Value| text(&one["format"]).starts_with("duration");
    let duration = choices.iter().find(is_duration);
    let number = choices.iter().find(|one| one["type"] == "number");
    let mut kinds = Vec::new();
    if let (Some(_), Some(number)) = (duration, number) {
        let least = if number["minimum"] == 1 { " from 1 s" } else { "" };
        let most = match number["maximum"].as_u64() {
            Some(86_400) => "24 h".to_owned(),
            Some(315_576_000) => "10 years".to_owned(),
            most => format!("{} s", most.unwrap_or_default()),
        };
        kinds.push(format!("duration{least} to {most}"));
    }
    for choice in choices {
        let is_told = duration.is_some() && (is_duration(&choice) || choice["type"] == "number");
        let kind = kind(choice);
        if !is_told && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.join(" or ")
}

fn of_type(schema: &Value, name: &str) -> String {
    match name {
        "string" => of_text(schema),
        "integer" if schema["minimum"] == 1_000_000_000_000_u64 => {
            "13 digits of Unix milliseconds".to_owned()
        }
        "integer" => format!("whole number{}", range(schema)),
        "number" => format!("number{}", range(schema)),
        "boolean" => code("true") + " or " + &code("false"),
        "array" => {
            let count = match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
                (Some(least), Some(most)) => format!(" of {least} to {most}"),
                _ => String::new(),
            };
            format!("list{count}: {}", kind(&schema["items"]))
        }
        other => other.to_owned(),
    }
}

fn of_text(schema: &Value) -> String {
    match (text(&schema["format"]), schema["pattern"].as_str(), schema["maxLength"].as_u64()) {
        ("date-time", ..) => "time".to_owned(),
        (format, ..) if format.starts_with("duration") => "duration".to_owned(),
        (_, Some(pattern), _) => format!("text {}", code(pattern)),
        (_, None, Some(most)) => format!("text of up to {most} bytes"),
        _ => "text".to_owned(),
    }
}

fn range(schema: &Value) -> String {
    match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        // Every count has this one.
        (Some(0.0), None) | (None, None) => String::new(),
        (Some(least), None) => format!(" of at least {least}"),
        (None, Some(most)) => format!(" of at most {most}"),
    }
}
