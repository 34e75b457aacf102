//! Settings: names, mistakes, and the output of the effective settings.

use crate::start::prelude::*;

fn check_settings(place: &WorkDir, settings: &str, with: &[(&str, &str)]) -> Output {
    let file = place.file("checked.toml", settings);
    let mut command = program(place.path(), &["--check-config", "--config", &file]);
    command.envs(with.iter().copied()).output().expect("the program runs")
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let place = WorkDir::new();
    let settings = "[server]\nlisten = \"nowhere\"\nlisen = 1\n[job_defaults]\nttr = 0\n\
                    [timer]\npoll_interval = \"soon\"\n[log]\nformat = \"xml\"\n[sevrer]\n";
    let variables =
        [("DELAY_QUEUE_STORE_URL", "redis://:s3cret@h"), ("DELAY_QUEUE__STORE__PREFIX", "{}")];
    let output = check_settings(&place, settings, &variables);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let named = [
        "server.listen must be",
        "server.lisen is not a setting",
        "job_defaults.ttr",
        "timer.poll_interval",
        "log.format",
        "sevrer",
        "store.prefix",
        "did you mean DELAY_QUEUE__STORE__URL?",
    ];
    for word in named {
        let of = said.lines().filter(|line| line.contains(word)).count();
        assert_eq!(of, 1, "{word:?} in {said}");
    }
    assert_eq!(said.lines().count(), named.len(), "{said}");
    assert!(said.lines().all(|line| line.starts_with("delay-queue: failed to ")), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
}

#[test]
fn a_wrong_setting_is_reported_once_with_its_line() {
    let place = WorkDir::new();
    for (settings, said) in [
        (
            "[queue]\nrequire_reservation = 3\n",
            "must be true or false, got 3 (checked.toml, line 2)",
        ),
        (
            "\n[job_defaults]\nmax_attempts = \"many\"\n",
            "must be a whole number, got \"many\" (checked.toml, line 3)",
        ),
        (
            "[job_defaults]\nmax_attempts = 3.5\n",
            "must be a whole number, got 3.5 (checked.toml, line 2)",
        ),
        (
            "[server]\nhosts = 3\n",
            "server.hosts must be a list of texts, got 3 (checked.toml, line 2)",
        ),
        (
            "[servr]\nlisten = 1\n",
            "servr.listen is not a setting; did you mean server.listen? (checked.toml, line 2)",
        ),
        (
            "[queue]\nx = 1\n",
            "queue.x is not a setting; [queue] has require_reservation (checked.toml, line 2)",
        ),
        ("[x]\ny = 1\n", "x.y is not a setting; the sections are "),
        ("server = 3\n", "server must be a table of settings: [server] (checked.toml, line 1)"),
        ("# a\nnonsense\n", "checked.toml: line 2, column 9: key with no value"),
    ] {
        let output = check_settings(&place, settings, &[]);
        let stderr = text(&output.stderr);
        let [line] = stderr.lines().collect::<Vec<_>>()[..] else {
            panic!("the output must be one line: {stderr}")
        };
        assert!(
            line.replace(&format!("{}/", place.path().display()), "").contains(said),
            "{said:?} in {line}"
        );
    }
    let variable = [("DELAY_QUEUE__TIMER__POLL_INTERVAL", "soon")];
    let stderr = text(&check_settings(&place, "", &variable).stderr);
    assert_eq!(stderr.matches("poll_interval").count(), 1, "the message repeats the key: {stderr}");
    assert!(stderr.trim_end().ends_with("(DELAY_QUEUE__TIMER__POLL_INTERVAL)"), "{stderr}");
}

#[test]
fn a_misspelt_variable_stops_the_start() {
    let place = WorkDir::new();
    for (name, right) in [
        ("DELAY_QUEUE_STORE_URL", "DELAY_QUEUE__STORE__URL"),
        ("DELAY_QUEUE__STOR__URL", "DELAY_QUEUE__STORE__URL"),
        ("DELAY_QUEUE_SERVER_LISTEN", "DELAY_QUEUE__SERVER__LISTEN"),
    ] {
        let output = place.run("", &[(name, "file:./elsewhere")], &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(name) && said.contains(right), "{said}");
        assert!(!place.path().join("data").exists() && !place.path().join("elsewhere").exists());
    }
    let output = check_settings(&place, "", &[("DELAY_QUEUE__STORE__URL", "file:./elsewhere")]);
    assert!(text(&output.stdout).contains("url = \"file:./elsewhere\""), "{output:?}");
}

#[test]
fn shown_settings_have_no_secrets_and_work_as_a_file() {
    let (place, redis) = (WorkDir::new(), Redis::start());
    let settings = format!(
        "[server]\nlisten = \"localhost:1234\"\n[store]\nurl = \"redis://127.0.0.1:{}/3\"\n\
         password = \"s3cret\"\nsentinel_password = \"s3cret\"\nack = \"replica\"\n\
         [timer]\npoll_interval = \"250ms\"\n",
        redis.port()
    );
    let output =
        check_settings(&place, &settings, &[("DELAY_QUEUE__JOB_DEFAULTS__MAX_ATTEMPTS", "3")]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for line in [
        "[store]",
        "listen = \"localhost:1234\"",
        "password = \"(secret)\"",
        "ack = \"replica\"",
        "poll_interval = 0.25",
        "max_attempts = 3",
        "dead_retention = 1209600",
        "format = \"text\"",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "no {line:?} in {shown}");
    }
    assert!(!shown.contains("s3cret"), "{shown}");
    let again = check_settings(&place, &shown, &[]);
    assert_eq!(text(&again.stdout), shown, "{}", text(&again.stderr));

    let login = "[store]\nurl = \"rediss+cluster://me:s3cret@a:1,b:2\"\n";
    let shown = text(&check_settings(&place, login, &[]).stdout);
    assert!(shown.contains("url = \"rediss+cluster://(secret)@a:1,b:2\""), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn a_server_listens_on_a_host_name_and_accepts_serve() {
    let place = WorkDir::new();
    let server = Logged::start_on(&place, "localhost", "");
    let name = server.base.replace("http://127.0.0.1", "localhost");
    let run =
        |arguments: &[&str]| program(place.path(), arguments).output().expect("the program runs");
    assert!(run(&["health", "--listen", &name]).status.success());
    let second = run(&["serve", "--store", "file:./second", "--listen", &name]);
    let said = text(&second.stderr);
    assert!(said.contains(&format!("failed to listen on {name} (server.listen)")), "{said}");
    let help = text(&run(&["serve", "--help"]).stdout);
    assert!(help.contains("--listen") && help.contains("--check-config"), "{help}");
    let unknown = run(&["serve", "--listen", "no-such-host.invalid:1"]);
    assert!(text(&unknown.stderr).contains("no-such-host.invalid:1"), "{unknown:?}");
}
