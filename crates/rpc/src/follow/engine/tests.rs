use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tokio::time::timeout_at;

use super::*;

/// A node that the test writes.
#[derive(Default)]
struct Node {
    status: ChainStatus,
    /// Neither the status nor blocks are answered.
    is_silent: bool,
    /// The block that is not given.
    withheld: Option<u64>,
    /// What tells its blocks from those of another chain of the same name.
    salt: u8,
    holds_since: Option<Nanos>,
    asked: Vec<u64>,
}

struct Scripted {
    node: Arc<Mutex<Node>>,
    said: mpsc::UnboundedReceiver<SourceEvent>,
    answers: VecDeque<SourceEvent>,
}

impl Node {
    fn answer(&mut self, question: Question) -> SourceEvent {
        let silence = || Loss::open("silence");
        match question {
            Question::Status(_) if self.is_silent => SourceEvent::Status(Err(silence())),
            Question::Status(_) => SourceEvent::Status(Ok(self.status.clone())),
            Question::Block(height) => {
                self.asked.push(height);
                SourceEvent::Block(self.block(height))
            }
        }
    }

    fn block(&self, height: u64) -> BlockAnswer {
        if self.is_silent {
            return BlockAnswer::Unknown(Loss::open("silence"));
        }
        let has = self.status.earliest..=self.status.latest;
        if !has.contains(&height) || self.withheld == Some(height) {
            return BlockAnswer::Absent(self.status.clone(), "access denied".into());
        }
        let hash = |height: u64| Some([height as u8 ^ self.salt; 32]);
        BlockAnswer::Found(Box::new(SourceBlock {
            content: FollowedBlock {
                height,
                ..FollowedBlock::default()
            },
            chain_id: self.status.chain_id.clone(),
            hash: hash(height),
            last_hash: hash(height - 1),
            codes_unavailable: None,
        }))
    }
}

impl BlockSource for Scripted {
    fn ask(&mut self, question: Question) {
        let answer = self.node.lock().unwrap().answer(question);
        self.answers.push_back(answer);
    }

    async fn next(&mut self) -> SourceEvent {
        if let Some(answer) = self.answers.pop_front() {
            return answer;
        }
        match self.said.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    fn holds_since(&self) -> Option<Nanos> {
        self.node.lock().unwrap().holds_since
    }
}

/// A follower of a scripted node, and the laws that hold for every stream of events.
struct Following {
    node: Arc<Mutex<Node>>,
    says: mpsc::UnboundedSender<SourceEvent>,
    follower: Follower,
    start: Instant,
    watermark: Nanos,
    last_observed: Nanos,
    blocks: Vec<FollowedBlock>,
}

impl Following {
    fn start(from: Height, latest: u64) -> Self {
        let options = FollowOptions {
            from,
            events: 4,
            ..FollowOptions::default()
        };
        let node = Arc::new(Mutex::new(Node::default()));
        node.lock().unwrap().status.latest = latest;
        let (says, said) = mpsc::unbounded_channel();
        let source = Scripted {
            node: Arc::clone(&node),
            said,
            answers: VecDeque::new(),
        };
        let start = Instant::now();
        let clock = move || Nanos::new(start.elapsed().as_nanos() as u64);
        let (follower, worker) =
            FollowerWorker::new(source, options, clock, CancellationToken::new());
        tokio::spawn(worker.run());
        Self {
            node,
            says,
            follower,
            start,
            watermark: Nanos::ZERO,
            last_observed: Nanos::ZERO,
            blocks: Vec::new(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Node)) {
        change(&mut self.node.lock().unwrap());
    }

    fn say(&self, event: SourceEvent) {
        self.says.send(event).unwrap();
    }

    /// What is told within this time, but blocks and watermarks.
    async fn news(&mut self, millis: u64) -> Vec<FollowEvent> {
        let end = Instant::now() + Duration::from_millis(millis);
        let mut news = Vec::new();
        while let Ok(Some(event)) = timeout_at(end, self.follower.next()).await {
            match event {
                FollowEvent::Block(block) => {
                    assert!(block.observed >= self.watermark, "a watermark was broken");
                    assert!(block.observed >= self.last_observed);
                    self.last_observed = block.observed;
                    self.blocks.push(block);
                }
                FollowEvent::Watermark(at) => {
                    assert!(at > self.watermark);
                    assert!(u128::from(at.as_nanos()) <= self.start.elapsed().as_nanos());
                    self.watermark = at;
                }
                event => news.push(event),
            }
        }
        news
    }

    fn heights(&self) -> Vec<u64> {
        self.blocks.iter().map(|block| block.height).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn an_announced_block_carries_its_instant_and_a_polled_one_the_time_since_the_poll_before() {
    let mut following = Following::start(Height::Next, 5);
    let connected = FollowEvent::Connected {
        next: 6,
        subscribed: false,
    };
    let caught_up = FollowEvent::CaughtUp { height: 5 };
    assert_eq!(following.news(1_000).await, [connected, caught_up]);
    following.change(|node| node.status.latest = 6);
    following.news(1_000).await;
    let resolution = following.blocks[0].resolution.unwrap();
    assert!(!resolution.is_zero() && resolution <= Nanos::from_millis(250));
    following.say(SourceEvent::Open);
    following.news(10).await;
    following.change(|node| node.status.latest = 7);
    let now = Nanos::new(following.start.elapsed().as_nanos() as u64);
    following.say(SourceEvent::Height(7));
    following.news(1_000).await;
    assert_eq!(following.blocks[1].resolution, None);
    assert_eq!(following.blocks[1].observed, now);
    // The node announced it to the source, and its status shows which block it is.
    following.change(|node| {
        node.status.latest = 8;
        node.status.announced = true;
    });
    following.say(SourceEvent::NewBlock);
    following.news(1_000).await;
    assert_eq!(following.blocks[2].resolution, None);
    assert_eq!(following.heights(), [6, 7, 8]);
}

#[tokio::test(start_paused = true)]
async fn no_watermark_passes_what_the_source_holds() {
    let mut following = Following::start(Height::Next, 5);
    following.news(1_000).await;
    let held = following.watermark;
    following.change(|node| node.holds_since = Some(held));
    following.news(1_000).await;
    assert_eq!(following.watermark, held);
    following.change(|node| node.holds_since = None);
    following.news(1_000).await;
    assert!(following.watermark > held);
}

/// With announcements before the first status, watermarks were later than the block that they announced.
#[tokio::test(start_paused = true)]
async fn no_watermark_passes_a_block_that_is_announced_before_the_node_answers() {
    let mut following = Following::start(Height::At(1), 1);
    following.change(|node| node.is_silent = true);
    following.say(SourceEvent::Height(1));
    following.news(1_000).await;
    following.change(|node| node.is_silent = false);
    following.news(10_000).await;
    assert_eq!(following.heights(), [1]);
    assert!(following.blocks[0].observed < Nanos::from_millis(1_000));
}

#[tokio::test(start_paused = true)]
async fn only_a_chain_that_stays_shorter_went_back() {
    let mut following = Following::start(Height::At(1), 9);
    following.news(1_000).await;
    // Another node behind the same address, one poll long.
    following.change(|node| node.status.latest = 8);
    following.say(SourceEvent::Height(8));
    following.news(1).await;
    following.change(|node| node.status.latest = 9);
    assert_eq!(following.news(10_000).await, []);
    following.change(|node| node.status.latest = 2);
    let failed = FollowEvent::Failed(FollowError::WentBack {
        known: 9,
        latest: 2,
    });
    assert_eq!(following.news(10_000).await, [failed]);
    assert_eq!(following.follower.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_was_replaced_is_an_end_however_long_it_is() {
    let mut following = Following::start(Height::At(1), 3);
    following.news(1_000).await;
    following.change(|node| {
        node.salt = 128;
        node.status.latest = 9;
    });
    let failed = FollowEvent::Failed(FollowError::Replaced { height: 4 });
    assert_eq!(following.news(1_000).await, [failed]);

    let mut following = Following::start(Height::At(1), 3);
    following.news(1_000).await;
    following.change(|node| node.status.chain_id = "other".into());
    let failed = FollowEvent::Failed(FollowError::OtherChain {
        before: String::new(),
        now: "other".into(),
        latest: 3,
    });
    assert_eq!(following.news(1_000).await, [failed]);
}

#[tokio::test(start_paused = true)]
async fn heights_that_are_gone_are_named_and_one_that_is_not_given_is_told_of() {
    let mut following = Following::start(Height::At(2), 0);
    following.change(|node| (node.status.earliest, node.status.latest) = (4, 5));
    let news = following.news(1_000).await;
    assert!(news.contains(&FollowEvent::Missing { first: 2, last: 3 }));
    following.change(|node| (node.withheld, node.status.latest) = (Some(6), 7));
    let [FollowEvent::Disconnected { reason, unread, .. }] = &following.news(200_000).await[..1]
    else {
        panic!("it was not told")
    };
    assert!(unread, "{reason}");
    assert!(reason.contains("block 6") && reason.contains("access denied"));
    following.change(|node| node.withheld = None);
    following.news(10_000).await;
    assert_eq!(following.heights(), [4, 5, 6, 7]);
}

#[tokio::test(start_paused = true)]
async fn while_nobody_reads_little_is_held_and_nothing_is_lost() {
    let mut following = Following::start(Height::At(1), 1_000);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked = following.node.lock().unwrap().asked.len();
    assert!(asked <= 4 + ENOUGH_OUTBOX + 1, "{asked} blocks");
    following.news(60_000).await;
    assert_eq!(following.heights(), (1..=1_000).collect::<Vec<_>>());
}

/// What happens to a node: blocks, announcements, outages, and the reader's pauses.
fn happens(following: &Following, kind: u8, count: u64) {
    match kind {
        0 => following.change(|node| node.status.latest += count),
        1 => {
            following.change(|node| node.status.latest += count);
            let latest = following.node.lock().unwrap().status.latest;
            following.say(SourceEvent::Height(latest));
        }
        // As of a node that is a little late.
        2 => {
            let latest = following.node.lock().unwrap().status.latest;
            following.say(SourceEvent::Height(count.min(latest)));
        }
        3 => following.say(SourceEvent::Lost(Loss::closed("it ended"))),
        4 => following.say(SourceEvent::Open),
        5 => following.say(SourceEvent::Refused("not here".into())),
        6 => following.change(|node| node.is_silent = true),
        _ => following.change(|node| node.is_silent = false),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_height_comes_once_and_in_order_whatever_happens(
        steps in prop::collection::vec((0_u8..9, 1_u64..30, 0_u64..3_000), 0..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut following = Following::start(Height::At(1), 1);
            for (kind, count, millis) in steps {
                happens(&following, kind, count);
                if kind == 8 {
                    // The reader does nothing.
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                } else {
                    following.news(millis).await;
                }
            }
            following.change(|node| {
                node.is_silent = false;
                node.status.latest += 2;
            });
            following.news(10_000).await;
            let latest = following.node.lock().unwrap().status.latest;
            assert_eq!(following.heights(), (1..=latest).collect::<Vec<_>>());
        });
    }
}
