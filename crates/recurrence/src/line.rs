//! Cron lines as text.

use croner::{Cron, parser::CronParser};

use crate::{field::Field, invalid::quoted};

/// Maximum length of a line in bytes. The longest sensible one lists all values of a field.
const MAX_LENGTH: usize = 512;

const ALIASES: [(&str, &str); 7] = [
    ("@HOURLY", "0 * * * *"),
    ("@DAILY", "0 0 * * *"),
    ("@MIDNIGHT", "0 0 * * *"),
    ("@WEEKLY", "0 0 * * 0"),
    ("@MONTHLY", "0 0 1 * *"),
    ("@YEARLY", "0 0 1 1 *"),
    ("@ANNUALLY", "0 0 1 1 *"),
];

const FORM: &str = "must be five fields (minutes, hours, day of the month, month, day of the week), six with \
                    seconds first, or one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly and \
                    @annually, as in \"0 9 * * MON-FRI\"";

/// A cron line whose fields are known to be valid.
#[derive(Debug)]
pub struct Line {
    /// Zone of `CRON_TZ=`.
    pub zone: Option<String>,
    /// Six fields in capital letters, seconds first.
    pub fields: [String; 6],
    pub cron: Cron,
}

impl Line {
    /// Parses a line.
    ///
    /// # Errors
    /// The text is no cron line. The error says which part is wrong, and what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!(
                "has {} bytes; at most {MAX_LENGTH} are allowed, as in \"0 9 * * MON-FRI\"",
                text.len()
            ));
        }
        let (zone, rest) = zone_of(text)?;
        if let Some(hint) = hint(rest) {
            return Err(hint);
        }
        let fields = fields_of(rest).ok_or_else(|| format!("{FORM}; got {}", quoted(text)))?;
        if let Some(refusal) = long_step(&fields) {
            return Err(refusal);
        }
        let mut words = fields.each_ref().map(String::as_str);
        let weekday = format!("+{}", fields[5]);
        let [.., day, _, weekday_word] = &mut words;
        // croner combines two restricted fields by "or" even if one of them begins with a star.
        // Vixie cron does not.
        if (day.starts_with('*') || weekday_word.starts_with('*'))
            && *day != "*"
            && *weekday_word != "*"
        {
            *weekday_word = &weekday;
        }
        match parsed(words).filter(|_| has_whole_words(&fields)) {
            Some(cron) => Ok(Self { zone, fields, cron }),
            None => {
                Err(refusal(&fields).unwrap_or_else(|| format!("{FORM}; got {}", quoted(text))))
            }
        }
    }

    /// Returns whether the line runs at intervals of the day instead of fixed times. By the rule of
    /// Vixie cron, its seconds, minutes or hours then begin with a star.
    pub fn is_interval(&self) -> bool {
        self.fields[..3].iter().any(|field| field.starts_with('*'))
    }
}

/// Parses six fields with croner.
fn parsed(fields: [&str; 6]) -> Option<Cron> {
    // A year of `*` would take most of the time. The year is not used.
    CronParser::new().parse(&format!("{} 1", fields.join(" "))).ok()
}

/// Splits `CRON_TZ=…` from the fields.
fn zone_of(text: &str) -> Result<(Option<String>, &str), String> {
    let Some(rest) = text.trim_start().strip_prefix("CRON_TZ=") else { return Ok((None, text)) };
    let (zone, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if zone.is_empty() {
        return Err(
            "must name a time zone after CRON_TZ=, as in \"CRON_TZ=Europe/Berlin 0 9 * * 1-5\""
                .into(),
        );
    }
    Ok((Some(zone.to_owned()), rest))
}

/// Returns the six fields of a line without a zone; `None` if there are not five or six.
fn fields_of(text: &str) -> Option<[String; 6]> {
    let text = text.trim().to_ascii_uppercase();
    let alias = ALIASES.into_iter().find(|(alias, _)| *alias == text);
    let mut fields: Vec<_> =
        alias.map_or(&*text, |(_, line)| line).split_ascii_whitespace().collect();
    if fields.len() == 5 {
        fields.insert(0, "0");
    }
    let fields = <[&str; 6]>::try_from(fields).ok()?;
    Some(fields.map(|field| if field == "?" { "*".to_owned() } else { field.to_owned() }))
}

/// Returns how to write what other programs write otherwise.
fn hint(text: &str) -> Option<String> {
    let (first, rest) = text.trim().split_once(char::is_whitespace)?;
    if let Some(zone) = first.strip_prefix("TZ=") {
        return Some(format!(
            "must have {} instead of {}",
            quoted(&format!("CRON_TZ={zone}")),
            quoted(first)
        ));
    }
    (first.eq_ignore_ascii_case("@every")).then(|| {
        format!(
            "has no @every: use the field `every` instead of `cron`, as in {{\"every\": {}}}",
            quoted(rest.trim())
        )
    })
}

/// Refuses a step beyond the range of its field, which has one instant at most in each range.
fn long_step(fields: &[String; 6]) -> Option<String> {
    let mut all = Field::ALL.into_iter().zip(fields);
    let (field, text, step) =
        all.find_map(|(field, text)| field.long_step(text).map(|step| (field, text, step)))?;
    let name = field.name();
    Some(format!(
        "has {} in its {name}, where a step of {step} never ends; for equal distances, use `every`, as in \
         {{\"every\": \"90m\"}}",
        quoted(text)
    ))
}

fn has_whole_words(fields: &[String; 6]) -> bool {
    Field::ALL.into_iter().zip(fields).all(|(field, text)| field.has_whole_words(text))
}

/// Describes what is wrong with the first wrong field.
fn refusal(fields: &[String; 6]) -> Option<String> {
    let is_wrong = |(field, text): &(Field, &String)| {
        // croner names neither the field nor the value: give it each one alone.
        let mut words = ["*"; 6];
        words[*field as usize] = text;
        !field.has_whole_words(text) || parsed(words).is_none()
    };
    let (field, text) = Field::ALL.into_iter().zip(fields).find(is_wrong)?;
    let with_end = |(from, step): (&str, &str)| {
        let is_number = !from.is_empty() && from.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| format!("; for {} write {from}-{}/{step}", quoted(text), field.last()))
    };
    Some(format!(
        "has {} in its {}; allowed are {}, in lists (1,5), ranges (1-5) and steps (*/5, 1-5/2), as in \
         \"0 9 * * MON-FRI\"{}",
        quoted(text),
        field.name(),
        field.allowed(),
        text.split_once('/').and_then(with_end).unwrap_or_default()
    ))
}
