use super::*;

#[test]
fn a_host_is_a_name_or_an_address() {
    for (text, reachable) in [
        ("127.0.0.1:9277", "127.0.0.1:9277"),
        ("0.0.0.0:1", "127.0.0.1:1"),
        ("[::]:1", "[::1]:1"),
        ("[::1]:65535", "[::1]:65535"),
        ("localhost:9277", "localhost:9277"),
        ("queue-1.example:80", "queue-1.example:80"),
        ("unix:/run/dq.sock", "unix:/run/dq.sock"),
        ("unix:dq.sock", "unix:dq.sock"),
    ] {
        let listen = Listen::try_from(text.to_owned()).expect(text);
        assert_eq!(
            (listen.to_string(), listen.for_local_clients().to_string()),
            (text.to_owned(), reachable.to_owned())
        );
    }
    for text in [
        "",
        "nonsense",
        "9277",
        ":9277",
        "::1:9277",
        "[::1]",
        "[x]:1",
        "a b:1",
        "a:65536",
        "a:-1",
        "http://a:1",
        "unix:",
    ] {
        let refused = Listen::try_from(text.to_owned()).expect_err(text);
        assert!(refused.contains("a host and a port"), "{refused}");
    }
}

#[test]
fn a_mode_is_octal() {
    for (text, bits) in [("0660", 0o660), ("0777", 0o777), ("0007", 7)] {
        let mode = SocketMode::try_from(text.to_owned()).expect(text);
        assert_eq!((mode.bits(), String::from(mode)), (bits, text.to_owned()));
    }
    for text in ["", "0", "660", "432", "0888", "0x1f", "00660", "rw-rw----"] {
        SocketMode::try_from(text.to_owned()).expect_err(text);
    }
}

#[test]
fn a_name_resolves_to_each_address_once() {
    let listen = Listen::try_from("localhost:9277".to_owned()).expect("a name");
    let addresses = listen.addresses().expect("every machine resolves localhost");
    assert!(addresses.iter().all(|address| address.ip().is_loopback()), "{addresses:?}");
    let mut once = addresses.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), addresses.len());
}
