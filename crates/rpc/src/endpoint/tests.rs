use super::*;

fn endpoint(text: &str) -> Endpoint {
    text.parse().unwrap()
}

#[test]
fn defaults_are_filled_in() {
    assert_eq!(endpoint("http://node").port(), 26657);
    assert_eq!(endpoint("https://node").port(), 443);
    assert_eq!(endpoint("ws://node").path(), "/websocket");
    assert_eq!(endpoint("http://node").path(), "/");
    assert_eq!(
        endpoint("wss://node").websocket_url(),
        "wss://node:443/websocket"
    );
    assert_eq!(endpoint("ws://node:1").http_url(), "http://node:1/");
    assert_eq!(
        endpoint("bitcoin-p2p://node").to_string(),
        "bitcoin-p2p://node:18444"
    );
}

#[test]
fn equal_after_normalisation() {
    assert_eq!(endpoint("http://Node:26657/"), endpoint("HTTP://node"));
    assert_eq!(endpoint("ws://node/websocket/"), endpoint("ws://node"));
    assert_ne!(endpoint("ws://node"), endpoint("http://node"));
    assert!(endpoint("ws://node").same_node(&endpoint("http://node/")));
    assert!(!endpoint("ws://node:1").same_node(&endpoint("http://node/")));
    assert_eq!(endpoint("http://[0:0::1]:5"), endpoint("http://[::1]:5"));
}

#[test]
fn transports_share_host_and_prefix() {
    let gateway = endpoint("https://gate.example/rpc");
    assert_eq!(gateway.http_url(), "https://gate.example:443/rpc/");
    assert_eq!(
        gateway.websocket_url(),
        "wss://gate.example:443/rpc/websocket"
    );
    let back = endpoint(&gateway.with_transport(Transport::Ws).to_string());
    assert_eq!(back.with_transport(Transport::Http), gateway);
    assert_eq!(endpoint("ws://node/socket").path(), "/socket");
}

#[test]
fn display_parses_back() {
    for text in [
        "http://node:1",
        "https://[::1]:2",
        "ws://a.b:3/websocket",
        "wss://x:4/y",
        "bitcoin-p2p://[::1]:5",
    ] {
        assert_eq!(endpoint(text).to_string(), text);
    }
}

#[test]
fn refusals_say_what_to_do() {
    let text = |input: &str| input.parse::<Endpoint>().unwrap_err().to_string();
    assert!(text("").contains("write for example http://127.0.0.1:26657"));
    assert!(text("127.0.0.1:26657").contains("write http://127.0.0.1:26657"));
    assert!(text("tcp://a:1").contains("use http, https, ws, wss or bitcoin-p2p"));
    assert!(text("http://").contains("it is empty"));
    assert!(text("http://a:0").contains("1 to 65535"));
    assert!(text("http://a:70000").contains("1 to 65535"));
    assert!(text("http://a:+1").contains("1 to 65535"));
    assert!(text("http://a:").contains("1 to 65535"));
    assert!(text("http://::1:5").contains("needs brackets"));
    assert!(text("http://[::1").contains("not closed"));
    assert!(text("http://a/?x=1").contains("a query"));
    assert!(text("http://me@a").contains("a user name"));
    assert!(text("bitcoin-p2p://me:it@a").contains("a user name"));
    assert!(text("bitcoin-p2p://a/x").contains("a path"));
    assert!(text("http://a b").contains("a space"));
    assert!(
        text("http://a,http://b").contains("may be part of a name")
            || text("http://a,http://b").contains("1 to 65535")
    );
}

#[test]
fn a_user_and_password_are_used_and_never_shown() {
    let with = endpoint("http://me:se:cr@t@node:1/x");
    assert_eq!(with.to_string(), "http://node:1/x/");
    assert!(!format!("{with:?}").contains("secr"));
    // RFC 7617: the user name has no colon, the password may have.
    let authorization = with.authorization().unwrap();
    assert_eq!(authorization, "Basic bWU6c2U6Y3JAdA==");
    assert_eq!(endpoint("http://node:1/x").authorization(), None);
    assert!("ws://me:secret@node".parse::<Endpoint>().is_err());
}

#[test]
fn addresses_resolve_without_a_resolver() {
    assert_eq!(
        endpoint("http://127.0.0.1:9").resolve().unwrap(),
        ["127.0.0.1:9".parse().unwrap()]
    );
}
