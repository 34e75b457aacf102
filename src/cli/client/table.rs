//! Tables for people, cut to the width of the terminal.

use std::{env, io};

use rustix::termios::tcgetwinsize;
use serde_json::{Map, Value, value::RawValue};

/// Appearance of a table.
pub struct Style {
    width: usize,
    is_bold: bool,
}

impl Style {
    /// Returns the width of the terminal, and whether it may show bold text: not with `NO_COLOR`.
    pub fn of_stdout() -> Self {
        let size = tcgetwinsize(io::stdout()).ok();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|&width| width > 0);
        let forbids = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { width: width.unwrap_or(usize::MAX), is_bold: width.is_some() && !forbids }
    }

    fn cut(&self, line: &str) -> String {
        match line.char_indices().nth(self.width) {
            None => line.to_owned(),
            Some(_) => line.chars().take(self.width.saturating_sub(1)).chain(['…']).collect(),
        }
    }

    fn heading(&self, line: &str) -> String {
        let line = self.cut(line);
        if self.is_bold { format!("\x1b[1m{line}\x1b[0m") } else { line }
    }
}

/// Returns a table of the fields with these names, with a line for each row.
pub fn columns(names: &[&str], rows: &[Box<RawValue>], style: &Style) -> String {
    let objects: Vec<Map<String, Value>> =
        rows.iter().map(|row| serde_json::from_str(row.get()).unwrap_or_default()).collect();
    let cells = objects.iter().map(|row| names.iter().map(|&name| cell(row.get(name))).collect());
    let cells: Vec<Vec<String>> = cells.collect();
    let width = |column: usize| {
        let longest = cells.iter().map(|row| row[column].chars().count()).max();
        let most = style.width.min(usize::from(u16::MAX));
        longest.unwrap_or(0).max(names[column].len()).min(most)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let heading = style.heading(&line(names.to_vec()).to_uppercase());
    let rows = cells.iter().map(|row| style.cut(&line(row.iter().map(String::as_str).collect())));
    [heading].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// Returns a line for each field of an object.
pub fn fields(json: &str, style: &Style) -> String {
    let Ok(object) = serde_json::from_str::<Map<String, Value>>(json) else {
        return json.to_owned();
    };
    let width = object.keys().map(|name| name.chars().count()).max().unwrap_or(0).min(100);
    let shown = object.iter().filter(|(_, value)| !value.is_null());
    let line = |(name, value)| style.cut(&format!("{name:width$}  {}", cell(Some(value))));
    shown.map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a value on one line, without control characters, which could change the terminal.
fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_cut_to_the_width_of_the_terminal() {
        let rows = [r#"{"id":"a","error":"no\u001b[2J shop"}"#, r#"{"id":"long-id","error":null}"#];
        let rows = rows.map(|row| RawValue::from_string(row.to_owned()).expect("JSON"));
        let narrow = columns(&["id", "error"], &rows, &Style { width: 14, is_bold: false });
        assert_eq!(narrow, "ID       ERROR\na        no […\nlong-id  -");
        let long = format!("{{\"id\":\"{}\",\"error\":1}}", "x".repeat(100_000));
        let rows = [RawValue::from_string(long).expect("JSON")];
        let wide = columns(&["id", "error"], &rows, &Style { width: usize::MAX, is_bold: false });
        assert!(wide.ends_with("x  1"), "{}", wide.len());
    }
}
