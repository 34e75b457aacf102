//! Settings: names, mistakes, and the output of the effective settings.

use crate::start::prelude::*;

/// Runs the program with these settings, environment variables, and further arguments.
fn run(place: &WorkDir, settings: &str, with: &[(&str, &str)], more: &[&str]) -> Output {
    let file = place.file("checked.toml", settings);
    let mut command = program(place.path(), &[&["--config", &file], more].concat());
    command.envs(with.iter().copied()).output().expect("the program runs")
}

fn check_settings(place: &WorkDir, settings: &str, with: &[(&str, &str)]) -> Output {
    run(place, settings, with, &["--check-config"])
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let place = WorkDir::new();
    let one = "[server]\nlisten = \"nowhere\"\nlisen = 1\n[job_defaults]\nttr = 0\n\
               [timer]\npoll_interval = \"soon\"\n[log]\nformat = \"xml\"\n[sevrer]\n\
               [limits]\nmemory_bytes = 33554431\n";
    let variables =
        [("DELAY_QUEUE_STORE_URL", "redis://:s3cret@h"), ("DELAY_QUEUE__STORE__PREFIX", "a{b}")];
    let named_in_one = [
        "server.listen must be",
        "server.lisen is not a setting",
        "job_defaults.ttr",
        "timer.poll_interval",
        "log.format",
        "sevrer",
        "limits.memory_bytes",
        "store.prefix",
        "did you mean DELAY_QUEUE__STORE__URL?",
    ];
    let other = "[timer]\npoll_interval = \"1ms\"\n[log]\nfilter = \"a=b=c\"\n\
                 [job_defaults]\nttr = \"30\"\ndead_retention = \"1M\"\n\
                 [server]\nunix_socket_mode = \"660\"\n\
                 [limits]\nrequest_bytes = 1\nwrite_timeout = \"1ms\"\n";
    let zero = "header_bytes connections connections_per_address requests_in_flight waiting_pops \
                puts_per_second topic_jobs topic_bytes store_jobs store_bytes header_timeout \
                body_timeout idle_timeout";
    let zeros: String = zero.split(' ').map(|key| format!("{key} = 0\n")).collect();
    let zero: Vec<String> = zero.split(' ').map(|key| format!("limits.{key} ")).collect();
    let mut named_in_other = vec!["timer.poll_interval", "log.filter", "lacks a unit"];
    named_in_other.extend(["\"M\" is not a unit", "server.unix_socket_mode"]);
    named_in_other.extend(["limits.request_bytes", "limits.write_timeout"]);
    named_in_other.extend(zero.iter().map(String::as_str));
    for (settings, variables, named) in [
        (one.to_owned(), &variables[..], &named_in_one[..]),
        (other.to_owned() + &zeros, &[], &named_in_other),
    ] {
        for command in [&["--check-config"][..], &["serve"]] {
            let output = run(&place, &settings, variables, command);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(output.stdout.is_empty(), "{output:?}");
            for word in named {
                let of = said.lines().filter(|line| line.contains(word)).count();
                assert_eq!(of, 1, "{word:?} in {said}");
            }
            assert_eq!(said.lines().count(), named.len(), "{said}");
            let is_clear = |line: &str| line.starts_with("delay-queue: failed to ");
            assert!(said.lines().all(is_clear) && !said.contains("s3cret"), "{said}");
        }
    }
    assert!(!place.path().join("data").exists(), "a refused start has created a store");
}

#[test]
fn a_wrong_setting_is_reported_once_with_its_line() {
    let place = WorkDir::new();
    for (settings, said, line) in [
        ("[queue]\nrequire_reservation = 3\n", "must be true or false, got 3", 2),
        ("\n[job_defaults]\nmax_attempts = \"many\"\n", "must be a whole number, got \"many\"", 3),
        ("[job_defaults]\nmax_attempts = 3.5\n", "must be a whole number, got 3.5", 2),
        ("[server]\nhosts = 3\n", "server.hosts must be a list of texts, got 3", 2),
        ("[server]\nunix_socket_mode = 0o660\n", "server.unix_socket_mode must", 2),
        ("[servr]\nlisten = 1\n", "servr.listen is not a setting; did you mean server.listen?", 2),
        ("[queue]\nx = 1\n", "queue.x is not a setting; [queue] has require_reservation", 2),
        ("[x]\ny = 1\n", "x.y is not a setting; the sections are ", 2),
        ("server = 3\n", "server must be a table of settings: [server]", 1),
        ("[log]\nformat = \"xml\"\n", "\"json\"", 2),
    ] {
        let reported = one_line(&check_settings(&place, settings, &[]), &[said]);
        let origin = format!("checked.toml, line {line})\n");
        assert!(reported.ends_with(&origin), "{reported}");
    }
    let said = ["checked.toml: line 2, column 9: key with no value"];
    one_line(&check_settings(&place, "# a\nnonsense\n", &[]), &said);
    let variable = [("DELAY_QUEUE__TIMER__POLL_INTERVAL", "soon")];
    let stderr = text(&check_settings(&place, "", &variable).stderr);
    assert_eq!(stderr.matches("poll_interval").count(), 1, "the message repeats the key: {stderr}");
    assert!(stderr.trim_end().ends_with("(DELAY_QUEUE__TIMER__POLL_INTERVAL)"), "{stderr}");
}

#[test]
fn flags_override_the_environment_which_overrides_files() {
    let place = WorkDir::new();
    let secret = "mysql://u:secret@h/";
    for (ttr, url, flags, named) in [
        ("30s", "file:./data", &[][..], ""),
        ("30", "file:./data", &[], ""),
        ("1.5", "file:./data", &[], ""),
        ("0", "file:./data", &[], "job_defaults.ttr"),
        ("1M", "file:./data", &[], "\"M\" is not a unit"),
        ("30s", "nonsense", &[], "store.url"),
        ("30s", "nonsense", &["--store", "file:./data"], ""),
        ("30s", "file:./data", &["--store", secret], "file:<directory>"),
        ("30s", "file:./data", &["--listen", "nonsense"], "server.listen"),
    ] {
        let with = [("DELAY_QUEUE__JOB_DEFAULTS__TTR", ttr), ("DELAY_QUEUE__STORE__URL", url)];
        let flags = [&["--check-config"], flags].concat();
        let output = run(&place, "[job_defaults]\nttr = 0\n", &with, &flags);
        if named.is_empty() {
            assert!(output.status.success(), "{with:?} {flags:?}: {output:?}");
        } else {
            assert!(!one_line(&output, &[named]).contains("secret"), "{output:?}");
        }
    }
    one_line(&output(place.path(), &["--config", "nowhere.toml"]), &["nowhere.toml"]);
    assert!(!place.path().join("data").exists(), "checking the settings has created a store");
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
    let health = ["health", "--listen", &name];
    place.assert_succeeds(&health, &[]);
    let second = ["serve", "--store", "file:./second", "--listen", &name];
    place.assert_fails(&second, &[&format!("failed to listen on {name} (server.listen)")]);
    place.assert_succeeds(&["serve", "--help"], &["--listen", "--check-config"]);
    let unknown = "no-such-host.invalid:1";
    place.assert_fails(&["serve", "--listen", unknown], &[unknown]);
    drop(server);
    assert!(!output(place.path(), &health).status.success());
}
