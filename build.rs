//! Renders docs/api.md as the page that the server shows at `/docs`, and lists the scripts of the
//! Redis store.

use std::{
    env,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

const SOURCE: &str = "docs/api.md";
const HEAD: &str = "src/http/dashboard/docs/head.html";
const SCRIPTS: &str = "src/store/redis/scripts";

/// A heading of the page.
struct Heading {
    level: HeadingLevel,
    id: String,
    /// HTML of the heading.
    text: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    for file in [SOURCE, HEAD, SCRIPTS, "build.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("api.html"), page()?)?;
    let (mut paths, root) = (Vec::new(), env::current_dir()?.join(SCRIPTS));
    find_scripts(&root, &mut paths)?;
    fs::write(out.join("scripts.rs"), list(&root, paths))?;
    Ok(())
}

/// Appends the path of each Lua file below a folder.
fn find_scripts(folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_scripts(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            paths.push(path);
        }
    }
    Ok(())
}

/// Returns a Rust expression: an array with each script's path below `root`, without its extension,
/// and its text.
fn list(root: &Path, mut paths: Vec<PathBuf>) -> String {
    paths.sort();
    let entry = |path: &PathBuf| {
        let name = path.strip_prefix(root).expect("a path below it").with_extension("");
        format!("    ({name:?}, include_str!({path:?})),\n")
    };
    format!("&[\n{}]\n", paths.iter().map(entry).collect::<String>())
}

/// Returns the page at `/docs`.
fn page() -> io::Result<String> {
    let (headings, content) = render(&fs::read_to_string(SOURCE)?);
    Ok(format!(
        "{}{}<main id=\"main\" tabindex=\"-1\">\n{content}</main>\n</div>\n</body>\n</html>\n",
        fs::read_to_string(HEAD)?,
        contents(&headings),
    ))
}

/// Returns the headings of a page in Markdown, and its markup.
fn render(markdown: &str) -> (Vec<Heading>, String) {
    let mut headings = Vec::new();
    let mut events: Vec<Event<'_>> = Vec::new();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::End(TagEnd::Heading(level)) => {
                let start = events
                    .iter()
                    .rposition(|event| matches!(event, Event::Start(Tag::Heading { .. })));
                let start = start.expect("a heading that begins");
                let within = &events[start + 1..];
                let id = slug(within);
                let mut text = String::new();
                html::push_html(&mut text, within.iter().cloned());
                if let Event::Start(Tag::Heading { id: target, .. }) = &mut events[start] {
                    *target = Some(id.clone().into());
                }
                headings.push(Heading { level, id, text });
                events.push(event);
            }
            // Lets a table that is wider than the screen scroll by itself, also by keyboard.
            Event::Start(Tag::Table(_)) => {
                let label = headings.last().map_or("", |heading| heading.id.as_str());
                let label = label.replace('-', " ");
                let frame = format!(
                    "<div class=\"wide\" role=\"region\" aria-label=\"Table: {label}\" tabindex=\"0\">"
                );
                events.extend([Event::Html(frame.into()), event]);
            }
            Event::End(TagEnd::Table) => events.extend([event, Event::Html("</div>\n".into())]),
            // Shows HTML of the source as text.
            Event::Html(text) | Event::InlineHtml(text) => events.push(Event::Text(text)),
            event => events.push(event),
        }
    }
    let mut content = String::new();
    html::push_html(&mut content, without_files(events).into_iter());
    (headings, content)
}

/// Replaces links to other files of the project by their text, since the server does not serve
/// these files.
fn without_files(events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let mut is_kept = true;
    let keeps = |event: &Event<'_>| match event {
        Event::Start(Tag::Link { dest_url, .. }) => {
            is_kept = dest_url.starts_with('#') || dest_url.contains("://");
            is_kept
        }
        Event::End(TagEnd::Link) => is_kept,
        _ => true,
    };
    events.into_iter().filter(keeps).collect()
}

/// Returns the name by which links reach a heading: its words in lower case, with hyphens.
fn slug(heading: &[Event<'_>]) -> String {
    let text: Vec<&CowStr<'_>> = heading
        .iter()
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(text),
            _ => None,
        })
        .collect();
    let words = text.iter().flat_map(|text| text.chars());
    let words = words.filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    words.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the navigation with links to the headings.
fn contents(headings: &[Heading]) -> String {
    let linked = headings.iter().filter(|heading| heading.level == HeadingLevel::H2);
    let links =
        linked.map(|Heading { id, text, .. }| format!("<li><a href=\"#{id}\">{text}</a></li>\n"));
    format!(
        "<nav class=\"contents\" aria-label=\"Contents\">\n<p class=\"muted\">Version {}</p>\n<ul>\n{}</ul>\n</nav>\n",
        env!("CARGO_PKG_VERSION"),
        links.collect::<String>(),
    )
}
