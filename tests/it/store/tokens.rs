use futures::FutureExt as _;

use crate::store::prelude::*;

async fn change(bench: &Bench, change: TokenChange) -> TokenChanged {
    bench.store.change_token(change).await.expect("changed or not")
}

fn is_done(changed: TokenChanged) -> bool {
    matches!(changed, TokenChanged::Done | TokenChanged::First)
}

fn creation(name: &str, text: &str, is_admin: bool) -> TokenChange {
    TokenChange::Create { name: name.to_owned(), text: text.to_owned(), is_admin }
}

async fn create(bench: &Bench, name: &str, text: &str) -> bool {
    is_done(change(bench, creation(name, text, true)).await)
}

async fn revoke(bench: &Bench, name: &str) -> bool {
    is_done(change(bench, TokenChange::Revoke { name: name.to_owned() }).await)
}

async fn all(bench: &Bench) -> (u64, Vec<StoredToken>) {
    let stored = bench.store.tokens(None).await.expect("tokens").expect("another version");
    let mut tokens = stored.tokens;
    tokens.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    (stored.version, tokens)
}

fn token(name: &str, text: &str, used_at: Option<u64>) -> StoredToken {
    let (name, text) = (name.to_owned(), text.to_owned());
    StoredToken { name, text, used_at: used_at.map(UnixMillis::new) }
}

pub async fn tokens_are_made_listed_and_revoked_each_by_its_name(bench: Bench) {
    let (first, none) = all(&bench).await;
    assert_eq!(none, []);
    assert!(create(&bench, "a", "one").await);
    assert!(!create(&bench, "a", "another").await, "a second token with this name was created");
    assert!(create(&bench, "b.c_d-e", r#"{"put":["*"]}"#).await);
    let both = [token("a", "one", None), token("b.c_d-e", r#"{"put":["*"]}"#, None)];
    let (version, found) = all(&bench).await;
    assert!(version > first);
    assert_eq!(found, both);
    assert!(revoke(&bench, "a").await);
    assert!(!revoke(&bench, "a").await, "a revoked token was revoked again");
    assert_eq!(all(&bench).await.1, both[1..]);
    assert!(create(&bench, "a", "new").await, "the name of a revoked token is not free");
    let bench = bench.reopen().await;
    assert_eq!(all(&bench).await.1, [token("a", "new", None), both[1].clone()]);
}

pub async fn the_first_token_must_have_the_scope_admin(bench: Bench) {
    use TokenChanged::{Done, First, NameConflict, NeedsAdmin};
    let make = async |name: &str, is_admin| change(&bench, creation(name, "{}", is_admin)).await;
    let (empty, _) = all(&bench).await;
    assert_eq!(make("shop", false).await, NeedsAdmin);
    assert_eq!(all(&bench).await, (empty, Vec::new()), "a refused token has changed the store");
    assert_eq!(make("root", true).await, First);
    assert_eq!(make("shop", false).await, Done);
    assert_eq!(make("root", false).await, NameConflict);
    assert!(revoke(&bench, "root").await && revoke(&bench, "shop").await);
    assert_eq!(make("shop", false).await, NeedsAdmin, "there is no token again");
    // Whichever call is first, a token without admin rights must never be the only one.
    for _ in 0..20 {
        let (shop, root) = futures::join!(make("shop", false), make("root", true));
        assert!(root == First && [Done, NeedsAdmin].contains(&shop), "{shop:?} {root:?}");
        revoke(&bench, "root").await;
        revoke(&bench, "shop").await;
    }
}

pub async fn tokens_are_read_again_only_when_one_is_made_or_revoked(bench: Bench) {
    let since = async |version: u64| bench.store.tokens(Some(version)).await.expect("tokens");
    assert!(create(&bench, "a", "one").await);
    let (made, _) = all(&bench).await;
    assert_eq!(since(made).await, None);
    let used = async |uses: &[(&str, u64)]| {
        let uses = uses.iter().map(|(name, at)| ((*name).to_owned(), UnixMillis::new(*at)));
        bench.store.note_token_uses(uses.collect()).await.expect("noted");
    };
    used(&[("a", 5)]).await;
    assert_eq!(since(made).await, None, "a recorded use has changed the version of the tokens");
    assert_eq!(all(&bench).await.1, [token("a", "one", Some(5))]);
    assert!(create(&bench, "c", "two").await);
    used(&[("a", 7), ("b", 5), ("c", 9)]).await;
    let both = [token("a", "one", Some(7)), token("c", "two", Some(9))];
    assert_eq!(all(&bench).await.1, both, "the use of an unknown token was recorded");
    let (made, _) = all(&bench).await;
    assert!(revoke(&bench, "c").await);
    assert!(revoke(&bench, "a").await);
    let changed = since(made).await.expect("another version");
    assert!(changed.version > made && changed.tokens.is_empty(), "{changed:?}");
    used(&[("a", 9)]).await; // this token was revoked
    assert!(create(&bench, "a", "new").await);
    let new = [token("a", "new", None)];
    assert_eq!(all(&bench).await.1, new, "the new token has the uses of the old one");
}

pub async fn a_revocation_is_seen_even_if_its_caller_has_gone(bench: Bench) {
    assert!(create(&bench, "a", "one").await);
    let (made, mut left) = all(&bench).await;
    while !left.is_empty() {
        let revoke = TokenChange::Revoke { name: "a".to_owned() };
        // Drops the call at once after its start, like the handler of a client that has
        // disconnected.
        drop(bench.store.change_token(revoke).now_or_never());
        left = all(&bench).await.1;
    }
    let changed = bench.store.tokens(Some(made)).await.expect("tokens").expect("another version");
    assert!(changed.version > made && changed.tokens.is_empty(), "{changed:?}");
}

pub async fn a_job_of_a_forbidden_topic_is_not_read(bench: Bench) {
    bench.put(job("a", "own.t")).await.expect("put");
    bench.put(job("b", "other")).await.expect("put");
    let read = async |name: &str, patterns: &[&str]| {
        let patterns = patterns.iter().map(|text| text.parse().expect("a pattern")).collect();
        let target = Target { id: id(name), topics: Topics::new(patterns) };
        let found = bench.store.get(bench.bucket(&target.id), target).await.expect("read");
        found.map(|job| job.topic.to_string())
    };
    assert_eq!(read("a", &["own.*"]).await.as_deref(), Some("own.t"));
    assert_eq!(read("b", &["x", "other"]).await.as_deref(), Some("other"));
    assert_eq!(read("b", &["own.*"]).await, None);
    assert_eq!(read("b", &[]).await, None);
    let held = bench.pop_one("other").await;
    assert_eq!(read("b", &["own.*"]).await, None, "held");
    assert_eq!(read("b", &["other"]).await.as_deref(), Some("other"));
    bench.bury(&held.id, Some(held.reservation)).await.expect("buried");
    assert_eq!(read("b", &["own.*"]).await, None, "dead");
}
