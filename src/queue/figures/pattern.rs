//! The pattern of an error, which many jobs share.

/// Number of characters kept of the beginning and of the end of a longer text, because a traceback
/// names the error at its end. The job keeps the whole text.
const BEGINNING: usize = 100;
const END: usize = 400;

/// Removes the parts of `text` that differ from job to job: quoted values and, in each word with a
/// digit, the parts that are numbers or hexadecimal. The dashboard's `pattern` does the same.
pub fn pattern(text: &str) -> String {
    let text = &without_quoted(text);
    let is_number = |part: &str| {
        part.contains(|c: char| c.is_ascii_digit()) || part.chars().all(|c| c.is_ascii_hexdigit())
    };
    let mut pattern = String::with_capacity(text.len());
    let ends_word = |c: char| !c.is_ascii_alphanumeric() && !"._:-".contains(c);
    for word in text.split_inclusive(ends_word) {
        if word.contains(|c: char| c.is_ascii_digit()) {
            let parts = word.split(|c: char| !c.is_ascii_alphanumeric());
            pattern.push('#');
            pattern.extend(parts.filter(|part| !is_number(part)));
        } else {
            pattern.push_str(word);
        }
    }
    pattern
}

/// Replaces each quoted value with `#`. A quote inside a word, as in "can't", quotes nothing.
fn without_quoted(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(['\'', '"', '`']) {
        let (before, quoted) = rest.split_at(start);
        let (quote, value) = quoted.split_at(1);
        kept.push_str(before);
        let closed = value.split_once(quote).filter(|(inside, after)| {
            !kept.ends_with(is_word) && !inside.contains('\n') && !after.starts_with(is_word)
        });
        match closed {
            Some((_, after)) => {
                kept.push('#');
                rest = after;
            }
            None => {
                kept.push_str(quote);
                rest = value;
            }
        }
    }
    kept + rest
}

/// Returns the text, or only the beginning and the end of a long one.
pub fn shortened(text: &str) -> String {
    let mut starts = text.char_indices().map(|(at, _)| at);
    match (starts.nth(BEGINNING), starts.nth_back(END - 1)) {
        (Some(beginning), Some(end)) => format!("{}…{}", &text[..beginning], &text[end..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_keeps_its_beginning_and_its_end() {
        let exactly = "ä".repeat(BEGINNING + END);
        assert_eq!(shortened(&exactly), exactly);
        let long = format!("Traceback{}KeyError: shop", "ä".repeat(4000));
        let kept = shortened(&long);
        assert_eq!(kept.chars().count(), BEGINNING + 1 + END);
        assert!(kept.starts_with("Tracebackä") && kept.ends_with("äKeyError: shop"), "{kept}");
    }
}
