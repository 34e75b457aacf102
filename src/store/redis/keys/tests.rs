use super::*;

fn buckets(count: u16) -> Buckets {
    count.try_into().expect("a number of buckets")
}

#[test]
fn slots_are_those_of_the_cluster_specification() {
    assert_eq!(slot("{123456789}"), 0x31C3);
    assert_eq!(slot("{user1000}"), 3443);
    assert_eq!(slot("{user1000}:a"), 3443);
    assert_eq!(slot("user1000"), 3443);
    assert_eq!(slot(&reservations("dq")), slot(&layout("dq")));
}

#[test]
fn keys_never_change_because_stored_jobs_are_found_by_them() {
    let keys = Keys::all("dq", buckets(16), 3);
    assert_eq!(keys[0].pool, PINNED[0]);
    assert_eq!(keys[15].bucket, PINNED[1]);
    assert_eq!(keys[0].ends, "{dq:0fb}:ends");
    let topic = "orders".parse().expect("a topic");
    assert_eq!(keys[3].topic(State::Ready, &topic), PINNED[2]);
    assert_eq!(keys[0].hints, "{dq:0fb}:hints-5:3");
    assert_eq!(layout("dq"), "dq:layout");
    assert_eq!(servers("dq"), "{dq:topics}:servers");
    assert!(is_incarnation("dq", &keys[0].incarnation) && !is_incarnation("dq", &keys[0].pool));
    assert!(!is_incarnation("dq", "{dq:1:0fb}:incarnation"), "a key of the prefix dq:1");
}

#[test]
fn the_slot_of_every_key_without_a_bucket_is_listed() {
    let listed: Vec<u16> = outside_buckets("dq").map(|key| slot(&key)).collect();
    for key in [layout, accepted, version, changes, servers, confirm_topics, tokens, confirm_tokens]
    {
        assert!(listed.contains(&slot(&key("dq"))), "{}", key("dq"));
    }
    for kind in SettingKind::ALL {
        assert_eq!(slot(&setting("dq", kind)), slot(&version("dq")), "one script uses both keys");
    }
    assert_eq!(setting("dq", SettingKind::Pause), "{dq:topics}:paused");
    assert_eq!(tokens("dq"), "{dq:tokens}:all");
    assert_eq!(slot(&accepted("dq")), slot(&layout("dq")), "one script uses both keys");
}

const PINNED: [&str; 3] = ["{dq:0fb}:pool", "{dq:15c}:bucket", "{dq:3da}:ready:orders"];

#[test]
fn the_buckets_divide_the_slots_evenly_and_in_order() {
    for count in [1, 2, 3, 16, 64, 100, 1024] {
        let all = buckets(count);
        for bucket in all.all() {
            let slot = u32::from(slot(&tag("some-prefix", bucket, all)));
            let part = slot * u32::from(count) / SLOTS;
            assert_eq!(part as usize, bucket.index(), "of {count}");
        }
    }
}
