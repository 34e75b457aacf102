use super::*;

fn scopes(text: &str) -> Scopes {
    serde_json::from_str(text).expect(text)
}

#[test]
fn a_scope_allows_only_its_own_topics() {
    let scopes = scopes(r#"{"put":["billing.*"],"pop":["mail","sms"],"read":null}"#);
    let topic = |text: &str| text.parse::<Topic>().expect("a topic");
    let allows = |scope, text| scopes.of(scope).is_some_and(|of| of.allows(&topic(text)));
    assert!(allows(Scope::Put, "billing.x") && !allows(Scope::Put, "mail"));
    assert!(allows(Scope::Pop, "sms") && !allows(Scope::Pop, "billing.x"));
    assert!(!allows(Scope::Read, "mail") && !allows(Scope::Admin, "mail"));
    assert!(scopes.includes_topic(&topic("billing.x")) && scopes.includes_topic(&topic("sms")));
    assert!(
        !scopes.includes_topic(&topic("billing")) && !Scopes::admin().includes_topic(&topic("sms"))
    );
}

#[test]
fn adding_one_scope_adds_no_other_scope() {
    for only in Scope::ALL {
        let mut scopes = Scopes::default();
        scopes.add(only, vec!["*".parse().expect("a pattern")]);
        let present = Scope::ALL.into_iter().filter(|scope| scopes.of(*scope).is_some());
        assert_eq!(present.collect::<Vec<_>>(), [only]);
    }
}

#[test]
fn empty_scopes_unknown_scopes_and_a_limited_admin_are_refused() {
    for text in ["{}", r#"{"put":null}"#] {
        assert_eq!(scopes(text).check(), Err(ScopesError::None), "{text}");
    }
    let refused = scopes(r#"{"admin":["a"]}"#).check();
    assert_eq!(refused, Err(ScopesError::AdminOfTopics));
    assert_eq!(scopes(r#"{"admin":["*"]}"#).check(), Ok(()));
    for text in [
        r#"{"write":["*"]}"#,
        r#"{"put":[]}"#,
        r#"{"put":"*"}"#,
        r#"{"put":["a b"]}"#,
        r#"{"put":["a"],"put":["b"]}"#,
        r#"{"put":null,"put":["b"]}"#,
    ] {
        serde_json::from_str::<Scopes>(text).expect_err(text);
    }
}

#[test]
fn several_scopes_together_include_the_topics_of_each() {
    let scopes = scopes(r#"{"cancel":["a","b"],"manage":["b","c.*"],"read":["*"]}"#);
    let of_any = |of: &[Scope]| scopes.of_any(of).map(|topics| topics.patterns().map(<[_]>::len));
    assert_eq!(of_any(&[Scope::Manage, Scope::Cancel]), Some(Some(3)));
    assert_eq!(of_any(&[Scope::Put, Scope::Cancel]), Some(Some(2)));
    assert_eq!(of_any(&[Scope::Read, Scope::Cancel]), Some(None), "every topic");
    assert_eq!(of_any(&[Scope::Put, Scope::Pop]), None);
}

#[test]
fn patterns_of_repeated_scopes_are_merged() {
    let mut some = Scopes::default();
    let patterns = |texts: &[&str]| -> Vec<TopicPattern> {
        texts.iter().map(|text| text.parse().expect("a pattern")).collect()
    };
    some.add(Scope::Put, patterns(&["b", "a"]));
    some.add(Scope::Put, patterns(&["c.*"]));
    assert_eq!(some, scopes(r#"{"put":["a","b","c.*"]}"#));
    some.add(Scope::Put, patterns(&["*"]));
    some.add(Scope::Put, patterns(&["d"]));
    assert_eq!(some, scopes(r#"{"put":["*"]}"#));
}
