use super::*;

#[test]
fn thousands_are_grouped() {
    for (number, text) in [(0, "0"), (999, "999"), (3_412, "3,412"), (1_000_000, "1,000,000")] {
        assert_eq!(grouped(number), text);
    }
}

#[test]
fn repeated_lines_are_shown_once_and_counted() {
    let repeated = RepeatedLines::default();
    let lines = Lines::default();
    let writer = lines.clone();
    let layer = tracing_subscriber::fmt::layer().with_ansi(false);
    let layer = layer.with_writer(move || writer.clone());
    tracing::subscriber::with_default(registry().with(layer).with(repeated.clone()), || {
        for number in 0..3_413 {
            tracing::warn!(code = "store_full", request_id = number, "a request failed");
        }
        for number in 0..25 {
            tracing::error!(number, "another line each time");
            tracing::info!("all of these are shown");
        }
        repeated.log_summaries(SUMMARY_INTERVAL);
        repeated.log_summaries(Duration::ZERO);
        repeated.log_summaries(Duration::ZERO);
        tracing::warn!("once");
        repeated.log_summaries(Duration::ZERO);
    });
    let output = lines.text();
    let count = |text: &str| output.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("store_full"), 1, "{output}");
    assert_eq!(count("… and 3,412 more in the last 1 s: a request failed"), 1, "{output}");
    assert_eq!(count("number="), MAX_DISTINCT_LINES, "{output}");
    assert_eq!(count("ERROR"), MAX_DISTINCT_LINES + 1, "{output}");
    assert_eq!(count("… and 15 more in the last 1 s: another line each time"), 1, "{output}");
    assert_eq!(count("all of these"), 25, "{output}");
    assert_eq!(count("once"), 1, "{output}");
}

/// Writer that collects lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text")
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
