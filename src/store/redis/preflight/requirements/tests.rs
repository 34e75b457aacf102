use super::*;

const FIT: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n\
                   loading:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n";

#[test]
fn a_fit_redis_has_no_findings() {
    assert_eq!(judge(FIT, Expected::Standalone), Findings::default());
    let node = FIT.replace("standalone", "cluster");
    assert_eq!(judge(&node, Expected::ClusterNode), Findings::default());
    for name in ["server_mode", "redict_mode"] {
        let fork = node.replace("redis_mode", name);
        assert_eq!(judge(&fork, Expected::ClusterNode), Findings::default());
        assert_eq!(judge(&fork, Expected::Standalone).unfit.len(), 1);
    }
}

#[test]
fn garnet_is_refused_whatever_version_of_redis_it_claims_to_be() {
    let garnet = FIT.replace("redis_version", "garnet_version:1.0.84\r\nredis_version");
    let Findings { unfit, risks } = judge(&garnet, Expected::Standalone);
    assert!(unfit.len() == 1 && unfit[0].contains("use Redis or Valkey"), "{unfit:?}");
    assert_eq!(risks, Vec::<String>::new());
}

#[test]
fn a_standalone_server_is_not_a_cluster() {
    let Findings { unfit, .. } = judge(FIT, Expected::ClusterNode);
    assert!(unfit[0].contains("redis://"), "{unfit:?}");
}

#[test]
fn buffers_that_do_not_count_leave_memory_free() {
    let info = "used_memory:100\r\nmaxmemory:90\r\nmem_not_counted_for_evict:10\r\n";
    assert!(is_full(info));
    assert!(!is_full(&info.replace("maxmemory:90", "maxmemory:91")));
    assert!(!is_full(&info.replace("maxmemory:90", "maxmemory:0")), "without a limit");
}

#[test]
fn only_a_replica_that_follows_counts() {
    let info = "role:master\r\nconnected_slaves:1\r\nslave0:ip=::1,port=1,state=online\r\n";
    assert!(has_replica(info));
    assert!(!has_replica(&info.replace("online", "wait_bgsave")));
    assert!(!has_replica("role:master\r\nconnected_slaves:0\r\nslave_repl_offset:1\r\n"));
}

#[test]
fn each_shortcoming_is_found_and_says_what_to_do() {
    let cases = [
        ("7.0.15", "6.2.7", "use 7.0 or newer"),
        ("7.0.15", "", "use 7.0 or newer"),
        ("role:master", "role:slave", "address of the master"),
        ("loading:0", "loading:1", "try again"),
        ("standalone", "cluster", "standalone server"),
        ("noeviction", "allkeys-lru", "set it to noeviction"),
        ("aof_enabled:1", "aof_enabled:0", "set appendonly to yes"),
    ];
    for (good, bad, advice) in cases {
        let Findings { unfit, risks } = judge(&FIT.replace(good, bad), Expected::Standalone);
        let all: Vec<String> = unfit.into_iter().chain(risks).collect();
        assert_eq!(all.len(), 1, "{bad}: {all:?}");
        assert!(all[0].contains(advice), "{all:?}");
    }
}
