use super::*;

fn message(name: &str) -> Option<String> {
    let (mut given, mut errors) = (Given::new(), Vec::new());
    let keys: Vec<String> =
        ["server.listen", "store.url", "store.password_file", "timer.poll_interval"]
            .map(ToOwned::to_owned)
            .into();
    let variables = [(name.into(), "x".into())];
    read(variables.into_iter(), &keys, &mut given, &mut errors);
    assert!(errors.len() + given.len() <= 1);
    errors.pop().map(|error| error.to_string())
}

#[test]
fn a_misspelt_variable_is_reported_with_the_right_spelling() {
    for (wrong, right) in [
        ("DELAY_QUEUE_STORE_URL", "DELAY_QUEUE__STORE__URL"),
        ("DELAY_QUEUE__STORE_URL", "DELAY_QUEUE__STORE__URL"),
        ("DELAY_QUEUE__STOR__URL", "DELAY_QUEUE__STORE__URL"),
        ("DELAY_QUEUE_LISTEN", "DELAY_QUEUE__SERVER__LISTEN"),
        ("delay_queue_poll_interval", "DELAY_QUEUE__TIMER__POLL_INTERVAL"),
        ("DELAY_QUEUE__STORE__PASSWORDFILE", "DELAY_QUEUE__STORE__PASSWORD_FILE"),
    ] {
        let message = message(wrong).expect(wrong);
        assert!(
            message.contains(wrong) && message.contains(&format!("did you mean {right}?")),
            "{message}"
        );
    }
    let message = message("DELAY_QUEUE_XYZZY").expect("it is not a setting");
    assert!(message.contains("config/default.toml"), "{message}");
}

#[test]
fn settings_and_variables_of_other_programs_are_accepted() {
    for name in [
        "DELAY_QUEUE__STORE__URL",
        "delay_queue__store__url",
        "DELAY_QUEUES_STORE_URL",
        "MY_DELAY_QUEUE_STORE_URL",
        "DELAY_QUEUE_SERVICE_HOST",
        "DELAY_QUEUE_SERVICE_PORT",
        "DELAY_QUEUE_SERVICE_PORT_HTTP",
        "DELAY_QUEUE_PORT",
        "DELAY_QUEUE_PORT_9277_TCP",
        "DELAY_QUEUE_PORT_9277_TCP_ADDR",
        "DELAY_QUEUE_REDIS_SERVICE_HOST",
    ] {
        assert_eq!(message(name), None, "{name}");
    }
}

#[test]
fn only_the_variables_of_clients_and_of_jobs_are_ignored() {
    for name in [
        "DELAY_QUEUE_URL",
        "DELAY_QUEUE_TOKEN",
        "DELAY_QUEUE_CA_FILE",
        "DELAY_QUEUE_CONTEXT",
        "DELAY_QUEUE_JOB_ID",
        "DELAY_QUEUE_JOB_MAX_ATTEMPTS",
        "DELAY_QUEUE_JOB_HEADER_X_TENANT",
    ] {
        assert_eq!(message(name), None, "{name}");
    }
    for name in [
        "DELAY_QUEUE_URLS",
        "DELAY_QUEUE_JOB",
        "DELAY_QUEUE_JOB_TTR",
        "DELAY_QUEUE_JOB_HEADER_",
        "DELAY_QUEUE_JOB_DEFAULTS_TTR",
    ] {
        assert!(message(name).is_some(), "{name}");
    }
}

#[test]
fn only_numbers_in_their_usual_form_are_numbers() {
    assert_eq!(parse_number("30"), Some(ValueKind::I64(30)));
    assert_eq!(parse_number("0.5"), Some(ValueKind::Float(0.5)));
    for text in ["", "007", "1.0", "1e3", "+5", "NaN", "inf", "30s", "0x10"] {
        assert_eq!(parse_number(text), None, "{text}");
    }
}
