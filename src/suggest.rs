//! "Did you mean": the known name nearest to a misspelt one.

/// Minimum likeness (0 to 1) of a suggested name.
const ALIKE: f64 = 0.6;

/// Returns the name most like `given`, if it is like enough.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(given, name);
    let all = known.into_iter().map(|name| (likeness(name), name));
    let best = all.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_misspelt_name_has_a_neighbour_and_a_foreign_one_has_none() {
        let known = ["wait", "count", "ttr"];
        assert_eq!(nearest("wiat", known), Some("wait"));
        assert_eq!(nearest("cuont", known), Some("count"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
