use super::*;

fn secret() -> SecretToken {
    SecretToken::generate().expect("randomness")
}

fn token(name: &str, secret: &SecretToken, expires_at: Option<u64>) -> Token {
    let scopes = serde_json::from_str(r#"{"put":["*"]}"#).expect("scopes");
    let (created_at, expires_at) = (UnixMillis::new(1), expires_at.map(UnixMillis::new));
    Token::new(name.parse().expect("a name"), secret.hash(), scopes, created_at, expires_at)
}

fn authenticate(access: &Access, secret: &SecretToken) -> Result<Option<String>, Denied> {
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
    assert_eq!(authenticate(&access, &one), Ok(Some("one".to_owned())));
    access.replace(1, [], false, Instant::now());
    assert_eq!(access.authenticate(None).map(drop), Err(Denied::Missing));
    assert_eq!(authenticate(&access, &one), Err(Denied::Wrong));
}

#[test]
fn requests_need_a_token_even_if_none_is_readable() {
    let access = Access::new(None, false);
    access.replace(1, [], true, Instant::now());
    assert_eq!(access.authenticate(None).map(drop), Err(Denied::Missing));
    assert_eq!(authenticate(&access, &secret()), Err(Denied::Wrong));
    assert!(access.has_tokens());
}

#[test]
fn only_valid_tokens_are_accepted() {
    let (good, expired, bootstrap) = (secret(), secret(), secret());
    let access = Access::new(Some(&bootstrap), false);
    let tokens = [token("good", &good, Some(u64::MAX)), token("expired", &expired, Some(2))];
    access.replace(1, tokens, false, Instant::now());
    assert_eq!(authenticate(&access, &good), Ok(Some("good".to_owned())));
    assert_eq!(authenticate(&access, &bootstrap), Ok(Some(BOOTSTRAP.to_owned())));
    assert_eq!(authenticate(&access, &expired), Err(Denied::Wrong));
    assert_eq!(authenticate(&access, &secret()), Err(Denied::Wrong));
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
fn only_the_bootstrap_token_outlives_a_store_failure() {
    let (good, bootstrap) = (secret(), secret());
    let started = Instant::now();
    let access =
        Access { started: started - TRUSTED_FOR * 3, ..Access::new(Some(&bootstrap), true) };
    access.replace(1, [token("good", &good, None)], false, started);
    assert!(authenticate(&access, &good).is_ok());
    access.confirm_current(started - TRUSTED_FOR * 2);
    assert_eq!(authenticate(&access, &good), Err(Denied::Unknown));
    assert!(authenticate(&access, &bootstrap).is_ok());
    access.confirm_current(Instant::now());
    assert!(authenticate(&access, &good).is_ok());
}

#[test]
fn a_reread_token_keeps_its_last_use() {
    let (access, good) = (Access::new(None, true), secret());
    access.replace(1, [token("good", &good, None)], false, Instant::now());
    authenticate(&access, &good).expect("a valid token");
    access.replace(1, [token("good", &good, None)], false, Instant::now());
    let known = access.known.load();
    assert!(known.by_hash[&good.hash()].last_used_at().is_some());
}
