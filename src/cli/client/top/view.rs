//! The view: what the terminal shows of the last samples, in any size.

mod columns;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, env, time::Instant};

use ratatui::{
    Frame,
    crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind},
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Paragraph, Row, Sparkline, Table, TableState},
};

use super::{
    super::failure::Failure,
    model::{DUE_STEP, Overview, Sample},
    rates::Rates,
};

/// Samples of the curve of finished jobs.
const HISTORY: usize = 500;

/// State of the view.
pub struct View {
    url: String,
    sample: Option<Sample>,
    rates: Rates,
    /// Jobs finished per second, one number a sample, the latest last.
    finished: VecDeque<u64>,
    /// Since when the server is unavailable, and why.
    away: Option<(Instant, String)>,
    table: TableState,
    is_coloured: bool,
}

impl View {
    pub fn new(url: &str) -> Self {
        let is_plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            url: url.to_owned(),
            sample: None,
            rates: Rates::default(),
            finished: VecDeque::new(),
            away: None,
            table: TableState::default(),
            is_coloured: !is_plain,
        }
    }

    /// Shows a sample, or that there is none.
    pub fn take(&mut self, taken: Result<Sample, Failure>) {
        let sample = match taken {
            Ok(sample) => sample,
            Err(failure) => {
                let since = self.away.take().map_or_else(Instant::now, |(since, _)| since);
                self.away = Some((since, failure.to_string()));
                return;
            }
        };
        self.away = None;
        self.rates.add(&sample);
        let finished = self.rates.all().map_or(0.0, |rate| rate.finished);
        self.finished.push_back(finished.round() as u64);
        self.finished.drain(..self.finished.len().saturating_sub(HISTORY));
        // The same topic stays selected, wherever it is now.
        let selected = self.selected().map(str::to_owned);
        let at = sample.topics.iter().position(|topic| Some(&topic.topic) == selected.as_ref());
        self.table.select(at.or_else(|| (!sample.topics.is_empty()).then_some(0)));
        self.sample = Some(sample);
    }

    /// Returns the selected topic.
    pub fn selected(&self) -> Option<&str> {
        let topics = &self.sample.as_ref()?.topics;
        topics.get(self.table.selected()?).map(|topic| topic.topic.as_str())
    }

    /// Handles a key. Returns whether another topic is selected.
    pub fn handle(&mut self, event: &Event) -> bool {
        let Event::Key(KeyEvent { code, kind: KeyEventKind::Press, .. }) = event else {
            return false;
        };
        let last = self.sample.as_ref().map_or(0, |sample| sample.topics.len()).saturating_sub(1);
        let Some(now) = self.table.selected() else { return false };
        let next = match code {
            KeyCode::Up | KeyCode::Char('k') => now.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => (now + 1).min(last),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => now,
        };
        self.table.select(Some(next));
        if let Some(sample) = self.sample.as_mut().filter(|_| next != now) {
            sample.due.clear();
        }
        next != now
    }

    /// Draws the view. In a small terminal, the table of topics has the room.
    pub fn render(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let rows = area.height;
        let [head, curve, table, due, errors, foot] = Layout::vertical([
            Constraint::Length(4.min(rows)),
            Constraint::Length(if rows >= 20 { 4 } else { 0 }),
            Constraint::Min(0),
            Constraint::Length(if rows >= 16 { 5 } else { 0 }),
            Constraint::Length(if rows >= 28 { 6 } else { 0 }),
            Constraint::Length(if rows >= 10 { 1 } else { 0 }),
        ])
        .areas(area);
        frame.render_widget(Paragraph::new(self.head()), head);
        self.render_curve(frame, curve);
        self.render_topics(frame, table);
        self.render_due(frame, due);
        self.render_errors(frame, errors);
        let keys = " q quit   ↑ ↓ choose a topic";
        frame.render_widget(Paragraph::new(keys).style(self.dim()), foot);
    }

    /// Returns the lines at the top: the server, its jobs, rates and lateness.
    fn head(&self) -> Vec<Line<'static>> {
        let overview = self.sample.as_ref().and_then(|sample| sample.overview.as_ref());
        let mut lines = vec![self.status(overview)];
        let Some(overview) = overview else {
            lines.push(Line::from("The token may not read all topics: no rates."));
            return lines;
        };
        let jobs = overview.jobs;
        lines.push(Line::from(format!(
            "{} ready  {} delayed  {} reserved  {} dead  {} finished",
            jobs.ready, jobs.delayed, jobs.reserved, jobs.dead, jobs.finished
        )));
        lines.push(match self.rates.all() {
            None => Line::from("…"),
            Some(rate) => Line::from(format!(
                "{:.1} put/s  {:.1} popped/s  {:.1} finished/s  {:.1} dead/s",
                rate.put, rate.popped, rate.finished, rate.dead
            )),
        });
        let late = overview.lateness().map_or("no pops for a minute".to_owned(), |minute| {
            format!("late {:.0} ms, p99 {:.0} ms", minute.p50 * 1e3, minute.p99 * 1e3)
        });
        let oldest = overview.oldest_ready_age.map_or(String::new(), |age| {
            format!("  {} due wait, up to {}", overview.due_not_delivered, columns::span(age))
        });
        lines.push(Line::from(late + &oldest));
        lines
    }

    /// Returns the first line: whether the server answers. It comes before the URL, which may be
    /// cut.
    fn status(&self, overview: Option<&Overview>) -> Line<'static> {
        let state = match (&self.away, overview) {
            (Some((since, _)), _) => {
                let text = format!("away for {}", columns::span(since.elapsed().as_secs_f64()));
                Span::styled(text, self.alarm())
            }
            (None, Some(overview)) if overview.store.status != "ok" => {
                Span::styled(format!("store {}", overview.store.status), self.alarm())
            }
            _ => Span::styled("ok", self.bold()),
        };
        let version = overview.map_or(String::new(), |of| format!("  {}", of.version));
        let more = match &self.away {
            Some((_, why)) => format!("  {why}"),
            None => format!("  {}{version}", self.url),
        };
        Line::from(vec![Span::styled("delay-queue ", self.bold()), state, Span::from(more)])
    }

    fn render_curve(&self, frame: &mut Frame<'_>, area: Rect) {
        let width = usize::from(area.width);
        let hidden = self.finished.len().saturating_sub(width);
        let shown: Vec<u64> = self.finished.iter().skip(hidden).copied().collect();
        let most = shown.iter().max().copied().unwrap_or(0);
        let block = self.block(format!("finished/s, up to {most}"));
        frame.render_widget(Sparkline::default().data(&shown).block(block), area);
    }

    fn render_topics(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let Some(sample) = &self.sample else { return };
        let columns = columns::that_fit(area.width, &sample.topics);
        let now = sample.overview.as_ref().and_then(Overview::now);
        let rows = sample.topics.iter().map(|topic| {
            let rate = self.rates.of(&topic.topic);
            let row = Row::new(columns.iter().map(|column| column.cell(topic, rate, now)));
            if topic.paused { row.style(self.dim()) } else { row }
        });
        let widths = columns.iter().map(|column| column.width(&sample.topics));
        let heading = Row::new(columns.iter().map(|column| column.heading()));
        let table = Table::new(rows, widths)
            .header(heading.style(self.bold()))
            .column_spacing(2)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.table);
    }

    fn render_due(&self, frame: &mut Frame<'_>, area: Rect) {
        let due = self.sample.as_ref().map(|sample| sample.due.as_slice()).unwrap_or_default();
        let shown = &due[..due.len().min(usize::from(area.width))];
        let (jobs, minutes) = (shown.iter().sum::<u64>(), shown.len() as u64 * DUE_STEP / 60);
        let topic = self.selected().unwrap_or("-");
        let block = self.block(format!("{topic}: {jobs} due in the next {minutes} min"));
        frame.render_widget(Sparkline::default().data(shown).block(block), area);
    }

    fn render_errors(&self, frame: &mut Frame<'_>, area: Rect) {
        let overview = self.sample.as_ref().and_then(|sample| sample.overview.as_ref());
        let errors = overview.map(|of| of.last_errors.as_slice()).unwrap_or_default();
        let lines = errors.iter().map(|one| Line::from(format!("{}: {}", one.topic, one.error)));
        let lines: Vec<Line<'_>> = lines.collect();
        frame.render_widget(Paragraph::new(lines).block(self.block("last errors".into())), area);
    }

    fn block(&self, title: String) -> Block<'static> {
        Block::new().borders(Borders::TOP).border_style(self.dim()).title(format!(" {title} "))
    }

    fn bold(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn dim(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn alarm(&self) -> Style {
        if self.is_coloured { self.bold().fg(Color::Red) } else { self.bold() }
    }
}
