//! docs/api.md: its examples give the shown answers, and it contains every route and every code.

use crate::start::docs::run;
use crate::start::prelude::*;

pub const PAGE: &str = include_str!("../../../docs/api.md");
const SETTINGS: &str = include_str!("../../../config/default.toml");

/// Fields whose values differ from one run to the next.
const VARYING: &str = "set_by at paused_until due_at created_at reserved_until expires_at died_at \
                       finished_at as_of reservation cursor detail started_at ended_at lateness \
                       next_due_at next last token";

/// A shell block, and the answer that the page shows after it.
struct Example {
    script: String,
    answer: Option<Value>,
}

fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    // The parts are alternately outside and inside of a block.
    for (index, part) in PAGE.split("```").enumerate() {
        match part.split_once('\n') {
            Some(("sh", script)) if index % 2 == 1 => {
                examples.push(Example { script: script.to_owned(), answer: None });
            }
            Some(("json", text)) if index % 2 == 1 => {
                let answer = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
                // A problem without a request before it is no example.
                let before = examples.last_mut().filter(|before| before.answer.is_none());
                if let Some(before) = before {
                    before.answer = Some(answer);
                }
            }
            _ => {}
        }
    }
    examples
}

/// Returns the first difference between an answer and the answer on the page.
pub fn difference(shown: &Value, real: &Value, path: &str) -> Option<String> {
    match (shown, real) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect();
            let (left, right): (BTreeSet<String>, BTreeSet<String>) = (keys(one), keys(other));
            if left != right {
                return Some(format!("{path} has {right:?}, the page shows {left:?}"));
            }
            one.iter().find_map(|(key, shown)| {
                let path = format!("{path}.{key}");
                let varies = VARYING.split(' ').any(|name| name == key);
                if varies && shown.is_string() == other[key].is_string() {
                    return None;
                }
                difference(shown, &other[key], &path)
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs.into_iter().find_map(|(index, (shown, real))| {
                difference(shown, real, &format!("{path}[{index}]"))
            })
        }
        (shown, real) if shown == real => None,
        (shown, real) => Some(format!("{path} is {real}, the page shows {shown}")),
    }
}

/// Runs all examples, which must succeed. Returns their output, with a line `@@` between them.
pub fn run_examples(server: &Process) -> String {
    let scripts: Vec<String> = examples().into_iter().map(|example| example.script).collect();
    let script = scripts.join("\necho; echo @@\n").replace("http://127.0.0.1:9277", &server.base);
    let script = script.replace("curl ", "curl --fail-with-body ");
    tokio::task::block_in_place(|| run(WorkDir::new().path(), &[script], ""))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_api_page_answer_as_shown() {
    let (_place, server) = started("").await;
    let said = run_examples(&server);
    let examples = examples();
    assert!(examples.len() >= 19, "the page has fewer than 19 examples");
    let answers: Vec<&str> = said.split("\n@@\n").collect();
    assert_eq!(answers.len(), examples.len(), "{said}");
    for (Example { script, answer }, said) in examples.iter().zip(answers) {
        let Some(shown) = answer else { continue };
        let last = said.trim().lines().last().unwrap_or_default();
        let real = serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {script}{said}"));
        let difference = difference(shown, &real, "the answer");
        assert!(difference.is_none(), "{script}{}\n{last}", difference.unwrap_or_default());
    }
}

/// Returns the routes that the server declares, such as `GET /jobs/{id}`.
fn routes(description: &Value) -> BTreeSet<String> {
    let paths = description["paths"].as_object().expect("paths");
    let of_path = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().expect("methods").keys();
        methods.map(|method| format!("{} {path}", method.to_uppercase())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of_path).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_page_has_every_route_with_every_method_and_no_other() {
    let (_place, server) = started("").await;
    let declared = routes(&server.get("/openapi.json").await.1);
    assert!(declared.len() >= 33, "{declared:?}");
    let quoted = PAGE.split('`').filter(|part| !part.contains('\n'));
    let methods = ["GET ", "POST ", "PUT ", "PATCH ", "DELETE "];
    let is_call =
        |part: &&str| methods.iter().any(|method| part.starts_with(method)) && part.contains(" /");
    let in_page: BTreeSet<String> = quoted.filter(is_call).map(str::to_owned).collect();
    assert_eq!(in_page, declared, "left: docs/api.md, right: src/http/api");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_links_of_the_served_api_page_have_targets() {
    let (_place, server) = started("").await;
    let page = server.text("/docs").await;
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for block in PAGE.split("```").skip(1).step_by(2) {
        let (_, shown) = block.split_once('\n').expect("the kind of a block");
        assert!(page.contains(&escaped(shown)) || page.contains(shown), "{shown}");
    }
    for heading in PAGE.lines().filter_map(|line| line.strip_prefix("## ")) {
        let id = heading.to_lowercase().replace(' ', "-");
        assert!(page.contains(&format!("<h2 id=\"{id}\">{heading}</h2>")), "{heading}");
        assert!(page.contains(&format!("<a href=\"#{id}\">{heading}</a>")), "{heading}");
    }
    for link in page.split("<a ").skip(1) {
        let target = link.split("href=\"").nth(1).and_then(|link| link.split('"').next());
        let target = target.expect("the target of a link");
        let is_page = ["./", "docs", "openapi.json"].contains(&target);
        let exists = match target.strip_prefix('#') {
            Some(id) => page.contains(&format!("id=\"{id}\"")),
            None => is_page || target.starts_with("https://"),
        };
        assert!(exists, "{target}");
    }
    assert_eq!(page.matches("<script").count(), 1, "another script than that of the theme");
}

#[test]
fn the_api_page_has_every_code_with_its_status_and_no_other() {
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let status: u16 = cells.next()?.parse().ok()?;
        Some((status, cells.next()?.trim_matches('`').to_owned(), cells.next()?.to_owned()))
    };
    let in_page: Vec<_> = PAGE.lines().filter_map(row).collect();
    let of = |code: &Code| (code.status().as_u16(), code.name().to_owned(), code.when().to_owned());
    let in_source: Vec<_> = Code::ALL.iter().map(of).collect();
    assert_eq!(in_page, in_source, "left: docs/api.md, right: src/http/problem/code.rs");
}

#[test]
fn the_table_of_limits_has_every_limit_and_job_default() {
    let mut section = "";
    for line in SETTINGS.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        }
        let key = line.split_once(" = ").map(|(key, _)| key.trim_start_matches("# "));
        let Some(key) = key.filter(|key| key.bytes().all(|b| b == b'_' || b.is_ascii_lowercase()))
        else {
            continue;
        };
        let listed = ["limits", "job_defaults"].contains(&section) || key.ends_with("_timeout");
        if listed && section != "store" {
            let cell = format!("| `{section}.{key}` |");
            assert!(PAGE.contains(&cell), "docs/api.md: no row of the limits ends with {cell}");
        }
    }
}
