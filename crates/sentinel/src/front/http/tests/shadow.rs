//! In shadow everything goes to the node as it came, and is judged.

use super::*;
use crate::front::websocket::tests::text;

fn would_reject(bench: &Bench, reason: &str) -> String {
    bench.metric(&format!(
        "sentinel_would_reject_total{{reason=\"{reason}\"}}"
    ))
}

#[tokio::test(start_paused = true)]
async fn writes_in_every_form_go_to_the_node_as_they_came_and_are_judged() {
    let bench = Bench::with(|config| config.limits.shadow = true);
    let mut client = bench.connect();
    let single = sync("1", "a=1");
    let batch = format!("[{},{}]", sync("2", "b=1"), call("3", "status"));
    for body in [&single, &batch] {
        client.post(body).await;
        assert_eq!(
            client.status().await,
            (200, format!(r#"{{"echo":{}}}"#, body.len()))
        );
    }
    client.get("/broadcast_tx_commit?tx=\"c=1\"").await;
    assert_eq!(client.status().await.0, 200);
    let state = bench.fake.state();
    assert_eq!(state.judged, ["a=1", "b=1", "c=1"]);
    assert_eq!(state.txs, [""; 0]);
    let bodies: Vec<&str> = state
        .forwarded
        .iter()
        .map(|(_, _, body)| body.as_str())
        .collect();
    assert_eq!(bodies, [&single, &batch, ""]);
    drop(state);
    assert_eq!(
        bench.metric(
            r#"sentinel_requests_total{transport="post",lane="write",method_class="broadcast_sync",outcome="forwarded"}"#
        ),
        "1"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_without_it_is_counted_and_served() {
    for shadow in [false, true] {
        let bench = Bench::with(|config| {
            config.limits.shadow = shadow;
            config.limits.batch = 1;
            config.trust.deny = vec!["192.0.2.7/32".parse().unwrap()];
        });
        bench.fake.state().refused = vec!["broadcast_tx_sync"];
        let batch = format!("[{0},{0}]", call("3", "status"));
        let mut served = Vec::new();
        // Of the client that may not come; of the method; of the batch; of a transaction that cannot be read.
        for (address, body, target) in [
            (7, call("1", "status"), "/"),
            (1, sync("1", "a=1"), "/"),
            (1, batch, "/"),
            (1, "x".to_owned(), "/broadcast_tx_async"),
        ] {
            let mut client = bench.connect_from([192, 0, 2, address]);
            client.post_to(target, "", &body).await;
            served.push(client.status().await.1.starts_with(r#"{"echo":"#));
        }
        assert_eq!(served, [shadow; 4]);
        let (counted, refused) = if shadow { ("1", "0") } else { ("0", "1") };
        for reason in ["denied", "method", "batch", "parse"] {
            assert_eq!(would_reject(&bench, reason), counted, "{reason}");
            let refused_here = format!("sentinel_rejected_total{{reason=\"{reason}\"}}");
            assert_eq!(bench.metric(&refused_here), refused, "{reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_of_a_websocket_is_relayed_and_judged() {
    let bench = Bench::with(|config| config.limits.shadow = true);
    // The lane would make it wait.
    bench.fake.state().room = Some(0);
    let mut client = bench.connect();
    client.send(HANDSHAKE).await;
    client.answer().await;
    let write = sync("5", "a=1");
    client.send(text(&write)).await;
    settle().await;
    let state = bench.fake.state();
    assert_eq!(
        (&state.relayed, &state.judged),
        (&vec![write], &vec!["a=1".to_owned()])
    );
    assert_eq!(state.txs, [""; 0]);
}
