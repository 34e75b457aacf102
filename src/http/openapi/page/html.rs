//! Text as HTML.

/// A page that is being written.
#[derive(Default)]
pub struct Html(String);

impl Html {
    /// Adds markup.
    pub fn push(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// Adds an entry of a list of definitions. `kind` is markup.
    pub fn field(&mut self, name: &str, required: bool, kind: &str, description: &str) {
        let required = if required { " <span class=\"badge\">required</span>" } else { "" };
        let (name, text) = (code(name), prose(description));
        self.push(&format!(
            "<dt>{name}{required} <span class=\"kind\">{kind}</span></dt><dd>{text}</dd>"
        ));
    }

    /// The page.
    pub fn finish(self) -> String {
        self.0
    }
}

/// Text that means itself.
pub fn escaped(text: &str) -> String {
    let mut markup = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => markup.push_str("&amp;"),
            '<' => markup.push_str("&lt;"),
            '>' => markup.push_str("&gt;"),
            '"' => markup.push_str("&quot;"),
            c => markup.push(c),
        }
    }
    markup
}

/// Text in the type of programs.
pub fn code(text: &str) -> String {
    format!("<code>{}</code>", escaped(text))
}

/// The part of CommonMark that descriptions use: paragraphs, lists, `code` and **bold**.
pub fn prose(text: &str) -> String {
    let mut markup = String::new();
    for part in text.split("\n\n").map(str::trim).filter(|part| !part.is_empty()) {
        if part.starts_with("- ") {
            let lines = part.lines().map(|line| inline(line.trim_start_matches("- ")));
            let items: String = lines.map(|line| format!("<li>{line}</li>")).collect();
            markup.push_str(&format!("<ul>{items}</ul>"));
        } else {
            markup.push_str(&format!("<p>{}</p>", inline(part)));
        }
    }
    markup
}

fn inline(text: &str) -> String {
    let (mut markup, mut bold) = (String::new(), false);
    // Outside and inside of backquotes take turns.
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            markup.push_str(&code(part));
            continue;
        }
        for (index, part) in part.split("**").enumerate() {
            if index > 0 {
                markup.push_str(if bold { "</strong>" } else { "<strong>" });
                bold = !bold;
            }
            markup.push_str(&escaped(part));
        }
    }
    markup
}
