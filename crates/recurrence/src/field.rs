//! The fields of a cron line: their names, what they allow, and which of their words croner reads
//! otherwise than written.

/// Position and rules of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Weekday,
}

pub const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
pub const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Field {
    /// All fields in the order of a line with seconds.
    pub const ALL: [Self; 6] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Month, Self::Weekday];

    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "seconds",
            Self::Minute => "minutes",
            Self::Hour => "hours",
            Self::Day => "day of the month",
            Self::Month => "month",
            Self::Weekday => "day of the week",
        }
    }

    /// Returns the allowed values, without lists, ranges and steps.
    pub fn allowed(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "0 to 59",
            Self::Hour => "0 to 23",
            Self::Day => {
                "1 to 31, L (the last day), LW (the last weekday) and 15W (the weekday nearest to the 15th)"
            }
            Self::Month => "1 to 12 and JAN to DEC",
            Self::Weekday => {
                "0 to 7 (0 and 7 are Sunday), SUN to SAT, 5#2 (the second Friday) and 5L (the last Friday)"
            }
        }
    }

    /// Returns the largest value.
    pub fn last(self) -> u32 {
        match self {
            Self::Second | Self::Minute => 59,
            Self::Hour => 23,
            Self::Day => 31,
            Self::Month => 12,
            Self::Weekday => 7,
        }
    }

    /// Returns a step that exceeds the range of the field, as in `*/90`.
    pub fn long_step(self, text: &str) -> Option<u32> {
        let steps = text.split(',').filter_map(|entry| entry.split_once('/')?.1.parse().ok());
        steps.into_iter().find(|step| *step > self.last())
    }

    /// Returns whether the field consists of whole words, of which croner would read some in part
    /// (`1W5` as `1W`, `JANFEB` as `12`), or skip (`1,,2`).
    pub fn has_whole_words(self, text: &str) -> bool {
        let text =
            if self == Self::Weekday { text.strip_prefix('+').unwrap_or(text) } else { text };
        // croner reads the two together as LW alone.
        let has = |word| text.split(',').any(|entry| entry == word);
        text.split(',').all(|entry| self.is_entry(entry)) && !(has("L") && has("LW"))
    }

    fn is_entry(self, entry: &str) -> bool {
        entry
            .split(['-', '/', '#'])
            .all(|word| self.is_word(word) || (word == "L" && entry.contains("#L")))
    }

    fn is_word(self, word: &str) -> bool {
        let is_number =
            |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        if word == "*" || is_number(word) {
            return true;
        }
        match self {
            Self::Day => {
                matches!(word, "L" | "LW") || word.strip_suffix('W').is_some_and(is_number)
            }
            Self::Month => MONTHS.contains(&word),
            Self::Weekday => {
                let day = word.strip_suffix('L').unwrap_or(word);
                WEEKDAYS.contains(&day) || is_number(day)
            }
            _ => false,
        }
    }
}
