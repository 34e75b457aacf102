use super::*;

fn secret() -> SecretToken {
    SecretToken::generate().expect("randomness")
}

fn token(name: &str, secret: &SecretToken, expires_at: Option<u64>) -> Token {
    let scopes = serde_json::from_str(r#"{"put":["*"]}"#).expect("scopes");
    let (made, expires_at) = (UnixMillis::new(1), expires_at.map(UnixMillis::new));
    Token::new(name.parse().expect("a name"), secret.hash(), scopes, made, expires_at)
}

fn ask(access: &Access, secret: &SecretToken) -> Result<Option<String>, Denied> {
    let header = format!("Bearer {}", secret.reveal());
    let token = access.authenticate(Some(header.as_bytes()))?;
    Ok(token.map(|token| token.name.to_string()))
}

#[test]
fn requests_need_a_token_once_there_is_one() {
    let access = Access::new(None, false);
    assert!(access.authenticate(None).is_ok_and(|token| token.is_none()));
    let one = secret();
    access.replace(1, [token("one", &one, None)], false, Instant::now());
    assert_eq!(access.authenticate(None).map(drop), Err(Denied::Missing));
    assert_eq!(ask(&access, &one), Ok(Some("one".to_owned())));
    access.replace(1, [], false, Instant::now());
    assert_eq!(access.authenticate(None).map(drop), Err(Denied::Missing));
    assert_eq!(ask(&access, &one), Err(Denied::Wrong));
}

#[test]
fn a_token_that_cannot_be_read_opens_no_door() {
    let access = Access::new(None, false);
    access.replace(1, [], true, Instant::now());
    assert_eq!(access.authenticate(None).map(drop), Err(Denied::Missing));
    assert_eq!(ask(&access, &secret()), Err(Denied::Wrong));
    assert!(access.has_tokens());
}

#[test]
fn only_tokens_that_are_in_force_are_let_in() {
    let (good, expired, bootstrap) = (secret(), secret(), secret());
    let access = Access::new(Some(&bootstrap), false);
    let tokens = [token("good", &good, Some(u64::MAX)), token("expired", &expired, Some(2))];
    access.replace(1, tokens, false, Instant::now());
    assert_eq!(ask(&access, &good), Ok(Some("good".to_owned())));
    assert_eq!(ask(&access, &bootstrap), Ok(Some(BOOTSTRAP.to_owned())));
    assert_eq!(ask(&access, &expired), Err(Denied::Wrong));
    assert_eq!(ask(&access, &secret()), Err(Denied::Wrong));
    let text = good.reveal();
    for wrong in
        [text.to_owned(), format!("Basic {text}"), "Bearer".to_owned(), format!("Bearer{text}")]
    {
        let denied = access.authenticate(Some(wrong.as_bytes())).map(drop);
        assert_eq!(denied, Err(Denied::Wrong), "{wrong}");
    }
    assert!(access.authenticate(Some(format!("bearer  {text}").as_bytes())).is_ok());
    assert_eq!(access.authenticate(Some(b"Bearer \xff")).map(drop), Err(Denied::Wrong));
}

#[test]
fn a_silent_store_admits_only_the_bootstrap_token() {
    let (good, bootstrap) = (secret(), secret());
    let started = Instant::now();
    let access =
        Access { started: started - TRUSTED_FOR * 3, ..Access::new(Some(&bootstrap), true) };
    access.replace(1, [token("good", &good, None)], false, started);
    assert!(ask(&access, &good).is_ok());
    access.compared(started - TRUSTED_FOR * 2);
    assert_eq!(ask(&access, &good), Err(Denied::Unknown));
    assert!(ask(&access, &bootstrap).is_ok());
    access.compared(Instant::now());
    assert!(ask(&access, &good).is_ok());
}

#[test]
fn a_token_that_is_read_again_keeps_its_last_use() {
    let (access, good) = (Access::new(None, true), secret());
    access.replace(1, [token("good", &good, None)], false, Instant::now());
    ask(&access, &good).expect("let in");
    access.replace(1, [token("good", &good, None)], false, Instant::now());
    let known = access.known.load();
    assert!(known.by_hash[&good.hash()].last_used_at().is_some());
}
