use super::*;

fn host(name: &str, port: u16) -> Host {
    Host { name: name.to_owned(), port }
}

#[test]
fn each_kind_is_read() {
    let url: RedisUrl = "redis://localhost".parse().expect("one server");
    assert_eq!((url.kind, url.tls, url.db), (Kind::Single, false, 0));
    assert_eq!(url.hosts, [host("localhost", 6379)]);

    let text = "rediss+sentinel://dq:p%40ss@a,b:5,[::1]:7/main/3";
    let url: RedisUrl = text.parse().expect("sentinels");
    assert_eq!(url.kind, Kind::Sentinel { master: "main".to_owned() });
    assert_eq!(url.hosts, [host("a", 26379), host("b", 5), host("::1", 7)]);
    assert_eq!((url.tls, url.db), (true, 3));
    assert_eq!(url.user.as_deref(), Some("dq"));
    assert_eq!(url.password, Some(Secret("p@ss".to_owned())));

    let url: RedisUrl = "redis+cluster://:hunter2@a:1,b:2/".parse().expect("a cluster");
    assert_eq!((url.kind.clone(), url.user.clone()), (Kind::Cluster, None));
    assert!(!format!("{url:?} {url}").contains("hunter2"));
    assert_eq!(url.to_string(), "redis+cluster://a:1,b:2");
}

#[test]
fn errors_name_the_invalid_part() {
    for (text, word) in [
        ("mysql://a", "redis+cluster://"),
        ("redis+ring://a", "redis+cluster://"),
        ("redis+sentinel://a:1", "master"),
        ("redis+sentinel://a:1/", "master"),
        ("redis+sentinel://a:1/m/x", "database"),
        ("redis://a,b", "one host"),
        ("redis://a:b", "<name>:<port>"),
        ("redis://a:0", "<name>:<port>"),
        ("redis://", "<name>:<port>"),
        ("redis+cluster://a,,b", "<name>:<port>"),
        ("redis+cluster://a/1", "database"),
    ] {
        let said = text.parse::<RedisUrl>().expect_err(text);
        assert!(said.contains(word), "{text}: {said}");
    }
}
