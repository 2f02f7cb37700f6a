//! The file of keys, and which clients they belong to.

use super::*;

fn hex(secret: &str) -> String {
    wire::encoding::hex_text(&Sha256::digest(secret))
}

fn read(text: &str) -> Result<KnownKeys, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.toml");
    std::fs::write(&file, text).unwrap();
    KnownKeys::load(file.to_str()).map_err(|error| error.to_string())
}

fn two() -> KnownKeys {
    let (first, second) = (hex("first"), hex("second").to_lowercase());
    read(&format!(
        "query = \"key\"\n[[keys]]\nname = \"a\"\nsecret_sha256 = \"{first}\"\nweight = 3\nmethods = [\"broadcast_*\", \"status\"]\n\
         [[keys]]\nname = \"b\"\ncertificate_sha256 = \"{second}\"\nreads_per_second = 7\n"
    ))
    .unwrap()
}

#[test]
fn identity_36_a_secret_is_one_client_wherever_it_comes_from() {
    let known = two();
    let client = |header: Option<&str>, target: &str| {
        known.client(header.map(str::as_bytes), target.as_bytes())
    };
    let first = client(Some("first"), "/").unwrap().unwrap();
    assert_eq!(client(None, "/status?x=1&key=first"), Ok(Some(first)));
    // The header counts.
    assert_eq!(client(Some("first"), "/?key=other"), Ok(Some(first)));
    assert_eq!(client(None, "/status?x=key"), Ok(None));
    assert_eq!(client(None, "/status"), Ok(None));
    for (header, target) in [
        (Some("First"), "/"),
        (Some(""), "/"),
        (Some("first "), "/"),
        // What is known of a certificate is no secret.
        (Some("second"), "/"),
        (Some(&*hex("first")), "/"),
        (None, "/?key="),
    ] {
        assert!(client(header, target).is_err(), "{header:?} {target}");
    }
    let second = known.of_certificate(b"second").unwrap();
    assert_eq!(known.of_certificate(b"first"), None);
    assert_ne!(first, second);
    // Each has what a site has, and no host is one of them.
    assert_eq!(first.tiers().count(), 1);
    assert!(
        [first, second]
            .iter()
            .all(|client| is_reserved(client.network().address()))
    );
    assert!(!is_reserved([192, 0, 2, 1].into()) && !is_reserved("2001:db8::1".parse().unwrap()));
}

#[test]
fn identity_36_what_a_key_may_do() {
    let known = two();
    let first = known.client(Some(b"first"), b"").unwrap().unwrap();
    let second = known.of_certificate(b"second").unwrap();
    let may = |client, method| known.check_method(client, method).is_ok();
    assert!(may(first, "broadcast_tx_sync") && may(first, "status"));
    assert!(!may(first, "block") && !may(first, "status2") && !may(first, ""));
    assert!(may(second, "block"));
    let network = KeyScheme::default().key([192, 0, 2, 1].into());
    assert!(may(network, "block"));
    let weights: HashMap<_, _> = known.weights().collect();
    assert_eq!(weights[&first.network()], Weight::new(3).unwrap());
    assert_eq!(weights[&second.network()], Weight::ONE);
    let rates: Vec<_> = known.read_rates().collect();
    assert_eq!(rates, [(second, Rate::per_second(7).unwrap())]);
}

#[test]
fn identity_36_the_node_sees_no_secret() {
    let known = two();
    for (target, left) in [
        ("/status?key=x", Some("/status")),
        ("/tx?hash=0x1&key=x", Some("/tx?hash=0x1")),
        ("/tx?key=x&hash=0x1&key=y", Some("/tx?hash=0x1")),
        ("/tx?keys=x&a=key", None),
        ("/key=x", None),
    ] {
        let without = known.without_secret(target.as_bytes());
        assert_eq!(without.as_deref(), left.map(str::as_bytes), "{target}");
    }
    assert_eq!(KnownKeys::default().without_secret(b"/status?key=x"), None);
}

#[test]
fn identity_36_a_wrong_file_is_refused_with_the_keys_name() {
    let hash = hex("x");
    let key = |rest: &str| format!("[[keys]]\nname = \"a\"\n{rest}\n");
    let good = format!("secret_sha256 = \"{hash}\"");
    for (text, reason) in [
        (key(""), "give secret_sha256 or certificate_sha256"),
        (
            key(&format!("{good}\ncertificate_sha256 = \"{hash}\"")),
            "give secret",
        ),
        (key("secret_sha256 = \"secret\""), "64 hexadecimal digits"),
        (key(&format!("{good}\nweight = 0")), "\"a\""),
        (
            key(&format!("{good}\nreads_per_second = 0")),
            "nothing through",
        ),
        (key(&format!("{good}\nlimit = 1")), "unknown field `limit`"),
        (key(&good) + &key(&good), "another key has this hash"),
        ("keys = 1".to_owned(), "expected a sequence"),
        ("[[keys]]\nsecret_sha256 = 1".to_owned(), "line 2"),
    ] {
        let error = read(&text).unwrap_err();
        assert!(
            error.contains("keys.toml") && error.contains(reason),
            "{text}: {error}"
        );
    }
    let many: String = (0..=MOST_KEYS)
        .map(|number| key(&format!("secret_sha256 = \"{}\"", hex(&number.to_string()))))
        .collect();
    assert!(read(&many).unwrap_err().contains("more than 1000 keys"));
    assert!(read("").unwrap().is_empty());
}
