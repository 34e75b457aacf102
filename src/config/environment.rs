//! Settings from the environment, where everything is text.

use config::{ConfigError, Environment, Map, Source, Value, ValueKind};

/// The variables `DELAY_QUEUE__<SECTION>__<KEY>`. Text that reads as a number is one, as in a file
/// (`DELAY_QUEUE__QUEUE__TTR=30`), if the number writes itself the same: so a password `007` stays
/// as it is.
#[derive(Debug, Clone)]
pub(super) struct Variables(Environment);

impl Variables {
    pub(super) fn new() -> Self {
        let named = Environment::with_prefix("DELAY_QUEUE");
        Self(named.prefix_separator("__").separator("__"))
    }
}

impl Source for Variables {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        let mut found = self.0.collect()?;
        for value in found.values_mut() {
            if let ValueKind::String(text) = &value.kind
                && let Some(number) = number(text)
            {
                value.kind = number;
            }
        }
        Ok(found)
    }
}

fn number(text: &str) -> Option<ValueKind> {
    let whole = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    let fraction = text.parse::<f64>().ok().filter(|number| number.to_string() == text);
    let fraction = fraction.filter(|number| number.is_finite());
    whole.map(ValueKind::I64).or(fraction.map(ValueKind::Float))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_that_a_number_writes_back_is_a_number() {
        assert_eq!(number("30"), Some(ValueKind::I64(30)));
        assert_eq!(number("0.5"), Some(ValueKind::Float(0.5)));
        for text in ["", "007", "1.0", "1e3", "+5", "NaN", "inf", "30s", "0x10"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
