//! `GET /docs`: the description as one page, written here, so that it needs no script and no other file than its
//! styles.

mod html;
mod schema;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use self::{
    html::{Html, code, escaped, prose},
    schema::{fields, kind},
};

/// The members of an object of the description.
fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// One operation, and where it is.
struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    about: &'a Value,
}

/// The whole page.
pub fn page(document: &Value) -> String {
    let mut html = Html::default();
    html.push(include_str!("head.html"));
    navigation(&mut html, document);
    html.push("<main id=\"main\" tabindex=\"-1\">");
    introduction(&mut html, document);
    for tag in document["tags"].as_array().into_iter().flatten() {
        let name = text(&tag["name"]);
        html.push(&format!("<section aria-labelledby=\"{name}\"><h2 id=\"{name}\">{name}</h2>"));
        html.push(&prose(text(&tag["description"])));
        for operation in of_tag(document, name) {
            self::operation(&mut html, document, &operation);
        }
        html.push("</section>");
    }
    problems(&mut html, document);
    schemas(&mut html, document);
    html.push("</main></div></body></html>\n");
    html.finish()
}

fn of_tag<'a>(document: &'a Value, tag: &str) -> Vec<Operation<'a>> {
    let mut found = Vec::new();
    for (path, methods) in members(&document["paths"]) {
        for (method, about) in members(methods).filter(|(_, about)| about["tags"][0] == tag) {
            found.push(Operation { method, path, about });
        }
    }
    found
}

fn navigation(html: &mut Html, document: &Value) {
    html.push(
        "<nav class=\"contents\" aria-label=\"Routes\"><a href=\"#introduction\">Introduction</a>",
    );
    for tag in document["tags"].as_array().into_iter().flatten() {
        let name = text(&tag["name"]);
        html.push(&format!("<h2><a href=\"#{name}\">{name}</a></h2><ul>"));
        for Operation { about, .. } in of_tag(document, name) {
            let (id, summary) = (text(&about["operationId"]), escaped(text(&about["summary"])));
            html.push(&format!("<li><a href=\"#{id}\">{summary}</a></li>"));
        }
        html.push("</ul>");
    }
    html.push("<h2><a href=\"#problems\">Problems</a></h2><h2><a href=\"#schemas\">Schemas</a></h2></nav>");
}

fn introduction(html: &mut Html, document: &Value) {
    let info = &document["info"];
    html.push(&format!(
        "<section aria-labelledby=\"introduction\"><h1 id=\"introduction\">{} <span class=\"muted\">{}</span></h1>",
        "The HTTP API",
        escaped(text(&info["version"])),
    ));
    html.push(&prose(text(&info["description"])));
    html.push("<h2>Access</h2>");
    html.push(&prose(text(&document["components"]["securitySchemes"]["token"]["description"])));
    html.push("</section>");
}

fn operation(html: &mut Html, document: &Value, operation: &Operation<'_>) {
    let Operation { method, path, about } = operation;
    let id = text(&about["operationId"]);
    html.push(&format!(
        "<article class=\"panel\" aria-labelledby=\"{id}\"><h3 id=\"{id}\">{}</h3>\
         <p class=\"route\"><span class=\"badge\">{}</span> {}</p>",
        escaped(text(&about["summary"])),
        method.to_uppercase(),
        code(path),
    ));
    html.push(&prose(text(&about["description"])));
    match (&about["security"][0], about["security"][0]["token"][0].as_str()) {
        (_, Some(scope)) => html.push(&format!("<p>Scope: {}</p>", code(scope))),
        (Value::Null, None) => html.push("<p>Needs no token.</p>"),
        (_, None) => html.push("<p>Needs any token.</p>"),
    }
    for (place, title) in [("path", "In the path"), ("query", "In the query")] {
        let all = about["parameters"].as_array().into_iter().flatten();
        let here: Vec<&Value> = all.filter(|one| one["in"] == place).collect();
        if !here.is_empty() {
            html.push(&format!("<h4>{title}</h4><dl class=\"list\">"));
            for one in here {
                html.field(
                    text(&one["name"]),
                    one["required"] == true,
                    &kind(&one["schema"]),
                    text(&one["description"]),
                );
            }
            html.push("</dl>");
        }
    }
    let body = &about["requestBody"];
    if body.is_object() {
        let optional = if body["required"] == true { "" } else { ", which may be left out" };
        html.push(&format!("<h4>The body{optional}</h4>"));
        content(html, document, &body["content"]["application/json"]["schema"]);
    }
    html.push(&format!("<h4>Example</h4><pre>{}</pre>", escaped(&curl(operation))));
    answers(html, document, about);
    html.push("</article>");
}

/// What a body has: its fields, or what it is.
fn content(html: &mut Html, document: &Value, schema: &Value) {
    let target = resolved(document, schema);
    if target["properties"].as_object().is_some_and(|fields| !fields.is_empty()) {
        fields(html, target);
    } else if target["additionalProperties"] == false {
        html.push("<p>An empty object, or nothing.</p>");
    } else {
        html.push(&format!("<p>{}</p>", kind(schema)));
    }
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

/// The request of the example, as a command.
fn curl(operation: &Operation<'_>) -> String {
    let Operation { method, path, about } = operation;
    let (mut path, mut query) = ((*path).to_owned(), Vec::new());
    for one in about["parameters"].as_array().into_iter().flatten() {
        let (name, Some(example)) = (text(&one["name"]), one["example"].as_str()) else { continue };
        match one["in"] == "path" {
            true => path = path.replace(&format!("{{{name}}}"), example),
            false => query.push(format!("{name}={example}")),
        }
    }
    let mark = if query.is_empty() { "" } else { "?" };
    let address = format!("'http://127.0.0.1:9277{path}{mark}{}'", query.join("&"));
    let body = &about["requestBody"]["content"]["application/json"]["example"];
    let says_nothing = body.as_object().is_none_or(Map::is_empty);
    let body = if says_nothing { String::new() } else { format!(" \\\n  -d '{body}'") };
    let method = match (*method, says_nothing) {
        ("get", _) | ("post", false) => String::new(),
        (method, _) => format!(" -X {}", method.to_uppercase()),
    };
    format!("curl{method} {address}{body}")
}

fn answers(html: &mut Html, document: &Value, about: &Value) {
    html.push("<h4>Answers</h4>");
    let mut refused = Vec::new();
    for (status, answer) in members(&about["responses"]) {
        let answer = resolved(document, answer);
        match status.starts_with('2') {
            true => success(html, document, status, answer),
            false => {
                let codes = codes(text(&answer["description"]));
                let links = codes.map(|(name, _)| format!("<a href=\"#code-{name}\">{name}</a>"));
                refused.push(format!("{status} {}", links.collect::<Vec<_>>().join(", ")));
            }
        }
    }
    html.push(&format!("<p>Problems: {}</p>", refused.join("; ")));
}

fn success(html: &mut Html, document: &Value, status: &str, answer: &Value) {
    let description = escaped(text(&answer["description"]));
    html.push(&format!("<p><strong>{status}</strong> {description}"));
    for (_, content) in
        members(&answer["content"]).filter(|(_, one)| one["schema"]["$ref"].is_string())
    {
        html.push(&format!(" {}", kind(&content["schema"])));
    }
    html.push("</p>");
    for (name, header) in members(&answer["headers"]).filter(|(name, _)| *name != "X-Request-Id") {
        let header = resolved(document, header);
        html.push(&prose(&format!("`{name}`: {}", text(&header["description"]))));
    }
    for (kind_of_content, content) in members(&answer["content"]) {
        if content["example"].is_object() {
            let example = serde_json::to_string_pretty(&content["example"]).unwrap_or_default();
            html.push(&format!("<pre>{}</pre>", escaped(&example)));
        } else {
            html.push(&format!("<p>{}</p>", code(kind_of_content)));
        }
    }
}

/// The codes that a description of problems explains, each with when it is given.
fn codes(description: &str) -> impl Iterator<Item = (&str, &str)> {
    description.lines().filter_map(|line| line.strip_prefix('`')?.split_once("`: "))
}

fn problems(html: &mut Html, document: &Value) {
    html.push("<section aria-labelledby=\"problems\"><h2 id=\"problems\">Problems</h2><dl class=\"list\">");
    let mut found = BTreeMap::new();
    for (_, response) in members(&document["components"]["responses"]) {
        found.extend(codes(text(&response["description"])));
    }
    for (name, when) in found {
        html.push(&format!("<dt id=\"code-{name}\">{}</dt><dd>{}</dd>", code(name), prose(when)));
    }
    html.push("</dl>");
    for (name, header) in members(&document["components"]["headers"]) {
        html.push(&prose(&format!("`{name}`: {}", text(&header["description"]))));
    }
    html.push("</section>");
}

fn schemas(html: &mut Html, document: &Value) {
    html.push("<section aria-labelledby=\"schemas\"><h2 id=\"schemas\">Schemas</h2>");
    for (name, schema) in members(&document["components"]["schemas"]) {
        html.push(&format!(
            "<article class=\"panel\" aria-labelledby=\"schema-{name}\"><h3 id=\"schema-{name}\">{name}</h3>"
        ));
        html.push(&prose(text(&schema["description"])));
        match schema["properties"].is_object() {
            true => fields(html, schema),
            false => html.push(&format!("<p>{}</p>", kind(schema))),
        }
        html.push("</article>");
    }
    html.push("</section>");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_of_the_description_stays_text() {
        let document = json!({
            "info": { "version": "1", "description": "<script>alert(1)</script> & `<b>` **<i>**" },
            "tags": [{ "name": "Jobs", "description": "\"quoted\"" }],
            "paths": { "/a": { "get": {
                "tags": ["Jobs"], "operationId": "a", "summary": "<img>", "description": "- <li>",
                "responses": {},
            } } },
        });
        let page = page(&document);
        for markup in ["<script>", "<img>", "<b>", "<i>", "- <li>"] {
            assert!(!page.contains(markup), "{markup}");
        }
        assert!(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; <code>&lt;b&gt;</code>")
        );
    }
}
