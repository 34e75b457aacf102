//! Assembles scripts from their files.
//!
//! A line `--- @include "shared/prelude"` stands for the text of that file, so each file shows the
//! files on which it builds.

/// Path without extension, and text of each file below `scripts/`; `build.rs` makes the list.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

/// Path of the file that checks callers' access to the topics of their jobs.
const GUARD: &str = "shared/guard";

/// Returns a script without the guard, for callers that may access all topics.
pub fn unguarded(path: &str) -> String {
    assembled(path, |included| included != GUARD)
}

/// Returns a script with its guard.
pub fn guarded(path: &str) -> String {
    assembled(path, |_| true)
}

fn assembled(path: &str, is_wanted: fn(&str) -> bool) -> String {
    let mut script = String::new();
    append(&mut script, path, is_wanted);
    script
}

fn append(script: &mut String, path: &str, is_wanted: fn(&str) -> bool) {
    for line in text(path).lines() {
        match included(line) {
            Some(path) if is_wanted(path) => append(script, path, is_wanted),
            Some(_) => {}
            None => {
                script.push_str(line);
                script.push('\n');
            }
        }
    }
}

fn text(path: &str) -> &'static str {
    let file = FILES.iter().find(|(name, _)| *name == path);
    file.unwrap_or_else(|| panic!("there is no {path}.lua")).1
}

fn included(line: &str) -> Option<&str> {
    line.strip_prefix("--- @include \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::State;

    /// Returns the paths of all files that a file includes, directly or indirectly.
    fn inclusions(path: &str) -> Vec<&str> {
        let own = text(path).lines().filter_map(included);
        own.flat_map(|path| [vec![path], inclusions(path)].concat()).collect()
    }

    #[test]
    fn no_script_includes_a_file_twice() {
        for (path, _) in FILES {
            let mut all = inclusions(path);
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "{path}.lua");
        }
    }

    #[test]
    fn each_shared_file_is_included_by_a_script() {
        let included: Vec<&str> = FILES.iter().flat_map(|(path, _)| inclusions(path)).collect();
        for (path, _) in FILES.iter().filter(|(path, _)| path.contains('/')) {
            assert!(included.contains(path), "{path}.lua");
        }
    }

    #[test]
    fn an_include_line_has_one_form() {
        for (path, text) in FILES {
            let odd =
                text.lines().find(|line| line.contains("@include") && included(line).is_none());
            assert_eq!(odd, None, "{path}.lua");
        }
    }

    #[test]
    fn the_states_of_scripts_are_those_of_jobs() {
        let basics = text("shared/basics");
        let line = |start| basics.lines().find(|line| line.starts_with(start)).expect(start);
        let (states, codes) = (line("local STATES ="), line("local STATE_CODE ="));
        for (state, code) in State::ALL.iter().zip(1..) {
            assert!(states.contains(&format!("'{}'", state.name())), "{states}");
            assert!(codes.contains(&format!("{} = {code}", state.name())), "{codes}");
        }
        assert_eq!(states.matches(',').count() + 1, State::ALL.len());
        assert_eq!(codes.matches('=').count() - 1, State::ALL.len());
    }
}
