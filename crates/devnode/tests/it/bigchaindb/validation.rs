//! Serial and parallel validation over the API.

use devnode::Validation;

use super::client::{Events, config, create, pair, post};
use crate::support::start;

/// Many clients at once, good and bad ones mixed: each gets its own verdict, however the checks are
/// divided and batched.
#[tokio::test(flavor = "multi_thread")]
async fn everyone_gets_the_verdict_on_their_own_transaction() {
    for validation in [Validation::Serial, Validation::Parallel] {
        let running = start(config(validation)).await;
        let mut events = Events::of(&running).await;
        let owner = pair(1);
        let posts = (0..40).map(|number| {
            let good = create(&owner, number, 1).text();
            let bad = good.replace("\"amount\": \"1\"", "\"amount\": \"2\"");
            let forged = create(&pair(2), number, 1).text();
            let forged = forged.replace(&pair(2).public().to_string(), &owner.public().to_string());
            let running = &running;
            async move {
                let (text, wanted) = match number % 4 {
                    0 => (bad, 400),
                    1 => (forged, 400),
                    _ => (good, 202),
                };
                let (status, answer) = post(running, "sync", text.as_bytes()).await;
                assert_eq!(status, wanted, "{validation:?} {number}: {answer}");
            }
        });
        futures_util::future::join_all(posts).await;
        for _ in 0..20 {
            events.next().await;
        }
        assert_eq!(running.node.snapshot().refused, 20);
        running.stop().await;
    }
}
