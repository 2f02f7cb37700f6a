//! Connections that cost no real time: each is open after some attempts and a time of its own, on a paused clock.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rpc::BroadcastMethod;
use tokio::time::Instant;

use super::*;
use crate::lane::testing::write;

/// What happens on a fake connection.
#[derive(Default)]
struct Wire {
    /// The ids of the requests.
    asked: Vec<u64>,
    /// Messages of the node.
    messages: Vec<String>,
    /// Bytes that the socket does not take.
    unwritten: usize,
    broken: bool,
}

struct Fake(Arc<Mutex<Wire>>);

impl Link for Fake {
    fn queue(&mut self, id: u64, _: BroadcastMethod, _: &[u8]) {
        self.0.lock().unwrap().asked.push(id);
    }

    fn flush(&mut self) -> Result<(), ConnectionError> {
        Ok(())
    }

    fn unwritten(&self) -> usize {
        self.0.lock().unwrap().unwritten
    }

    fn poll(
        &mut self,
        _: &mut Context<'_>,
        on_message: &mut dyn FnMut(&[u8]),
    ) -> Poll<ConnectionError> {
        let mut wire = self.0.lock().unwrap();
        for message in wire.messages.drain(..) {
            on_message(message.as_bytes());
        }
        if wire.broken {
            return Poll::Ready(ConnectionError::Closed { mid_message: false });
        }
        Poll::Pending
    }
}

/// A pool, the wires of its connections in the order in which they were opened, and a clock.
struct Bench {
    pool: Pool<Fake>,
    wires: Arc<Mutex<Vec<Arc<Mutex<Wire>>>>>,
    attempts: Arc<AtomicUsize>,
    start: Instant,
    sent: Cell<u64>,
}

impl Bench {
    /// Connections that take this long each; those of the attempts for which `fails` holds are refused instead.
    fn new(count: usize, takes: Duration, fails: fn(usize) -> bool) -> Self {
        let wires = Arc::new(Mutex::new(Vec::new()));
        let attempts = Arc::new(AtomicUsize::new(0));
        let (opened, counted) = (Arc::clone(&wires), Arc::clone(&attempts));
        let opener: Opener<Fake> = Box::new(move |_| {
            let attempt = counted.fetch_add(1, Ordering::Relaxed);
            let opened = Arc::clone(&opened);
            Box::pin(async move {
                tokio::time::sleep(takes).await;
                if fails(attempt) {
                    return Err(ConnectionError::Closed { mid_message: false });
                }
                let wire = Arc::<Mutex<Wire>>::default();
                opened.lock().unwrap().push(Arc::clone(&wire));
                Ok(Fake(wire))
            })
        });
        Self {
            pool: Pool::with(count, [takes; 2], opener),
            wires,
            attempts,
            start: Instant::now(),
            sent: Cell::new(0),
        }
    }

    fn now(&self) -> Nanos {
        self.start.elapsed().into()
    }

    /// Lets this much time pass: what has happened.
    async fn pass(&mut self, time: Duration) -> Vec<PoolEvent> {
        let end = Instant::now() + time;
        let endpoint = "http://node.test".parse().unwrap();
        let mut events = Vec::new();
        let start = self.start;
        loop {
            let now = self.now();
            let retry_at = self.pool.tend(&endpoint, now);
            let wake = retry_at.map_or(end, |at| end.min(self.start + at.into()));
            tokio::select! {
                biased;
                event = self.pool.next(|| start.elapsed().into()) => {
                    self.pool.take_answers(&mut Vec::new());
                    events.push(event);
                }
                () = tokio::time::sleep_until(wake) => if wake >= end { return events },
            }
        }
    }

    /// Sends a write of a line of its own: which, and its carrier.
    fn send(&mut self) -> (WriteId, Carrier) {
        let number = self.sent.get();
        self.sent.set(number + 1);
        let id = WriteId::of(number);
        let carrier = self.pool.choose(None).unwrap();
        let job = write(vec![1]);
        let endpoint = "http://node.test".parse().unwrap();
        self.pool.send(carrier, (id, &job), &endpoint, self.now());
        (id, carrier)
    }

    fn in_flight(&self) -> usize {
        self.pool
            .slots
            .iter()
            .map(|slot| slot.under_way.len())
            .sum()
    }

    fn wire(&self, place: usize) -> Arc<Mutex<Wire>> {
        Arc::clone(&self.wires.lock().unwrap()[place])
    }
}

const ROUND_TRIP: Duration = Duration::from_millis(160);
/// A connect and an upgrade.
const OPENING: Duration = Duration::from_millis(320);
/// What a test leaves for the timer's granularity.
const SLACK: Duration = Duration::from_millis(5);

/// At 2b52556 they were opened one after another within 5 s: seventeen over a round trip of 160 ms never.
#[tokio::test(start_paused = true)]
async fn case_78_seventeen_connections_over_a_slow_link_are_back_in_two_round_trips() {
    let mut bench = Bench::new(16, OPENING, |_| false);
    bench.pass(2 * ROUND_TRIP + SLACK).await;
    assert_eq!(bench.pool.in_use(), 16);
    // The node is started again.
    for wire in bench.wires.lock().unwrap().iter() {
        wire.lock().unwrap().broken = true;
    }
    let before = bench.now();
    let events = bench.pass(2 * ROUND_TRIP + SLACK).await;
    let broken = |event: &&PoolEvent| matches!(event, PoolEvent::Broken(_));
    assert_eq!(events.iter().filter(broken).count(), 17);
    assert_eq!(bench.pool.in_use(), 16);
    assert!(bench.pool.same_since() > Some(before));
}

#[tokio::test(start_paused = true)]
async fn case_78_one_that_cannot_be_opened_holds_up_none_of_the_others() {
    let mut bench = Bench::new(16, OPENING, |attempt| attempt == 3 || attempt > 16);
    bench.pass(OPENING + SLACK).await;
    assert_eq!(bench.pool.in_use(), 15);
    // The sixteenth is tried again and again, with pauses that grow to 1.6 s.
    let events = bench.pass(Duration::from_secs(60)).await;
    assert!((30..45).contains(&events.len()), "{}", events.len());
    assert_eq!(bench.pool.in_use(), 15);
    // Writes go with the first that is up.
    let mut slow = Bench::new(16, OPENING, |attempt| attempt != 9);
    slow.pass(OPENING + SLACK).await;
    assert_eq!((slow.pool.in_use(), slow.pool.is_up()), (1, true));
    assert_eq!(slow.send().1, Carrier::Slot(9));
}

#[tokio::test(start_paused = true)]
async fn case_78_a_break_costs_the_writes_of_one_connection() {
    let mut bench = Bench::new(16, OPENING, |_| false);
    bench.pass(OPENING + SLACK).await;
    // Each line has its own connection while there are enough.
    let sent: Vec<_> = (0..32).map(|_| bench.send()).collect();
    let count = |place| {
        sent.iter()
            .filter(|(_, one)| *one == Carrier::Slot(place))
            .count()
    };
    assert_eq!((1..=16).map(count).collect::<Vec<_>>(), [2; 16]);
    let same_since = bench.pool.same_since();
    bench.wire(5).lock().unwrap().broken = true;
    let events = bench.pass(SLACK).await;
    let [PoolEvent::Broken(broken)] = events.as_slice() else {
        panic!("{events:?}");
    };
    let lost = sent.iter().filter(|(_, one)| *one == Carrier::Slot(5));
    assert_eq!(
        broken.under_way,
        lost.map(|(id, _)| *id).collect::<Vec<_>>()
    );
    assert_eq!((bench.pool.in_use(), bench.in_flight()), (15, 30));
    assert_eq!(bench.pool.same_since(), same_since);
    // One write that is not answered costs its own connection only.
    let limit = Nanos::from_secs(10);
    bench.pass(Duration::from_secs(5)).await;
    let (late, carrier) = bench.send();
    assert_eq!(carrier, Carrier::Slot(5));
    bench.pass(Duration::from_secs(6)).await;
    assert_eq!(bench.pool.give_up_silent(limit, bench.now()).len(), 15);
    assert_eq!((bench.pool.in_use(), bench.in_flight()), (1, 1));
    bench.pass(Duration::from_secs(5)).await;
    let silent = bench.pool.give_up_silent(limit, bench.now());
    assert_eq!(silent, [[late]]);
}

/// Before, what one connection did not take was all that could wait for any: the others had nothing more.
#[tokio::test(start_paused = true)]
async fn case_110_a_blocked_connection_stops_no_other() {
    let mut bench = Bench::new(3, OPENING, |_| false);
    bench.pass(OPENING + SLACK).await;
    let sent = [bench.send().1, bench.send().1, bench.send().1];
    assert_eq!(sent, [1, 2, 3].map(Carrier::Slot));
    // All but the third take nothing more: each has its share of what may wait.
    for place in [0, 1, 2] {
        bench.wire(place).lock().unwrap().unwritten = MOST_UNWRITTEN / 4;
    }
    assert!(!bench.pool.flush());
    let takes = |bench: &Bench| [0, 1, 2, 3].map(|place| bench.pool.takes(Carrier::Slot(place)));
    assert_eq!(takes(&bench), [false, false, false, true]);
    assert!(bench.pool.takes_any() && !bench.pool.has_express());
    assert_eq!([bench.send().1, bench.send().1], [Carrier::Slot(3); 2]);
    // However much it is that waits.
    bench.wire(1).lock().unwrap().unwritten = 4 * MOST_UNWRITTEN;
    assert_eq!(bench.send().1, Carrier::Slot(3));
    bench.wire(3).lock().unwrap().unwritten = MOST_UNWRITTEN / 4;
    assert!(!bench.pool.takes_any());
    // A line that is under way there waits for it, and for no other.
    assert!(bench.pool.goes_on(Carrier::Slot(1), 1));
    assert!(bench.pass(SLACK).await.is_empty());
    // It is told when the node reads again.
    assert!(!bench.pool.flush());
    bench.wire(2).lock().unwrap().unwritten = 7;
    let events = bench.pass(SLACK).await;
    assert!(
        matches!(events.as_slice(), [PoolEvent::Writable]),
        "{events:?}"
    );
    assert_eq!(takes(&bench), [false, false, true, false]);
    assert_eq!(bench.send().1, Carrier::Slot(2));
}

/// A connection that the node closes at once is not opened again and again without a pause.
#[tokio::test(start_paused = true)]
async fn case_78_a_node_that_closes_what_it_has_opened_is_given_pauses() {
    let mut bench = Bench::new(1, Duration::from_millis(1), |_| false);
    for _ in 0..10_000 {
        for wire in bench.wires.lock().unwrap().iter() {
            wire.lock().unwrap().broken = true;
        }
        bench.pass(Duration::from_millis(1)).await;
    }
    let attempts = bench.attempts.load(Ordering::Relaxed);
    assert!((10..40).contains(&attempts), "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn case_78_the_number_of_connections_moves_both_ways() {
    let mut bench = Bench::new(1, OPENING, |_| false);
    bench.pass(OPENING + SLACK).await;
    bench.send();
    bench.pool.resize(3, bench.now());
    bench.pass(OPENING + SLACK).await;
    let sent = [bench.send(), bench.send(), bench.send()];
    assert_eq!(sent.map(|(_, one)| one), [2, 3, 1].map(Carrier::Slot));
    // Two shall go. They take nothing more, and end when nothing is under way on them.
    bench.pool.resize(1, bench.now());
    assert!(!bench.pool.goes_on(Carrier::Slot(3), 1));
    assert_eq!(bench.send().1, Carrier::Slot(1));
    assert_eq!((bench.pool.in_use(), bench.pool.slots.len()), (1, 4));
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"code":0,"data":""}}"#;
    bench
        .wire(3)
        .lock()
        .unwrap()
        .messages
        .push(answer.to_owned());
    bench.pass(SLACK).await;
    bench.pool.resize(1, bench.now());
    assert_eq!(bench.pool.slots.len(), 3);
    // One that is wanted again goes on.
    bench.pool.resize(2, bench.now());
    assert_eq!((bench.pool.in_use(), bench.in_flight()), (2, 4));
}

/// Before, lines that never pause stayed together on one connection, however many were opened for them.
#[tokio::test(start_paused = true)]
async fn case_78_a_line_that_never_pauses_leaves_a_shared_connection_for_an_idle_one() {
    let mut bench = Bench::new(1, OPENING, |_| false);
    bench.pass(OPENING + SLACK).await;
    let one = Carrier::Slot(1);
    assert_eq!([bench.send().1, bench.send().1, bench.send().1], [one; 3]);
    // Where there is no other, or only the express one, all stay.
    assert!(bench.pool.goes_on(one, 1));
    bench.pool.resize(3, bench.now());
    bench.pass(SLACK).await;
    assert_eq!(bench.pool.opening(), 2);
    assert!(bench.pool.goes_on(one, 1));
    bench.pass(OPENING + SLACK).await;
    assert_eq!((bench.pool.in_use(), bench.pool.opening()), (3, 0));
    // Three lines share one of three; a line that has all of it to itself has no reason to wait.
    assert!(!bench.pool.goes_on(one, 1) && !bench.pool.goes_on(one, 2));
    assert!(bench.pool.goes_on(one, 3) && bench.pool.goes_on(EXPRESS, 0));
    // Two of them have left: nothing is idle, and nobody waits any more.
    assert_eq!([2, 3].map(Carrier::Slot), [bench.send().1, bench.send().1]);
    assert!(bench.pool.goes_on(one, 1));
    assert!(!bench.pool.goes_on(Carrier::Alone, 1));
}

/// A line that had begun there stayed however much was under way, also when its queue was long: one client filled the
/// express connection, and all others were behind the long queues.
#[tokio::test(start_paused = true)]
async fn case_110_the_express_connection_is_shared_by_its_clients() {
    let client = |last: u8| fairq::KeyScheme::default().key([127, 0, 0, last].into());
    let mut bench = Bench::new(1, OPENING, |_| false);
    bench.pass(OPENING + SLACK).await;
    let usual = Carrier::Slot(1);
    // As many as it takes of one line after another: each as many as are free besides.
    let fill = |bench: &mut Bench, last: u8| {
        let mut job = write(vec![1]);
        job.client = client(last);
        let endpoint = "http://node.test".parse().unwrap();
        let mut count = 0;
        while !bench.pool.changes(EXPRESS, job.client, true) {
            let id = WriteId::of(u64::from(last) * 1_000 + count);
            bench.pool.send(EXPRESS, (id, &job), &endpoint, bench.now());
            count += 1;
        }
        count
    };
    assert_eq!([1, 2, 3].map(|last| fill(&mut bench, last)), [32, 16, 8]);
    // The long queues have more under way.
    (0..60).for_each(|_| assert_eq!(bench.send().1, usual));
    // The first goes back to the usual one, from a short queue or not, and a newcomer has a place.
    let pool = &bench.pool;
    assert!(pool.changes(EXPRESS, client(1), false));
    assert_eq!(pool.choose(Some(client(1))), Some(usual));
    assert!(!pool.changes(usual, client(1), true));
    assert_eq!(pool.choose(Some(client(4))), Some(EXPRESS));
    assert!(pool.changes(usual, client(4), true) && !pool.changes(usual, client(4), false));
    // All stay while there is no other connection.
    bench.wire(1).lock().unwrap().broken = true;
    bench.pass(SLACK).await;
    assert_eq!(bench.pool.in_use(), 0);
    assert!(!bench.pool.changes(EXPRESS, client(1), false));
}

/// A node answers each connection in order. All clients that ask for little shared one, also beside idle ones: at a node
/// that takes 300 ms for an answer they had three a second together.
#[tokio::test(start_paused = true)]
async fn case_110_a_write_goes_where_the_fewest_are_under_way_and_not_behind_others_on_the_express_connection()
 {
    let client = |last: u8| fairq::KeyScheme::default().key([127, 0, 0, last].into());
    let mut bench = Bench::new(3, OPENING, |_| false);
    bench.pass(OPENING + SLACK).await;
    let endpoint = "http://node.test".parse().unwrap();
    let mut carriers = Vec::new();
    for last in 1..=8 {
        let mut job = write(vec![1]);
        job.client = client(last);
        let carrier = bench.pool.choose(Some(job.client)).unwrap();
        let id = WriteId::of(1_000 + u64::from(last));
        bench.pool.send(carrier, (id, &job), &endpoint, bench.now());
        carriers.push(carrier);
    }
    let round = [0, 1, 2, 3].map(Carrier::Slot);
    assert_eq!(carriers, [round, round].concat());
    // A line that could go on at once does not wait for a change that gains nothing.
    let one = Carrier::Slot(1);
    assert!(!bench.pool.changes(one, client(9), true));
    // Long queues fill the usual ones: the express one is the shortest again.
    for _ in 0..9 {
        bench.send();
    }
    assert_eq!(bench.pool.choose(Some(client(9))), Some(EXPRESS));
    assert!(bench.pool.changes(one, client(9), true));
    assert_ne!(bench.pool.choose(None), Some(EXPRESS));
}

/// A handler that panicked answers with the id -1; what it was working on was the oldest.
#[tokio::test(start_paused = true)]
async fn case_98_an_answer_without_an_id_ends_the_oldest_write_and_no_other() {
    let mut bench = Bench::new(1, OPENING, |_| false);
    bench.pass(OPENING + SLACK).await;
    let [first, second] = [bench.send().0, bench.send().0];
    let wire = bench.wire(1);
    for message in [
        r#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"Internal error","data":"panic in handler"}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"code":0,"data":""}}"#,
        // With nothing under way, and without being an error.
        r#"{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"Internal error","data":""}}"#,
        r#"{"jsonrpc":"2.0","id":-1,"result":{}}"#,
    ] {
        wire.lock().unwrap().messages.push(message.to_owned());
    }
    let start = bench.start;
    let next = bench.pool.next(|| start.elapsed().into()).await;
    assert!(matches!(next, PoolEvent::Answers));
    let mut answers = Vec::new();
    bench.pool.take_answers(&mut answers);
    let ended = answers.iter().map(|one| (one.write, &one.kind));
    assert_eq!(
        ended.collect::<Vec<_>>(),
        [(first, &AnswerKind::Other), (second, &AnswerKind::Accepted)]
    );
}

/// A planned reconnect does not put in doubt what the node has.
#[tokio::test(start_paused = true)]
async fn what_replaces_connections_knows_the_node_as_long() {
    let mut bench = Bench::new(2, OPENING, |_| false);
    bench.pass(OPENING + SLACK).await;
    let same_since = bench.pool.same_since();
    bench.pass(Duration::from_secs(9)).await;
    bench.pool.renew(bench.now());
    assert_eq!((bench.pool.is_up(), bench.pool.same_since()), (false, None));
    let events = bench.pass(OPENING + SLACK).await;
    let renewed = |event: &&PoolEvent| matches!(event, PoolEvent::Opened { renewed: true });
    assert_eq!(
        (events.len(), events.iter().filter(renewed).count()),
        (3, 1)
    );
    assert_eq!(bench.pool.same_since(), same_since);
    // One that was given up because the node was gone does.
    bench.pool.reopen_idle(None, bench.now());
    bench.pass(OPENING + SLACK).await;
    assert!(bench.pool.same_since() > same_since);
}
