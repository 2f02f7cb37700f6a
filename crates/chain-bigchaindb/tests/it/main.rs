//! BigchainDB's API and events, from servers that the test scripts.

// Helpers outside of test functions fail a test by panicking as well.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "fixture")]
mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use chain_bigchaindb::{
    BigchaindbClient, EventSource, bigchaindb_transactions_path, follow_bigchaindb,
};
use pacing::Nanos;
use rpc::{
    BlockAnswer, BlockSource, BroadcastMethod, ClientError, ClientOptions, Endpoint, FollowError,
    FollowEvent, FollowOptions, Height, Question, SourceEvent,
};
use testkit::ScriptedServer;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A server whose blocks hold these transactions, by their numbers; `about` is its root.
fn api(blocks: &'static [(u64, &'static [u8])], newest: Arc<AtomicU64>) -> ScriptedServer {
    ScriptedServer::start(move |connection| {
        while let Some(request) = connection.read_request() {
            let head = &request.head;
            let path = head.split(' ').nth(1).unwrap_or_default();
            let height = path.strip_prefix("/api/v1/blocks/");
            let Some(height) = height.and_then(|height| height.parse::<u64>().ok()) else {
                connection.send(testkit::http_answer(200, ABOUT));
                continue;
            };
            if height == 0 || height > newest.load(Ordering::Relaxed) {
                let missing = r#"{"message": "Not found", "status": 404}"#;
                connection.send(testkit::http_answer(404, missing));
                continue;
            }
            let found = blocks.iter().find(|(at, _)| *at == height);
            let transactions: Vec<String> = found
                .map_or(&[][..], |(_, ids)| ids)
                .iter()
                .map(|id| format!(r#"{{"asset": {{"data": null}}, "id": "{}"}}"#, hex(*id)))
                .collect();
            let body = format!(
                r#"{{"height": {height}, "transactions": [{}]}}"#,
                transactions.join(", ")
            );
            connection.send(testkit::http_answer(200, &body));
        }
    })
}

fn hex(id: u8) -> String {
    format!("{id:02x}").repeat(32)
}

fn event(height: u64, id: u8) -> String {
    let id = hex(id);
    format!(r#"{{"height": {height}, "asset_id": "{id}", "transaction_id": "{id}"}}"#)
}

/// A server of events, by height and id: each stream breaks after its events but the last one, which stays
/// silent.
fn streams(streams: &'static [&'static [(u64, u8)]]) -> ScriptedServer {
    ScriptedServer::start(move |connection| {
        let number = connection.number();
        let Some(stream) = streams.get(number).or(streams.last()) else {
            return;
        };
        if !connection.accept_websocket() {
            return;
        }
        for (height, id) in *stream {
            connection.send_text(event(*height, *id));
        }
        if number + 1 < streams.len() {
            connection.close();
        } else {
            connection.freeze();
        }
    })
}

/// Collects blocks from a height on until `count` are there and the stream broke so often, or what ended it.
async fn blocks(
    api: &ScriptedServer,
    events: &ScriptedServer,
    from: u64,
    count: usize,
    breaks: usize,
) -> (Vec<(u64, Vec<u8>)>, Vec<FollowEvent>) {
    let options = FollowOptions {
        from: Height::At(from),
        quiet_interval: Duration::from_millis(50),
        ..FollowOptions::default()
    };
    let clock = Arc::new(AtomicU64::new(1));
    let ticking = move || Nanos::new(clock.fetch_add(1, Ordering::Relaxed));
    let shutdown = CancellationToken::new();
    let (api, events): (Endpoint, Endpoint) = (
        api.http_url().parse().unwrap(),
        events.ws_url().parse().unwrap(),
    );
    let (mut follower, worker) =
        follow_bigchaindb(&api, &events, options, ticking, shutdown.clone()).unwrap();
    let worker = tokio::spawn(worker.run());
    let (mut found, mut others, mut watermark) = (Vec::new(), Vec::new(), Nanos::ZERO);
    let is_break = |event: &&FollowEvent| matches!(event, FollowEvent::Disconnected { .. });
    while found.len() < count || others.iter().filter(is_break).count() < breaks {
        match timeout(LIMIT, follower.next())
            .await
            .expect("an event in time")
        {
            Some(FollowEvent::Block(block)) => {
                assert!(block.observed >= watermark, "a watermark was broken");
                let ids = block.hashes.iter().map(|hash| hash[0]).collect();
                found.push((block.height, ids));
            }
            Some(FollowEvent::Watermark(at)) => watermark = at,
            Some(other) => others.push(other),
            None => break,
        }
    }
    shutdown.cancel();
    worker.await.unwrap();
    (found, others)
}

#[tokio::test]
async fn lost_events_are_found_again_through_blocks() {
    let newest = Arc::new(AtomicU64::new(8));
    let api = api(
        &[(5, &[1, 2]), (6, &[3]), (7, &[]), (8, &[4, 5])],
        newest.clone(),
    );
    // The stream breaks in the middle of block 5; the rest of it and block 6 go untold.
    let events = streams(&[&[(5, 1)], &[(8, 4), (8, 5)]]);
    // A slow machine looks blocks up before it sees the stream break.
    let (found, _) = blocks(&api, &events, 5, 4, 1).await;
    let wanted: [(u64, Vec<u8>); 4] = [(5, vec![1, 2]), (6, vec![3]), (7, vec![]), (8, vec![4, 5])];
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn a_block_is_whole_when_the_next_one_is_told_of_and_a_quiet_one_is_looked_up() {
    let api = api(&[(2, &[1, 2]), (4, &[3, 9])], Arc::new(AtomicU64::new(4)));
    // The last event of block 4 never comes, on a stream that does not break.
    let events = streams(&[&[(2, 1), (2, 2), (4, 3)]]);
    let (found, _) = blocks(&api, &events, 2, 3, 0).await;
    let wanted: [(u64, Vec<u8>); 3] = [(2, vec![1, 2]), (3, vec![]), (4, vec![3, 9])];
    assert_eq!(found, wanted);
}

/// A server whose newest block is 1, until all its workers are taken: then it accepts queries and answers none.
fn starving_api(starved: Arc<AtomicBool>) -> ScriptedServer {
    ScriptedServer::start(move |connection| {
        while let Some(request) = connection.read_request() {
            if starved.load(Ordering::Relaxed) {
                return connection.freeze();
            }
            let (status, body) = if request.head.contains("/blocks/1 ") {
                (200, r#"{"height": 1, "transactions": []}"#)
            } else {
                (404, "{}")
            };
            connection.send(testkit::http_answer(status, body));
        }
    })
}

#[tokio::test]
async fn a_query_that_is_not_answered_holds_no_commit_back_whose_event_has_come() {
    let starved = Arc::new(AtomicBool::new(false));
    let api = starving_api(starved.clone());
    let events = streams(&[&[(2, 1)]]);
    let options = FollowOptions {
        quiet_interval: Duration::from_millis(50),
        ..FollowOptions::default()
    };
    let (api, events) = (api.http_url(), events.ws_url());
    let (api, events) = (api.parse().unwrap(), events.parse().unwrap());
    let mut source = EventSource::new(&api, &events, &options).unwrap();
    let told = async {
        while !matches!(source.next().await, SourceEvent::Height(2)) {}
        source.ask(Question::Status(Nanos::ZERO));
        let status = source.next().await;
        starved.store(true, Ordering::Relaxed);
        source.ask(Question::Block(2));
        // Whether the status is asked for again or not.
        source.ask(Question::Status(Nanos::ZERO));
        (status, source.next().await)
    };
    let (status, block) = timeout(LIMIT, told).await.expect("events in time");
    assert!(
        matches!(status, SourceEvent::Status(Ok(status)) if status.latest == 1),
        "the newest block is 1"
    );
    let SourceEvent::Block(BlockAnswer::Found(block)) = block else {
        panic!("{block:?}");
    };
    assert_eq!(
        (block.content.height, block.content.hashes),
        (2, vec![[1; 32]])
    );
}

#[tokio::test]
async fn commits_are_stamped_while_the_blocks_before_them_are_looked_up() {
    let newest = Arc::new(AtomicU64::new(6));
    let api = api(&[(5, &[1, 2]), (6, &[3])], newest);
    // After the break blocks 7 and 9 are told of at once, before 5 and 6 can have been looked up.
    let events = streams(&[&[(5, 1)], &[(7, 4), (9, 5)]]);
    let (found, _) = blocks(&api, &events, 5, 4, 0).await;
    let wanted: [(u64, Vec<u8>); 4] = [(5, vec![1, 2]), (6, vec![3]), (7, vec![4]), (8, vec![])];
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn a_server_with_a_shorter_chain_is_another_one() {
    let api = api(&[], Arc::new(AtomicU64::new(2)));
    let events = streams(&[&[(9, 1)]]);
    let (_, others) = blocks(&api, &events, 1, 10, 0).await;
    assert!(matches!(
        others.last(),
        Some(FollowEvent::Failed(FollowError::WentBack {
            known: 9,
            latest: 2
        }))
    ));
}

#[tokio::test]
async fn the_api_says_who_it_is_and_where_its_events_are() {
    let api = api(&[], Arc::new(AtomicU64::new(13)));
    let endpoint: Endpoint = api.http_url().parse().unwrap();
    let client = BigchaindbClient::new(&endpoint, &ClientOptions::default()).unwrap();
    let about = client.about().await.unwrap();
    assert_eq!(about.version, "2.2.2");
    let events = about.events_of(&endpoint).unwrap();
    assert_eq!(
        events.to_string(),
        "ws://127.0.0.1:19985/api/v1/streams/valid_transactions"
    );
    assert_eq!(client.newest_height(0).await.unwrap(), 13);
    assert_eq!(client.block(14).await.unwrap(), None);
    assert_eq!(client.block(13).await.unwrap(), Some(Vec::new()));
    assert_eq!(
        bigchaindb_transactions_path(BroadcastMethod::Commit),
        "/api/v1/transactions?mode=commit"
    );
}

#[tokio::test]
async fn whoever_is_no_bigchaindb_is_told_so() {
    let other =
        ScriptedServer::start(
            |connection| {
                while connection.answer_request(200, "<html>welcome</html>") {}
            },
        );
    let endpoint: Endpoint = other.http_url().parse().unwrap();
    let client = BigchaindbClient::new(&endpoint, &ClientOptions::default()).unwrap();
    let error = client.about().await.unwrap_err();
    assert!(matches!(error, ClientError::NotBigchaindb { .. }));
    assert!(error.to_string().contains("9984"), "{error}");
}

const ABOUT: &str = r#"{"api": {"v1": {"streams": "ws://localhost:19985/api/v1/streams/valid_transactions"}}, "software": "BigchainDB", "version": "2.2.2"}"#;
const LIMIT: Duration = Duration::from_secs(30);
