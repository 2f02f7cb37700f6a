//! What settings mean together, and where they conflict.

use super::*;

#[test]
fn breaks_come_by_what_is_set() {
    let breaks = |keys: &str| {
        let text = format!("[pause]\n{keys}\n");
        file(&text).unwrap().config.breaks()
    };
    assert_eq!(breaks(""), PauseSettings::default());
    let interval = breaks("interval = \"100s\"").interval;
    assert_eq!(interval, Some(Duration::from_secs(100)));
    for (text, least) in [
        ("off", MinTxRate::Off),
        ("500", MinTxRate::Rate(rate(500))),
        ("60%", MinTxRate::Percent(60)),
        ("learn", MinTxRate::Percent(55)),
    ] {
        let set = breaks(&format!("min_tx_rate = \"{text}\""));
        let expected = PauseSettings {
            min_tx_rate: least,
            ..PauseSettings::default()
        };
        assert_eq!(set, expected);
    }
}

#[test]
fn conflicts_say_what_where_and_what_to_do() {
    assert_eq!(
        problem("[limits]\nbody_bytes = \"128KiB\"\n[buffer]\nbytes = \"64KiB\"\n"),
        "limits.body_bytes = 128KiB (sentinel.toml:2) is above buffer.bytes = 64KiB (sentinel.toml:4); \
         lower limits.body_bytes or raise buffer.bytes"
    );
    for (text, phrase) in [
        (
            "[fair]\nmax_req = 0",
            "fair.max_req: 0/s would let nothing through",
        ),
        ("[fair]\nqueue_per_client = 0", "use 1 to 1048576"),
        ("[fair]\nweights = { \"::1\" = 0 }", "a weight is 1 to 1000"),
        (
            "[fair]\nweights = { \"::1\" = 1, \"::1/128\" = 2 }",
            "::1 is given twice",
        ),
        ("[upstream]\nurls = []", "name at least one node"),
        (
            "[upstream]\nurls = [\"http://127.0.0.1:1\", \"ws://127.0.0.1:1/websocket\"]",
            "is named twice",
        ),
        (
            "[upstream]\nurls = [\"http://localhost:26680\"]",
            "is this proxy itself",
        ),
        (
            "[admin]\naddr = \"127.0.0.1:26680\"",
            "clashes with listen.addr = 127.0.0.1:26680 (default)",
        ),
        (
            "[listen]\naddr = \"0.0.0.0:26681\"",
            "or admin.addr = \"off\"",
        ),
        (
            "[grpc]\nlisten = \"127.0.0.1:26681\"",
            "clashes with admin.addr = 127.0.0.1:26681 (default)",
        ),
        (
            "[grpc]\nlisten = \"127.0.0.1:9\"\n[rest]\nlisten = \"0.0.0.0:9\"",
            "or rest.listen = \"off\"",
        ),
        ("[trust]\nipv6_prefix = 129", "use 0 to 128"),
        ("[trust]\nallow = [\"10.0.0.1/8\"]", "10.0.0.0/8"),
        (
            "[trust]\nallow = [\"::1\"]\ndeny = [\"::1\"]",
            "keep one of the two",
        ),
        (
            "[reads]\nrefuse_methods = [\"un*safe\"]",
            "a * may stand at the end only",
        ),
        (
            "[limits]\nbody_bytes = \"2MiB\"\n[buffer]\nbytes = \"1MiB\"",
            "raise buffer.bytes",
        ),
        (
            "[pause]\ninterval = \"0s\"",
            "pause.interval: 0s is out of range",
        ),
        ("[pause]\ninterval = \"25h\"", "use at most"),
        (
            "[upstream]\ntimeout = \"0s\"",
            "upstream.timeout: 0s is out of range",
        ),
        (
            "[pause]\nmax_pause = \"60s\"",
            "unknown key pause.max_pause; [pause] has interval",
        ),
        (
            "[limits]\nconnections = 5",
            "limits.connections is no longer a key; there is one connection for each 12 KiB of buffer.bytes",
        ),
        (
            "[limits]\nconnections_per_client = 5",
            "a client may have as many as are free besides",
        ),
        (
            "[listen]\nproxy_protocol = [\"::1\"]",
            "write trust.proxies = [\"NETWORK proxy-protocol\"]",
        ),
        (
            "[trust]\nproxies = [\"10.0.0.7 proxy\"]",
            "or a network such as 192.0.2.0/24",
        ),
        (
            "[pause]\nmin_tx_rate = 3000",
            "lower pause.min_tx_rate or raise fair.max_req",
        ),
        ("[listen]\nthreads = 0", "use 1 to 64"),
        ("[listen]\nthreads = 65", "use 1 to 64, or auto"),
    ] {
        let told = problem(text);
        assert!(told.contains(phrase), "{text}\n→ {told}");
    }
}

#[test]
fn what_is_probably_not_meant_is_noticed() {
    let noticed = |text: &str| file(text).unwrap().notices.join("\n");
    assert!(noticed("[admin]\naddr = \"0.0.0.0:9\"").contains("no authentication"));
    for way in ["", " proxy-protocol"] {
        let all = format!("[trust]\nproxies = [\"0.0.0.0/0{way}\"]");
        assert!(noticed(&all).contains("choose its own address"));
    }
    assert!(noticed("[pause]\ninterval = \"100s\"\nfor = \"40s\"").contains("errors in a break"));
    let unused = Layers {
        flags: vec![flag("pause-action", "pause.action", "reconnect")],
        ..Layers::NONE
    };
    assert!(unused.load().unwrap().notices[0].contains("--pause-interval"));
}
