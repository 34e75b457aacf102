//! The commands of the README and of docs/, run unchanged except for the port.

use crate::disk::shim::files_below;
use crate::start::access::smallest;
use crate::start::prelude::*;

pub const README: &str = include_str!("../../../README.md");
const COMMAND_LINE: &str = include_str!("../../../docs/command-line.md");
const REDIS: &str = include_str!("../../../docs/redis.md");
const OPERATIONS: &str = include_str!("../../../docs/operations.md");
const METRICS: &str = include_str!("../../../docs/metrics.md");
const SECURITY: &str = include_str!("../../../docs/security.md");
const RELIABILITY: &str = include_str!("../../../docs/reliability.md");
const PERFORMANCE: &str = include_str!("../../../docs/performance.md");

/// Returns the code blocks of a page that are in this language.
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let after = page.split(opening.as_str()).skip(1);
    after.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

fn lines(page: &str) -> Vec<String> {
    blocks(page, "sh").concat().lines().map(str::to_owned).collect()
}

/// Returns the commands under a heading of the page on operations, with this Redis.
fn operations(heading: &str, redis: &Redis) -> Vec<String> {
    let redis = format!("127.0.0.1:{}", redis.port());
    let commands = lines(section(OPERATIONS, heading)).into_iter();
    commands.map(|command| command.replace("127.0.0.1:6379", &redis)).collect()
}

/// Returns the part of a page under a heading of the second level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).expect("the heading");
    rest.split("\n## ").next().unwrap_or_default()
}

/// Runs shell commands in a folder, with the program in the PATH. All commands must succeed.
pub fn run(dir: &Path, lines: &[String], behind: &str) -> String {
    let script = format!("set -euo pipefail\nexec 2>&1\n{}\n{behind}\n", lines.join("\n"));
    let path = format!("{}:{}", bin(), std::env::var("PATH").expect("a path"));
    let mut bash = Command::new("bash");
    let ran = bash.args(["-c", &script]).current_dir(dir).env("PATH", path).output();
    let ran = ran.expect("bash runs");
    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn the_curl_lines_of_the_readme_put_pop_and_finish_a_job() {
    let (_place, server) = started("").await;
    let is_call = |line: &String| line.starts_with("curl ") || line.starts_with("reservation=");
    let lines = lines(README).into_iter().filter(is_call).map(|line| {
        line.replace("http://127.0.0.1:9277", &server.base)
            .replace("curl ", "curl --fail-with-body ")
    });
    let lines: Vec<String> = lines.collect();
    let said = tokio::task::block_in_place(|| run(WorkDir::new().path(), &lines, ""));
    assert!(said.contains("\"jobs\":[{") && said.contains("\"state\":\"delayed\""), "{said}");
    assert_eq!(server.get("/jobs/close:4711").await.0, 404, "the job was not finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_certificate_is_trusted_when_it_is_named() {
    let place = WorkDir::new();
    run(place.path(), &lines(section(OPERATIONS, "TLS")), "");
    let tls = "[server.tls]\ncert_file = \"server.pem\"\nkey_file = \"server.key\"\n";
    let server = Logged::start(&place, tls);
    let url = server.base.replace("http://127.0.0.1", "https://localhost");
    let asked = [
        format!("curl --fail-with-body -s --cacert server.pem {url}/topics"),
        format!("delay-queue token list --url {url} --ca-file server.pem"),
    ];
    assert!(run(place.path(), &asked, "").contains("\"topics\":[]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_commands_move_jobs() {
    let ((dir, mut server), redis) = (started("").await, Redis::start());
    server.put_job(json!({"topic": "t", "id": "moved", "delay": "1h"})).await;
    server.stop();
    let commands = operations("Moving jobs", &redis);
    assert_eq!(commands.len(), 4, "{commands:?}");
    run(dir.path(), &commands, "gunzip < jobs.gz | grep moved");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_commands_repair_a_damaged_store() {
    let ((dir, mut server), redis) = (started("").await, Redis::start());
    for n in 0..20 {
        server.put_job(json!({"topic": "t", "id": format!("job:{n}"), "delay": "1h"})).await;
    }
    server.kill();
    flip_the_middle(&dir.path().join("data/jobs.db-wal"));
    dir.server(&store(&redis.url(), "")).await.kill();
    let commands = operations("A damaged store", &redis);
    assert_eq!(commands.len(), 3, "{commands:?}");
    run(dir.path(), &commands, "grep -q job:0 rest.ndjson; ls -d data/damaged-*");
    let job = dir.server("").await.get("/jobs/job:0").await;
    assert_eq!(job.0, 200, "a readable job was not salvaged");
}

/// Type and labels of each metric.
type Families = BTreeMap<String, (String, BTreeSet<String>)>;

/// Returns the metrics of an answer to `/metrics`.
fn served(metrics: &str) -> Families {
    let mut families = Families::new();
    let mut last = String::new();
    for line in metrics.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|of| of.split_once(' ')) {
            last = name.to_owned();
            families.insert(last.clone(), (kind.to_owned(), BTreeSet::new()));
        } else if let Some((_, labels)) = line.rsplit_once('}').and_then(|of| of.0.split_once('{'))
            && !line.starts_with('#')
        {
            let keys = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0));
            let keys = keys.filter(|key| *key != "le").map(str::to_owned);
            families.get_mut(&last).expect("a type before its samples").1.extend(keys);
        }
    }
    families
}

/// Returns the metrics in the tables of the page.
fn documented(page: &str) -> Families {
    let code = |cell: &str| cell.trim().trim_matches('`').to_owned();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let [name, kind, labels, _, ""] = cells[..] else { return None };
        let labels = labels.split(',').map(code).filter(|label| !label.is_empty());
        Some((code(name), (code(kind), labels.collect())))
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_metrics_lists_exactly_the_metrics() {
    let (_place, server) = started("[push]\nallowed_networks = [\"127.0.0.0/8\"]\n").await;
    server.put_job(json!({"topic": "t", "delay": "1h"})).await;
    server.post_ok("/topics/t/pause", json!({})).await;
    // A push has metrics once its endpoint was sent a job; this one refuses connections.
    let refusing = json!({"url": format!("http://127.0.0.1:{}/", free_port())});
    assert_eq!(server.put("/topics/pushed/push", refusing).await, Some(201));
    server.put_job(json!({"topic": "pushed"})).await;
    // Some metrics are there only when a request, a look or a push has ended.
    let page = documented(METRICS);
    until(async || served(&server.text("/metrics").await), |metrics| *metrics == page).await;
}

#[test]
fn the_page_of_metrics_has_every_alert_and_no_other() {
    let rules = read(&root().join("contrib/prometheus/alerts.yml"));
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let rows = section(METRICS, "Alerts").lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter_map(|row| row.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), alerts.collect::<Vec<_>>());
}

fn bin() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_delay-queue"));
    program.parent().expect("a folder").display().to_string()
}

#[test]
fn all_documented_options_and_commands_exist() {
    let path = format!("{}:{}", bin(), std::env::var("PATH").expect("a path"));
    let ours = |line: &String| line.starts_with("delay-queue ");
    let pages = [lines(REDIS), lines(PERFORMANCE), lines(SECURITY), lines(COMMAND_LINE)];
    let commands: Vec<String> = pages.concat().into_iter().filter(ours).collect();
    assert!(commands.len() >= 8, "{commands:?}");
    for command in commands {
        // With `--help`, the command parses its options and contacts no server.
        let command = command.split('#').next().unwrap_or_default();
        // Words after a dash belong to the command of a worker.
        let (ours, theirs) = command.split_once(" -- ").unwrap_or((command, ""));
        let command = format!("{ours} --help -- {theirs}").trim_end_matches(" -- ").to_owned();
        let ran = Command::new("bash").args(["-c", &command]).env("PATH", &path).output();
        let ran = ran.expect("bash runs");
        assert!(ran.status.success(), "{command}: {}", text(&ran.stderr));
    }
}

#[test]
fn the_cheat_sheet_of_the_page_is_that_of_the_program() {
    let printed = output(WorkDir::new().path(), &["examples"]);
    let [sheet] = &blocks(section(COMMAND_LINE, "Cheat sheet"), "sh")[..] else { panic!("one") };
    assert_eq!(text(&printed.stdout), *sheet);
}

/// `access` tests that the rule suffices.
#[test]
fn the_documented_acl_command_works() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let [command] = &blocks(section(REDIS, "ACL"), "sh")[..] else { panic!("one command") };
    let words = command.replace(['\'', '\\'], " ");
    let words: Vec<&str> = words.split_whitespace().collect();
    let ["redis-cli", "ACL", "SETUSER", _, "on", _, rule @ ..] = &words[..] else {
        panic!("{command}")
    };
    assert_eq!(rule.join(" "), smallest(), "left: docs/redis.md, right: the tests of access");
    let cli = format!("redis-cli -p {} ", redis.port());
    let said = run(place.path(), &[command.replace("redis-cli ", &cli)], "");
    assert_eq!(said.trim(), "OK", "{command}");
}

/// Returns all pages with their paths.
fn pages() -> Vec<(PathBuf, String)> {
    let own = fs::read_dir(root()).expect("a folder").map(|entry| entry.expect("one").path());
    let below = ["docs", "src"].into_iter().flat_map(|folder| files_below(&root().join(folder)));
    let is_page = |file: &PathBuf| file.extension().is_some_and(|end| end == "md");
    let found: Vec<PathBuf> = own.chain(below).filter(is_page).collect();
    assert!(found.len() >= 15, "{found:?}");
    found.into_iter().map(|file| (file.clone(), read(&file))).collect()
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn links_and_paths_in_the_documentation_exist() {
    for (page, text) in pages() {
        let name = page.display();
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap_or_default();
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            if file.contains("://") {
                continue;
            }
            let folder = page.parent().expect("a folder");
            let target = if file.is_empty() { page.clone() } else { folder.join(file) };
            assert!(target.exists(), "{name} links to {link}, which does not exist");
            let there = if heading.is_empty() { String::new() } else { read(&target) };
            let anchor =
                |line: &str| line.trim_matches(['#', ' ']).to_lowercase().replace(' ', "-");
            let mut headings = there.lines().filter(|line| line.starts_with('#')).map(anchor);
            let known = heading.is_empty() || headings.any(|anchor| anchor == heading);
            assert!(known, "{name} links to {link}, which does not exist");
        }
        // Text in backquotes may be a path from the root.
        for path in text.split('`').skip(1).step_by(2) {
            let path = path.trim_start_matches("./").split([' ', '\n']).next().unwrap_or_default();
            let ours = ["src/", "tests/", "benches/", "docs/", "config/", "contrib/"];
            let ours = ours.iter().any(|folder| path.starts_with(folder)) && !path.contains('<');
            let exists = !ours || root().join(path).exists();
            assert!(exists, "{name} names {path}, which does not exist");
        }
    }
}

#[test]
fn lines_of_the_pages_have_at_most_120_columns() {
    for (page, text) in pages() {
        for (number, line) in text.lines().enumerate() {
            let (page, columns) = (page.display(), line.chars().count());
            assert!(columns <= 120, "{page}:{} has {columns} columns", number + 1);
        }
    }
}

#[test]
fn the_settings_that_contrib_and_the_image_use_exist() {
    let mut section = String::new();
    let mut settings = BTreeSet::new();
    for line in read(&root().join("config/default.toml")).lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.replace('.', "__");
        } else if let Some((key, _)) = line.split_once(" = ") {
            let key = key.trim_start_matches("# ");
            settings.insert(format!("DELAY_QUEUE__{section}__{key}").to_uppercase());
        }
    }
    let files = [
        "contrib/systemd/delay-queue.service",
        "contrib/kubernetes/file.yaml",
        "contrib/kubernetes/redis.yaml",
        "Dockerfile",
        "docker-compose.yml",
    ];
    for file in files {
        let text = read(&root().join(file));
        let is_name = |c: char| c == '_' || c.is_ascii_uppercase();
        let used = text.match_indices("DELAY_QUEUE__").map(|(at, _)| {
            let end = text[at..].find(|c| !is_name(c)).unwrap_or(text.len() - at);
            &text[at..at + end]
        });
        for name in used.filter(|name| *name != "DELAY_QUEUE__") {
            assert!(settings.contains(name), "{file} uses {name}, which is not a setting");
        }
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).expect("text")
}

#[test]
fn the_page_on_reliability_names_real_tests_and_faults() {
    let files = ["tests", "src"].into_iter().flat_map(|folder| files_below(&root().join(folder)));
    let is_rust = |file: &PathBuf| file.extension().is_some_and(|end| end == "rs");
    let sources: String = files.filter(is_rust).map(|file| read(&file)).collect();
    let named = RELIABILITY.split('`').skip(1).step_by(2);
    let is_test = |name: &&str| {
        name.len() > 25
            && name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
    };
    let tests: Vec<&str> = named.filter(is_test).collect();
    assert!(tests.len() > 10, "{tests:?}");
    for test in tests {
        let forms = [format!("fn {test}("), format!("    {test},"), format!("    {test}\n")];
        assert!(forms.iter().any(|form| sources.contains(form)), "{test}");
    }
    for fault in crate::soak::faults::names() {
        assert!(RELIABILITY.contains(&format!("`{fault}`")), "it does not name the fault {fault}");
    }
}
