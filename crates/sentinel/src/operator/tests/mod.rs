//! The listener through real sockets, in front of a state that the tests choose.

mod looks;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use control::BreakState;
use fairq::Network;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::lane::Status;
use crate::metrics::{Gauges, Metrics};
use crate::refusal::Reason;
use crate::reload::{NotReloaded, Reloaded};

struct Fake(Mutex<Snapshot>);

/// A name that would clear the terminal, and be a script in a page.
const HOSTILE: &str = "\u{1b}[2J<script>x</script>";

fn snapshot() -> Snapshot {
    Snapshot {
        answering: true,
        nodes: vec![NodeView {
            url: "http://127.0.0.1:26657".to_owned(),
            up: true,
            silent_ms: None,
            catching_up: false,
            height: Some(9),
            reads: 12,
            drained: None,
        }],
        status: Status {
            backlogged_clients: 3,
            known_clients: 7,
            ..Status::default()
        },
        gauges: Gauges {
            queue_depth: 42,
            ..Gauges::default()
        },
        ..Snapshot::default()
    }
}

fn client() -> ClientView {
    ClientView {
        client: "127.0.0.2".to_owned(),
        weight: 1,
        connections: 2,
        queued: 1_024,
        queued_bytes: 256_000,
        share_per_second: 995.0,
        dispatched: 12,
        refused: 34,
        forwarded_per_second: None,
    }
}

impl Inspect for Fake {
    fn snapshot(&self) -> Snapshot {
        self.0.lock().unwrap().clone()
    }

    fn clients(&self, top: usize) -> Vec<ClientView> {
        vec![client(); top.min(3)]
    }

    fn ban(&self, who: Network, length: Option<Duration>, why: String) -> Result<BanView, String> {
        match who.prefix() {
            0 => Err("everybody".to_owned()),
            _ => Ok(BanView {
                who: who.to_string(),
                ends_in_seconds: length.map(|length| length.as_secs()),
                why,
            }),
        }
    }

    fn unban(&self, who: Network) -> bool {
        who.prefix() == 24
    }

    fn drain(&self, node: Option<&str>, _: Option<Duration>, _: String) -> bool {
        node.is_none_or(|node| node == self.0.lock().unwrap().nodes[0].url)
    }

    fn bans(&self) -> Vec<BanView> {
        Vec::new()
    }

    fn reload(&self) -> Result<Reloaded, NotReloaded> {
        if self.0.lock().unwrap().draining {
            Err(NotReloaded("a.toml:3: limits.batch: no number".to_owned()))
        } else {
            Ok(Reloaded {
                applied: vec!["limits.batch"],
                needs_restart: vec!["listen.addr"],
                notices: Vec::new(),
            })
        }
    }

    fn explain(&self, ip: IpAddr) -> Explanation {
        Explanation {
            ip,
            allowed: true,
            rule: None,
            client: client(),
            queue_limit: 1_024,
            pace_per_second: 2_000.0,
            sharing: 3,
            estimated_wait_ms: Some(1_029),
            controller: BreakState::Running.name(),
            bound: "the window: 990 of 1000 own transactions are in no block yet".to_owned(),
            counted_in: "transactions: blocks have room".to_owned(),
            forgotten: 0,
            would_refuse: [("queue_full", 7), ("rate", 12)].into(),
            limits: vec![Limit {
                reason: Reason::QueueFull.name(),
                text: "1024 writes wait (fair.queue_per_client)".to_owned(),
            }],
        }
    }
}

struct Served {
    address: SocketAddr,
    fake: Arc<Fake>,
    _shutdown: tokio_util::sync::DropGuard,
}

async fn serve_pages() -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let fake = Arc::new(Fake(Mutex::new(snapshot())));
    let shutdown = CancellationToken::new();
    let inspect = Arc::clone(&fake) as Arc<dyn Inspect>;
    let metrics = Arc::new(Metrics::default());
    tokio::spawn(serve(listener, metrics, inspect, shutdown.clone()));
    Served {
        address,
        fake,
        _shutdown: shutdown.drop_guard(),
    }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The whole answer to a request of this method, target and further header lines.
    async fn ask(&self, method: &str, target: &str, headers: &str) -> String {
        let mut stream = self.connect().await;
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    async fn get(&self, target: &str) -> (u16, String) {
        let answer = self.ask("GET", target, "").await;
        let status = answer[9..12].parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }

    async fn json(&self, target: &str) -> (u16, serde_json::Value) {
        let (status, body) = self.get(target).await;
        (status, serde_json::from_str(&body).unwrap())
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn each_page_answers() {
    let served = serve_pages().await;
    let metrics = served.ask("GET", "/metrics", "").await;
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("content-type: application/openmetrics-text; version=1.0.0"));
    assert!(metrics.contains("\nsentinel_queue_depth 42\n"));
    assert!(metrics.ends_with("# EOF\n"));
    assert_eq!(served.get("/healthz").await.0, 200);
    let (status, ready) = served.json("/readyz").await;
    assert_eq!(
        (status, &ready["ready"], &ready["why"]),
        (200, &true.into(), &"running".into())
    );
    assert_eq!(ready["nodes"][0]["height"], 9);
    let (_, index) = served.get("/").await;
    for page in [
        "/metrics",
        "/healthz",
        "/readyz",
        "/clients?top=N",
        "/explain?ip=A",
    ] {
        assert!(index.contains(page), "{page}");
    }
}

#[tokio::test]
async fn a_reload_is_ordered_by_post_and_by_no_browser() {
    let served = serve_pages().await;
    let answer = served.ask("POST", "/reload", "").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(
        answer.contains("limits.batch") && answer.contains("listen.addr"),
        "{answer}"
    );
    for header in [
        "Origin: http://x\r\n",
        "Accept-Language: en\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
    ] {
        let answer = served.ask("POST", "/reload", header).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{header}: {answer}");
    }
    let answer = served.ask("GET", "/reload", "").await;
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    served.fake.0.lock().unwrap().draining = true;
    let answer = served.ask("POST", "/reload", "").await;
    assert!(answer.starts_with("HTTP/1.1 422 "), "{answer}");
    assert!(answer.contains("a.toml:3: limits.batch"), "{answer}");
}

#[tokio::test]
async fn bans_are_ordered_with_who_until_when_and_why() {
    let served = serve_pages().await;
    let order = async |target: &str| {
        let answer = served.ask("POST", target, "").await;
        (answer[9..12].parse::<u16>().unwrap(), answer)
    };
    let (status, answer) = order("/ban?who=192.0.2.0/24&for=10m&why=a%20flood").await;
    assert_eq!(status, 200, "{answer}");
    for part in ["192.0.2.0/24", "600", "a flood"] {
        assert!(answer.contains(part), "{answer}");
    }
    for (target, expected) in [
        ("/ban?who=192.0.2.7", 200),
        ("/ban", 400),
        ("/ban?who=everybody", 400),
        ("/ban?who=192.0.2.7&for=long", 400),
        ("/ban?who=192.0.2.7&for=0s", 400),
        ("/ban?who=192.0.2.7&why=a%0Ab", 400),
        ("/ban?who=192.0.2.7&who=192.0.2.8", 400),
        ("/ban?whom=192.0.2.7", 400),
        ("/ban?who=0.0.0.0/0", 422),
        ("/unban?who=192.0.2.0/24", 200),
        ("/unban?who=192.0.2.7", 404),
        ("/drain?node=http://127.0.0.1:26657&for=10m", 200),
        ("/drain?node=http://127.0.0.1:26657", 400),
        ("/drain?for=10m", 400),
        ("/drain?node=http://127.0.0.1:1&for=10m", 404),
        ("/undrain?node=http://127.0.0.1:26657", 200),
        ("/pause?for=10m&why=disk", 200),
        ("/pause", 400),
        ("/pause?node=http://127.0.0.1:26657&for=10m", 400),
        ("/resume", 200),
        ("/resume?for=10m", 400),
        ("/reload?now=1", 400),
    ] {
        let (status, answer) = order(target).await;
        assert_eq!(status, expected, "{target}: {answer}");
    }
    assert_eq!(served.json("/bans").await, (200, serde_json::json!([])));
}

#[tokio::test]
async fn a_node_that_was_stopped_is_not_shown_as_up() {
    let served = serve_pages().await;
    served.fake.0.lock().unwrap().nodes[0].silent_ms = Some(4_000);
    let (status, ready) = served.json("/readyz").await;
    assert_eq!(
        (status, &ready["nodes"][0]["silent_ms"]),
        (200, &4_000.into())
    );
    assert!(
        ready["why"]
            .as_str()
            .unwrap()
            .starts_with("no node answers"),
        "{ready}"
    );
}

#[tokio::test]
async fn readiness_is_false_while_draining_and_true_while_paused() {
    let served = serve_pages().await;
    served.fake.0.lock().unwrap().status.state = BreakState::Paused;
    let (status, ready) = served.json("/readyz").await;
    assert_eq!((status, &ready["controller"]), (200, &"paused".into()));
    served.fake.0.lock().unwrap().draining = true;
    let (status, ready) = served.json("/readyz").await;
    assert_eq!((status, &ready["ready"]), (503, &false.into()));
    assert_eq!(ready["why"], "going down: nothing new is taken");
    // The process itself is as healthy as before.
    assert_eq!(served.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn clients_by_the_length_of_their_queues() {
    let served = serve_pages().await;
    let (_, all) = served.json("/clients").await;
    assert_eq!((&all["active"], &all["known"]), (&3.into(), &7.into()));
    assert_eq!(all["clients"].as_array().unwrap().len(), 3);
    let (_, one) = served.json("/clients?top=1").await;
    assert_eq!(one["clients"].as_array().unwrap().len(), 1);
    assert_eq!(one["clients"][0]["queued"], 1_024);
    for target in [
        "/clients?top=0",
        "/clients?top=1001",
        "/clients?top=x",
        "/clients?limit=1",
    ] {
        let (status, problem) = served.json(target).await;
        assert_eq!(status, 400, "{target}");
        assert!(
            problem["error"].as_str().unwrap().contains("top"),
            "{target}"
        );
    }
}

#[tokio::test]
async fn an_explanation_in_json_and_for_people() {
    let served = serve_pages().await;
    let (status, why) = served.json("/explain?ip=127.0.0.2").await;
    assert_eq!(status, 200);
    assert_eq!(
        (&why["ip"], &why["client"]),
        (&"127.0.0.2".into(), &"127.0.0.2".into())
    );
    assert_eq!(why["share_per_second"], 995.0);
    assert_eq!(why["limits"][0]["reason"], "queue_full");
    let text = served
        .ask("GET", "/explain?ip=127.0.0.2", "Accept: text/plain\r\n")
        .await;
    for line in [
        "127.0.0.2 is client 127.0.0.2, weight 1\n",
        "access       allowed\n",
        "waiting      1024 of 1024 writes, 256000 bytes\n",
        "share        995.0 writes a second of 2000.0, among 3 clients\n",
        "all wait for the window: 990 of 1000 own transactions are in no block yet\n",
        "counted in   transactions: blocks have room\n",
        "a new write  would wait about 1.0 s\n",
        "limited by   queue_full: 1024 writes wait (fair.queue_per_client)\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let (_, v6) = served.json("/explain?ip=2001%3Adb8%3A%3A1").await;
    assert_eq!(v6["ip"], "2001:db8::1");
    for target in [
        "/explain",
        "/explain?ip=10.0.0.0/8",
        "/explain?ip=localhost",
        "/explain?x=1",
    ] {
        assert_eq!(served.get(target).await.0, 400, "{target}");
    }
}

#[tokio::test]
async fn the_overview_has_the_figures_the_clients_and_the_log() {
    let served = serve_pages().await;
    // The clients are listed with the first turn of the listener.
    let overview = loop {
        let (status, overview) = served.json("/overview").await;
        assert_eq!(status, 200);
        if !overview["clients"].as_array().unwrap().is_empty() {
            break overview;
        }
    };
    assert_eq!(overview["now"]["queue_depth"], 42);
    assert_eq!(overview["history"]["queued"][0], 42);
    assert_eq!(overview["clients"][0]["client"], "127.0.0.2");
    assert_eq!(overview["bound"]["name"], "nothing");
    assert_eq!(overview["gate"], "open");
    assert_eq!(overview["nodes"][0]["height"], 9);
    let (status, text) = served.get("/top").await;
    assert_eq!(status, 200);
    for part in [
        "gate open (running)",
        "waiting 42: ",
        "127.0.0.2",
        "26657 up, height 9",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[tokio::test]
async fn a_browser_gets_the_page_and_a_script_the_list_of_pages() {
    let served = serve_pages().await;
    let browsers = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
    let answer = served.ask("GET", "/", browsers).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    for header in [
        "content-type: text/html; charset=utf-8",
        "content-security-policy: default-src 'none'; style-src 'sha256-",
        "frame-ancestors 'none'; require-trusted-types-for 'script'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "vary: accept",
    ] {
        assert!(head.contains(header), "no {header} in {head}");
    }
    assert_eq!(body, page::PAGE);
    let curl = served.ask("GET", "/", "Accept: */*\r\n").await;
    assert!(curl.contains("/explain?ip=A"), "{curl}");
}

#[tokio::test]
async fn pages_of_other_sites_get_no_figures() {
    let served = serve_pages().await;
    let ask = async |target: &str, header: &str| served.ask("GET", target, header).await;
    for target in ["/overview", "/top", "/clients", "/explain?ip=127.0.0.2"] {
        for site in ["cross-site", "same-site"] {
            let answer = ask(target, &format!("Sec-Fetch-Site: {site}\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{target}: {answer}");
        }
        for site in ["same-origin", "none"] {
            let answer = ask(target, &format!("Sec-Fetch-Site: {site}\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{target}: {answer}");
            assert!(
                !answer.to_ascii_lowercase().contains("access-control-allow"),
                "{answer}"
            );
        }
        // A public name that resolves to this machine.
        let mut stream = served.connect().await;
        let rebound = format!(
            "GET {target} HTTP/1.1\r\nHost: rebound.example.com:26681\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(rebound.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 421 "), "{target}: {answer}");
        assert!(answer.contains("ask by address"), "{answer}");
    }
}

/// At 2b52556 a page whose own name was made to lead here read figures and state.
#[tokio::test]
async fn identity_94_figures_are_for_monitors_by_any_name_and_for_pages_by_the_operator_s_own() {
    let served = serve_pages().await;
    let asked = async |target: &str, host: &str, headers: &str| {
        let mut stream = served.connect().await;
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        rest(&mut stream).await[9..12].to_owned()
    };
    let (named, own, browser) = (
        "rebound.example.com:26681",
        "127.0.0.1:26681",
        "Accept-Language: en\r\n",
    );
    for target in ["/metrics", "/readyz", "/healthz"] {
        assert_eq!(asked(target, named, "").await, "200", "{target}");
        assert_eq!(asked(target, named, browser).await, "421", "{target}");
        assert_eq!(asked(target, own, browser).await, "200", "{target}");
    }
}

#[test]
fn one_parameter_decoded() {
    assert_eq!(only(None, "ip"), Ok(None));
    assert_eq!(only(Some(""), "ip"), Ok(None));
    assert_eq!(only(Some("ip=10.0.0.1"), "ip"), Ok(Some("10.0.0.1".into())));
    assert_eq!(only(Some("ip=%3A%3a1"), "ip"), Ok(Some("::1".into())));
}

#[test]
fn what_is_not_understood_is_named() {
    let refused = |query| only(Some(query), "ip").unwrap_err();
    assert!(refused("pi=1").contains("\"pi\""));
    assert!(refused("ip=1&ip=2").contains("twice"));
    assert!(refused("ip=%3").contains("percent"));
    assert!(refused("ip=%zz").contains("percent"));
    assert!(refused("ip=%ff").contains("UTF-8"));
}
