use super::*;

#[test]
fn tokens_are_unique_and_survive_a_round_trip() {
    let (one, other) = (SecretToken::generate(), SecretToken::generate());
    let (one, other) = (one.expect("randomness"), other.expect("randomness"));
    assert_eq!(one.reveal().len(), 75);
    assert_eq!(one.reveal().parse(), Ok(one.clone()));
    assert_ne!(one.hash(), other.hash());
    assert_eq!(one.hash().to_string().parse(), Ok(one.hash()));
    assert_eq!(format!("{one:?} {:?}", one.hash()), "(secret) (hash)");
}

#[test]
fn an_issued_token_keeps_its_format_and_hash() {
    let text = format!("dq_{}afd9288c", "0".repeat(64));
    let token: SecretToken = text.parse().expect("a token");
    assert_eq!(token.hash().to_string(), PINNED);
}

#[test]
fn text_that_looks_like_a_token_is_masked() {
    let token = SecretToken::generate().expect("randomness");
    let token = token.reveal();
    for (text, shown) in [
        (format!("/jobs?a={token}&b=1"), "/jobs?a=dq_…&b=1"),
        (format!("{token}{token}/{}", &token[..20]), "dq_…dq_…/dq_…"),
        (token.replace("dq_", "/topics/dq%5f"), "/topics/dq%5f…"),
        (token.replace("dq_", "/jobs/%64%71%5F"), "/jobs/%64%71%5F…"),
        (format!("/{}%61{}/x", &token[..9], &token[9..]), "/dq_…/x"),
        ("/topics/dq_abc/pop".to_owned(), "/topics/dq_abc/pop"),
        ("/dq%".to_owned(), "/dq%"),
        ("/dq%5".to_owned(), "/dq%5"),
        ("/é%5é/dq%5fé".to_owned(), "/é%5é/dq%5fé"),
        ("dq_".to_owned(), "dq_"),
        (String::new(), ""),
    ] {
        assert_eq!(masked(&text), shown);
    }
}

const PINNED: &str = "bf9f067386c8ff59d1df8a907567b6799ae59a8efe787534e3898e396a60c7f9";

#[test]
fn a_mistyped_token_is_refused() {
    let token = SecretToken::generate().expect("randomness");
    let text = token.reveal();
    for at in 0..text.len() {
        let mut wrong = text.to_owned();
        wrong.replace_range(at..=at, if &text[at..=at] == "0" { "1" } else { "0" });
        assert_eq!(wrong.parse::<SecretToken>(), Err(SecretTokenError), "{at}");
    }
    for wrong in
        ["", "dq_", "dq_é", &text[1..], &text[..74], &format!("{text}0"), &text.to_uppercase()]
    {
        assert_eq!(wrong.parse::<SecretToken>(), Err(SecretTokenError));
    }
}
