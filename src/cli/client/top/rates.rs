//! Rates: differences of the totals of a server over the last seconds.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use super::model::{Sample, Totals};

/// Time over which rates are means.
const WINDOW: Duration = Duration::from_secs(5);

/// Numbers per second.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Rate {
    pub put: f64,
    pub popped: f64,
    pub finished: f64,
    pub dead: f64,
}

/// Totals of the last samples.
#[derive(Debug, Default)]
struct Series(VecDeque<(Instant, Totals)>);

/// Rates of all topics together, and of each topic.
#[derive(Debug, Default)]
pub struct Rates {
    all: Series,
    by_topic: HashMap<String, Series>,
}

impl Rates {
    /// Adds the totals of a sample, and forgets topics that are in it no more.
    pub fn add(&mut self, sample: &Sample) {
        if let Some(overview) = &sample.overview {
            self.all.add(sample.at, overview.since_start);
        }
        let mut by_topic = HashMap::new();
        for topic in &sample.topics {
            let Some(totals) = topic.since_start else { continue };
            let mut series = self.by_topic.remove(&topic.topic).unwrap_or_default();
            series.add(sample.at, totals);
            by_topic.insert(topic.topic.clone(), series);
        }
        self.by_topic = by_topic;
    }

    /// Returns the rates of all topics together; `None` before the second sample.
    pub fn all(&self) -> Option<Rate> {
        self.all.rate()
    }

    /// Returns the rates of a topic.
    pub fn of(&self, topic: &str) -> Option<Rate> {
        self.by_topic.get(topic)?.rate()
    }
}

impl Series {
    fn add(&mut self, at: Instant, totals: Totals) {
        // The server has restarted, or another server has answered.
        let is_lower = |last: &Totals| totals.put < last.put || totals.popped < last.popped;
        if self.0.back().is_some_and(|(_, last)| is_lower(last)) {
            self.0.clear();
        }
        self.0.push_back((at, totals));
        while self.0.len() > 2 && self.0.get(1).is_some_and(|(then, _)| at - *then >= WINDOW) {
            self.0.pop_front();
        }
    }

    fn rate(&self) -> Option<Rate> {
        let ((began, first), (ended, last)) = (self.0.front()?, self.0.back()?);
        let seconds = (*ended - *began).as_secs_f64();
        let per_second = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        (seconds > 0.0).then(|| Rate {
            put: per_second(first.put, last.put),
            popped: per_second(first.popped, last.popped),
            finished: per_second(first.finished, last.finished),
            dead: per_second(first.dead, last.dead),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_cover_the_last_seconds_and_begin_anew_after_a_restart() {
        let (start, mut series) = (Instant::now(), Series::default());
        let mut add = |second, put| {
            let totals = Totals { put, ..Totals::default() };
            series.add(start + Duration::from_secs(second), totals);
            series.rate().map(|rate| rate.put)
        };
        assert_eq!(add(0, 100), None);
        assert_eq!(add(1, 110), Some(10.0));
        assert_eq!(add(6, 110), Some(0.0), "the first second is not forgotten");
        assert_eq!(add(7, 3), None, "the server has restarted");
        assert_eq!(add(9, 7), Some(2.0));
    }
}
