//! What settings mean together, and where they conflict.

use super::*;

fn mode(file: &'static str, flags: Vec<FlagValue>) -> PauseMode {
    let layers = Layers {
        file,
        flags,
        ..Layers::NONE
    };
    layers.load().unwrap().config.pause.mode
}

#[test]
fn a_trigger_alone_means_its_mode() {
    let interval = || flag("pause-interval", "pause.interval", "100s");
    let floor = || flag("min-tx-rate", "pause.min_tx_rate", "500");
    assert_eq!(mode("", vec![]), PauseMode::Off);
    assert_eq!(mode("", vec![interval()]), PauseMode::Interval);
    assert_eq!(mode("", vec![floor()]), PauseMode::Threshold);
    assert_eq!(mode("", vec![interval(), floor()]), PauseMode::Both);
    assert_eq!(
        mode("[pause]\nmin_fraction = 0.5\n", vec![]),
        PauseMode::Threshold
    );
    assert_eq!(
        mode("[pause]\nmin_fraction = 0.5\n", vec![interval()]),
        PauseMode::Both
    );
}

#[test]
fn a_mode_stands_in_its_own_layer_and_is_added_to_from_above() {
    let interval = || flag("pause-interval", "pause.interval", "100s");
    let off = || flag("pause-mode", "pause.mode", "off");
    assert_eq!(mode("", vec![interval(), off()]), PauseMode::Off);
    assert_eq!(
        mode("[pause]\nmode = \"off\"\ninterval = \"5s\"\n", vec![]),
        PauseMode::Off
    );
    assert_eq!(
        mode("[pause]\nmode = \"off\"\n", vec![interval()]),
        PauseMode::Interval
    );
    assert_eq!(
        mode("[pause]\nmode = \"threshold\"\n", vec![interval()]),
        PauseMode::Both
    );
    assert_eq!(
        mode("[pause]\ninterval = \"5s\"\n", vec![off()]),
        PauseMode::Off
    );
    let resolved = file("[pause]\ninterval = \"100s\"\n").unwrap();
    assert_eq!(
        resolved.origin("pause.mode").unwrap().to_string(),
        "follows pause.interval"
    );
}

#[test]
fn defaults_give_way_to_what_was_set() {
    let low = file("[fair]\nmax_req = 10\n").unwrap();
    assert_eq!(low.config.pace.min_req, rate(10));
    assert_eq!(
        low.origin("pace.min_req").unwrap().to_string(),
        "follows fair.max_req"
    );
    let few = file("[limits]\nconnections = 5\n[reads]\nconcurrency = 3\n").unwrap();
    assert_eq!(few.config.limits.connections_per_client, 5);
    assert_eq!(few.config.reads.concurrency_per_client, 3);
    let lively = file("[ws]\nread_timeout = \"10s\"\n").unwrap();
    assert_eq!(lively.config.ws.ping_interval, Duration::from_secs(9));
    let calm = file("[ws]\nping_interval = \"45s\"\n").unwrap();
    assert_eq!(calm.config.ws.read_timeout, Duration::from_secs(50));
    let small = file("[buffer]\nbytes = \"128KiB\"\n").unwrap();
    assert_eq!(small.config.limits.body_bytes, 128 << 10);
}

#[test]
fn conflicts_say_what_where_and_what_to_do() {
    assert_eq!(
        problem("[fair]\nmax_req = 10\n[pace]\nmin_req = 50\n"),
        "pace.min_req = 50/s (sentinel.toml:4) is above fair.max_req = 10/s (sentinel.toml:2); \
         lower pace.min_req or raise fair.max_req"
    );
    for (text, phrase) in [
        (
            "[pace]\nburst = \"50ms\"",
            "50ms is out of range; use 1ms to 20ms",
        ),
        ("[pace]\nburst = \"0s\"", "pace.burst: 0s is out of range"),
        (
            "[pace]\ninflight = 5\ninflight_per_connection = 6",
            "raise pace.inflight",
        ),
        (
            "[fair]\nmax_req = 0",
            "fair.max_req: 0/s would let nothing through",
        ),
        ("[fair]\nqueue_per_client = 0", "use 1 to 1048576"),
        (
            "[fair]\nweights = { \"::1\" = 0 }",
            "::1 has weight 0; use 1 to 1000",
        ),
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
        ("[trust]\nipv6_prefix = 129", "0 to 128 bits"),
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
            "[limits]\nheader_bytes = 100",
            "100 is out of range; use 1KiB to 1MiB",
        ),
        (
            "[limits]\nbody_bytes = \"2MiB\"\n[buffer]\nbytes = \"1MiB\"",
            "raise buffer.bytes",
        ),
        (
            "[limits]\nidle_timeout = \"0s\"",
            "limits.idle_timeout: 0s is out of range",
        ),
        (
            "[pause]\nmax_pause = \"60s\"",
            "unknown key pause.max_pause; new connections",
        ),
        (
            "[pause]\nmin_tx_rate = 3000",
            "lower pause.min_tx_rate or raise fair.max_req",
        ),
        ("[pause]\njitter = 0.9", "remove it"),
        ("[pause]\nmin_fraction = 0.9", "use 0.05 to 0.85"),
        (
            "[ws]\nping_interval = \"30s\"\nread_timeout = \"20s\"",
            "raise ws.read_timeout",
        ),
        ("[listen]\nthreads = 0", "use 1 to 64"),
    ] {
        let told = problem(text);
        assert!(told.contains(phrase), "{text}\n→ {told}");
    }
}

#[test]
fn what_is_probably_not_meant_is_noticed() {
    let noticed = |text: &str| file(text).unwrap().notices.join("\n");
    assert!(noticed("[admin]\naddr = \"0.0.0.0:9\"").contains("no authentication"));
    assert!(noticed("[trust]\nproxies = [\"0.0.0.0/0\"]").contains("choose its own address"));
    assert!(noticed("[pace]\nmode = \"off\"\nmin_req = 5").contains("no effect"));
    assert!(noticed("[pause]\ninterval = \"100s\"\nfor = \"40s\"").contains("errors in a break"));
    let unused = Layers {
        flags: vec![flag("pause-action", "pause.action", "reconnect")],
        ..Layers::NONE
    };
    assert!(unused.load().unwrap().notices[0].contains("--pause-interval"));
}
