//! Files of the dashboard. `tests/browser` tests them in a browser.

use crate::api::prelude::*;

async fn browse(server: &Server, path: &str) -> Answer {
    let request = server.request(Method::GET, path);
    Server::send(request.header("accept", "text/html,application/xhtml+xml,*/*;q=0.8")).await
}

/// Returns the file names that a page or module contains between `before` and `after`.
fn named<'a>(text: &'a str, before: &str, after: char) -> Vec<&'a str> {
    let parts = text.split(before).skip(1);
    parts.map(|part| part.split(after).next().unwrap_or_default()).collect()
}

pub async fn the_server_serves_the_page_and_everything_that_it_loads(server: Server) {
    let page = browse(&server, "/").await;
    assert_eq!(
        (page.status.as_u16(), &page.headers["content-type"]),
        (200, &"text/html; charset=utf-8".parse().expect("text"))
    );
    let files = named(&page.text, "\"assets/", '"');
    assert!(files.contains(&"main.js") && files.contains(&"style.css"), "{files:?}");
    assert!(!page.text.contains("://"), "the page names another host");
    assert!(
        !page.text.contains("style=") && !page.text.contains("<style"),
        "the page contains inline styles"
    );
    let mut files: Vec<String> = files.into_iter().map(str::to_owned).collect();
    let mut seen = 0;
    while let Some(file) = files.get(seen).cloned() {
        seen += 1;
        let answer = server.get(&format!("/assets/{file}")).await;
        assert_eq!(answer.status, 200, "{file}");
        let kind = answer.headers["content-type"].to_str().expect("text").to_owned();
        let expected = match file.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            _ => "image/svg+xml",
        };
        assert_eq!(kind, expected, "{file}");
        for import in named(&answer.text, " from \"./", '"') {
            if !files.iter().any(|file| file == import) {
                files.push(import.to_owned());
            }
        }
    }
    assert!(files.iter().any(|file| file == "verdict.js"), "{files:?}");
}

pub async fn the_pages_load_no_other_files_need_no_token_and_are_cached(server: Server) {
    server.token("", "root", json!({"admin": ["*"]})).await;
    let all = "default-src 'none'";
    let own = [all, "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'"];
    for (path, parts) in [
        ("/", &own[..]),
        ("/assets/main.js", &own),
        ("/openapi.json", &[all]),
        ("/v1/openapi.json", &[all]),
        ("/docs", &[all]),
        ("/docs/style.css", &[all]),
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.headers["content-security-policy"].to_str().expect("text");
        assert!(parts.iter().all(|part| policy.contains(part)), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["cache-control"], "no-cache");
        let etag = answer.headers["etag"].clone();
        for (known, status) in [(etag, 304), ("\"other\"".parse().expect("text"), 200)] {
            let again = server.request(Method::GET, path).header("if-none-match", known);
            let again = Server::send(again).await;
            assert_eq!((again.status.as_u16(), again.text.is_empty()), (status, status == 304));
        }
        server.post(path, "{}").await.problem(405, "method_not_allowed");
    }
    assert_eq!(server.call(Method::HEAD, "/", "").await.status, 200);
}

pub async fn a_404_is_a_page_for_browsers_and_a_problem_for_programs(server: Server) {
    for path in ["/assets/nope.js", "/assets/..%2fmod.rs", "/nope"] {
        server.get(path).await.problem(404, "route_not_found");
        let page = browse(&server, path).await;
        assert_eq!(page.status, 404, "{path}");
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert!(page.text.contains("This page does not exist"), "{}", page.text);
    }
}
