//! The event stream.

use bigchain::json;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::client::{Events, bigchaindb, create, pair, post};

#[tokio::test(flavor = "multi_thread")]
async fn every_listener_hears_of_every_transaction_in_order() {
    let running = bigchaindb().await;
    let mut listeners = [Events::of(&running).await, Events::of(&running).await];
    let owner = pair(1);
    let mut wanted = Vec::new();
    for number in 0..5 {
        let transaction = create(&owner, number, 1);
        let (status, answer) = post(&running, "commit", transaction.text().as_bytes()).await;
        assert_eq!(status, 202);
        let text: serde_json::Value = serde_json::from_str(&transaction.text()).unwrap();
        assert_eq!(answer, text);
        wanted.push(transaction.id().to_string());
    }
    for listener in &mut listeners {
        let mut last_height = 0;
        for id in &wanted {
            let event = listener.next().await;
            assert_eq!(event["transaction_id"], **id);
            assert_eq!(event["asset_id"], **id);
            let height = event["height"].as_u64().unwrap();
            assert!(height > last_height);
            last_height = height;
        }
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_are_answered_and_other_paths_do_not_exist() {
    let running = bigchaindb().await;
    let address = running.node.events_address().unwrap();
    let url = format!("ws://{address}/api/v1/streams/valid_transactions");
    let (mut socket, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
    socket
        .send(Message::Ping("still here".into()))
        .await
        .unwrap();
    let answer = socket.next().await.unwrap().unwrap();
    assert_eq!(answer, Message::Pong("still here".into()));
    let elsewhere = format!("ws://{address}/api/v1/streams/valid");
    match tokio_tungstenite::connect_async(&elsewhere).await {
        Err(Error::Http(response)) => assert_eq!(response.status(), 404),
        other => panic!("{other:?}"),
    }
    running.stop().await;
}

/// A transaction is answered by `sync` after its check and by `async` at once, and both end up in
/// a block.
#[tokio::test(flavor = "multi_thread")]
async fn each_mode_ends_in_a_block() {
    let running = bigchaindb().await;
    let mut events = Events::of(&running).await;
    for (number, mode) in ["async", "sync", "commit", "Sync"].into_iter().enumerate() {
        let transaction = create(&pair(1), i64::try_from(number).unwrap(), 1);
        let text = transaction.text();
        let (status, answer) = post(&running, mode, text.as_bytes()).await;
        assert_eq!(status, 202, "{answer}");
        let body = json::parse(answer.to_string().as_bytes()).unwrap();
        assert_eq!(
            json::canonical(&body),
            json::canonical(&json::parse(text.as_bytes()).unwrap())
        );
        assert_eq!(
            events.next().await["transaction_id"],
            transaction.id().to_string()
        );
    }
    running.stop().await;
}
