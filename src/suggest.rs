//! "Did you mean …?": the known name that is most similar to a misspelt one.

/// Minimum likeness of a suggested name, from 0 (entirely different) to 1 (equal).
const MIN_LIKENESS: f64 = 0.6;

/// Returns the known name that is most similar to `given`, unless even that differs too much.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(given, name);
    let all = known.into_iter().map(|name| (likeness(name), name));
    let best = all.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness >= MIN_LIKENESS).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_a_misspelt_known_name_gets_a_suggestion() {
        let known = ["wait", "count", "ttr"];
        assert_eq!(nearest("wiat", known), Some("wait"));
        assert_eq!(nearest("cuont", known), Some("count"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
