//! Help for a client that requests a route that does not exist.

use std::{collections::BTreeSet, sync::LazyLock};

use super::operations;
use crate::suggest;

/// Paths of all routes, with `{name}` for their parameters.
static PATHS: LazyLock<BTreeSet<&'static str>> =
    LazyLock::new(|| operations::ALL.iter().map(|operation| operation.path).collect());

/// Returns the detail of a problem: the route that is most similar to `path`, or the first parts of
/// all routes.
pub fn no_route(path: &str) -> String {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let filled: Vec<(String, &str)> =
        PATHS.iter().filter_map(|template| Some((fill(template, path)?, *template))).collect();
    let meant = suggest::nearest(path, filled.iter().map(|(path, _)| path.as_str()));
    let meant = filled.iter().find(|(path, _)| Some(path.as_str()) == meant);
    let instead = match meant {
        Some((found, template)) if found == path => {
            format!("{template} is on the address of `server.admin_listen`")
        }
        Some((_, template)) => format!("did you mean {template}?"),
        None => {
            let first = |path: &&'static str| path.split('/').nth(1);
            let mut first: Vec<&str> = PATHS.iter().filter_map(first).collect();
            first.dedup();
            format!("routes begin with /{}", first.join(", /"))
        }
    };
    format!("there is no such route: {instead} (GET /docs describes them all)")
}

/// Fills the parameters of a template with the parts of `path`, if their numbers are equal.
fn fill(template: &str, path: &str) -> Option<String> {
    let (parts, given) = (template.split('/'), path.split('/'));
    if parts.clone().count() != given.clone().count() {
        return None;
    }
    let filled =
        parts.zip(given).map(|(part, given)| if part.starts_with('{') { given } else { part });
    Some(filled.collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::no_route;

    #[test]
    fn a_misspelt_route_gets_a_suggestion() {
        for (path, meant) in [
            ("/job", "/jobs?"),
            ("/v1/job/x", "/jobs/{id}?"),
            ("/jobs/order:4711/finnish", "/jobs/{id}/finish?"),
            ("/topic/mail/pop", "/topics/{topic}/pop?"),
            ("/batch/job", "/batch/jobs?"),
            ("/health", "/healthz?"),
        ] {
            let detail = no_route(path);
            assert!(detail.contains(&format!("did you mean {meant}")), "{path}: {detail}");
        }
        let detail = no_route("/metrics");
        assert!(detail.contains("/metrics is on the address of `server.admin_listen`"), "{detail}");
        let detail = no_route("/this/is/nowhere");
        assert!(detail.contains("routes begin with /access, /batch, "), "{detail}");
    }
}
