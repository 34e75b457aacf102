//! Answers on standard output: tables for people, JSON for programs.

use std::{
    fmt::Display,
    io::{self, IsTerminal},
};

use clap::ValueEnum;
use serde_json::value::RawValue;

use super::{
    failure::Failure,
    table::{Style, columns, fields},
};
use crate::cli::output;

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A table.
    Table,
    /// One JSON value; several rows are a list.
    Json,
    /// One line of JSON for each row.
    Jsonl,
}

/// Standard output in one form.
pub struct Output {
    pub form: Form,
}

impl Output {
    /// Returns the output in the given form, or else in the usual one for a terminal or a pipe.
    pub fn new(form: Option<Form>) -> Self {
        let usual = || if io::stdout().is_terminal() { Form::Table } else { Form::Jsonl };
        Self { form: form.unwrap_or_else(usual) }
    }

    /// Prints rows; `names` are the fields that a table shows.
    pub fn rows(&self, names: &[&str], rows: &[Box<RawValue>]) -> Result<(), Failure> {
        let lines = || rows.iter().map(|row| compact(row.get()));
        let text = match self.form {
            Form::Table => columns(names, rows, &Style::of_stdout()),
            Form::Json => format!("[{}]", lines().collect::<Vec<_>>().join(",\n")),
            Form::Jsonl if rows.is_empty() => return Ok(()),
            Form::Jsonl => lines().collect::<Vec<_>>().join("\n"),
        };
        print(text)
    }

    /// Prints one answer; nothing if it is empty.
    pub fn one(&self, answer: &[u8]) -> Result<(), Failure> {
        let text = String::from_utf8_lossy(answer);
        match (text.trim(), self.form) {
            ("", _) => Ok(()),
            (text, Form::Table) => print(fields(text, &Style::of_stdout())),
            (text, _) => print(compact(text)),
        }
    }
}

/// Prints a line on standard output.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: impl Display) -> Result<(), Failure> {
    output::line(text).map_err(|cause| Failure::Output(cause.to_string()))
}

/// Removes the white space between the tokens of JSON text. Numbers keep all their digits.
pub fn compact(json: &str) -> String {
    let (mut in_text, mut is_escaped) = (false, false);
    let is_kept = |&c: &char| {
        let is_kept = in_text || !c.is_ascii_whitespace();
        in_text ^= c == '"' && !is_escaped;
        is_escaped = in_text && c == '\\' && !is_escaped;
        is_kept
    };
    json.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_json_keeps_texts_and_numbers() {
        let json = "{ \"a b\" : [1.00, 12345678901234567890123 ],\n \"\\\" c\\\\\" : \" d \" }";
        let expected = "{\"a b\":[1.00,12345678901234567890123],\"\\\" c\\\\\":\" d \"}";
        assert_eq!(compact(json), expected);
    }
}
