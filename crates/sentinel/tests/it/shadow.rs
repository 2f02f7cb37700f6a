//! Shadow in front of a node: it refuses nothing, and says what it would have refused.

use std::fs;
use std::time::Duration;

use rpc::BroadcastMethod;
use sentinel::config::PaceMode;
use serde_json::Value;
use testkit::Http;

use crate::support::{Node, Proxy, broadcast};

#[test]
fn nothing_is_refused_in_shadow_and_each_page_says_what_would_have_been() {
    const WRITES: u64 = 12;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.jsonl");
    let node = Node::start();
    let proxy = Proxy::with(&node.url(), |config| {
        config.limits.shadow = true;
        config.pace.mode = PaceMode::Fixed;
        // One write in 100 s, and one read at once.
        config.fair.max_req = "0.01/s".parse().unwrap();
        config.reads.rate_per_client = "0.01/s".parse().unwrap();
        config.fixed.read_burst = Duration::from_secs(100);
        config.log.access = Some(path.display().to_string());
    });
    let direct = Http::new(node.node.rpc_address(), Duration::from_secs(20));
    for number in 0..WRITES {
        let write = broadcast(
            number,
            BroadcastMethod::Sync,
            format!("shadow={number}").as_bytes(),
        );
        let answer = proxy.http().post("/", &write).unwrap();
        let answer: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(answer["result"]["code"], 0, "{answer}");
    }
    for target in ["/unsafe_flush_mempool", "/genesis", "/genesis"] {
        let (answer, own) = (
            proxy.http().get(target).unwrap(),
            direct.get(target).unwrap(),
        );
        assert_eq!(
            (answer.status, answer.text()),
            (own.status, own.text()),
            "{target}"
        );
    }
    let explained = proxy.admin().get("/explain?ip=127.0.0.1").unwrap();
    let explained: Value = serde_json::from_str(&explained.text()).unwrap();
    let would = &explained["would_refuse"];
    let count = |reason: &str| would[reason].as_u64().unwrap_or(0);
    // The first has its turn at once; the second may wait for the first's to be taken.
    let of_writes = count("queue_timeout") + count("queue_full");
    assert!((WRITES - 2..WRITES).contains(&of_writes), "{explained}");
    assert_eq!((count("method"), count("rate")), (1, 2), "{explained}");
    let metrics = proxy.admin().get("/metrics").unwrap().text();
    let line = "sentinel_would_reject_total{reason=\"method\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
    let refused =
        |line: &&str| line.starts_with("sentinel_rejected_total") && !line.ends_with(" 0");
    assert_eq!(metrics.lines().find(refused), None);
    proxy.stop();
    let text = fs::read_to_string(&path).unwrap();
    let ends_so =
        |outcome: &str| text.matches(&format!("\"outcome\":\"{outcome}\"")).count() as u64;
    assert_eq!(ends_so("would_reject"), of_writes + 3, "{text}");
    assert_eq!(ends_so("forwarded"), WRITES + 3, "{text}");
}
