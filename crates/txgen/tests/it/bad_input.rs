//! What cannot be run is refused with exit code 2 before anything is sent, and the message says
//! what to do.

use std::fs;

use testkit::{ScriptedServer, free_port};

use crate::support::{Behaviour, FakeChain, FakeNode, Node, Place, quick};

/// Runs every line and looks for its phrase; nothing may have been made.
#[track_caller]
fn refused(cases: &[(&str, &str)]) {
    let place = Place::new();
    for (line, phrase) in cases {
        place
            .txgen(&format!("{line} --out run"))
            .expect(2)
            .says(phrase)
            .says_it_once();
    }
    assert_eq!(place.contents(), Vec::<String>::new());
}

#[test]
fn addresses_of_bigchaindb_need_bigchaindb() {
    let place = Place::new();
    for flag in ["--api", "--events"] {
        let ended = place.txgen(&format!("devnode --listen 127.0.0.1:0 {flag} 127.0.0.1:0"));
        ended.expect(2).says("add --app bigchaindb");
    }
    let ended = place.txgen("devnode --listen 127.0.0.1:0 --workers 5");
    ended.expect(2).says("add --app bigchaindb");
    let ended = place.txgen("devnode --app bigchaindb --set bigchaindb.validaton=serial");
    ended.expect(2).says("did you mean `validation`?");
    let ended = place.txgen("devnode --app bigchaindb --set bigchaindb.workers=300");
    assert_ne!(ended.code, Some(0));
    ended.says("bigchaindb.workers is 300");
}

/// What is wrong with a rate, a step or a duration is in `pacing`'s messages; here, that each flag takes them.
#[test]
fn loads_that_cannot_be_offered() {
    refused(&[
        ("constant --rate 0", "use a rate above zero"),
        ("constant --rate=-5", "is negative"),
        ("constant --rate -5", "is negative"),
        ("ramp --start -1", "is negative"),
        ("ramp --to -1", "is negative"),
        ("square --rate -5/s", "is negative"),
        ("constant --rate fast", "1000/s, 0.5/s, 30k/m"),
        ("constant --rate 10000001", "at most 10000000/s"),
        ("square --rate 5 --low 6", "needs low < high"),
        (
            "ramp --start 100 --step=-60 --every 1s",
            "makes the rate negative",
        ),
        (
            "ramp --start 100 --step -60 --every 1s",
            "makes the rate negative",
        ),
        ("ramp --start 500 --step 100 --to 100", "never leads from"),
        ("constant --rate 5 --duration 0s", "is zero"),
        ("ramp --every 0s", "is zero"),
        ("square --rate 5 --on 0s", "is zero"),
        ("constant --rate 5 --duration 3", "30s, 1.5s, 100ms"),
        (
            "square --rate 5 --on 8000h --off 8000h --cycles 4000000000",
            "at most",
        ),
    ]);
}

#[test]
fn settings_out_of_their_ranges() {
    refused(&[
        (
            "constant --rate 5 --duration 10s --warmup 10s",
            "--warmup 10s leaves nothing of a load of 10s to be measured",
        ),
        (
            "constant --rate 5 --no-follow --threshold commit.p99<5s",
            "--no-follow cannot be used with 'commit.p99<5s', which is known from blocks only",
        ),
        (
            "constant --rate 5 --no-follow --abort-on fate.pending<5",
            "--no-follow cannot be used with 'fate.pending<5'",
        ),
        ("constant --rate 5 --size 15", "use --size 16 or more"),
        ("constant --rate 5 --size 800000", "use a smaller --size"),
        (
            "constant --rate 5 --size 800000",
            "bodies of 1,000,000 bytes",
        ),
        ("constant --rate 5 -c 2 --threads 3", "only 2 connections"),
        ("constant --rate 5 -c 0", "--connections"),
        ("constant --rate 5 -c 50001", "at most 50000"),
        ("constant --rate 5 --max-in-flight 0", "--max-in-flight"),
        (
            "constant --rate 5 --max-in-flight 10000001",
            "at most 10000000",
        ),
        (
            "constant --rate 5 --report-interval 1ms",
            "--report-interval",
        ),
        ("constant --rate 5 --workload bitcoins", "or file:PATH"),
        ("constant --rate 5 --workload file:", "or file:PATH"),
        (
            "constant --rate 5 --arrivals burst:0",
            "even, poisson or burst:N",
        ),
        (
            "constant --rate 5 --arrivals uniform",
            "even, poisson or burst:N",
        ),
        (
            "constant --rate 5 --catch-up maybe",
            "full, bounded:DURATION or none",
        ),
        ("constant --rate 5 --broadcast-tx-method telepathy", "async"),
        (
            "constant --rate 5 --transport pigeon",
            "possible values: http, ws",
        ),
        (
            "constant --rate 5 --ca-file gone.pem --endpoints https://127.0.0.1:9",
            "--ca-file gone.pem",
        ),
        ("flood --count 0", "at least one transaction"),
        ("flood --count 5 --concurrency 0", "--concurrency"),
    ]);
}

#[test]
fn thresholds_that_mean_nothing() {
    refused(&[
        ("constant --rate 5 --threshold commit.p99", "no comparison"),
        (
            "constant --rate 5 --threshold weather.rain<1",
            "use commit.p99, accept.p95",
        ),
        (
            "constant --rate 5 --threshold fate.eror==0",
            "did you mean fate.errors",
        ),
        (
            "constant --rate 5 --abort-on commit.p99<soon",
            "cannot read the limit",
        ),
    ]);
}

#[test]
fn endpoints_that_are_no_addresses() {
    refused(&[
        (
            "constant --rate 5 --endpoints localhost:26657",
            "write http://localhost:26657",
        ),
        (
            "constant --rate 5 --endpoints ftp://localhost",
            "use http, https, ws, wss or bitcoin-p2p",
        ),
        (
            "constant --rate 5 --endpoints http://localhost:99999",
            "1 to 65535",
        ),
        ("constant --rate 5 --endpoints http://", "host"),
    ]);
}

#[test]
fn the_same_endpoint_twice() {
    refused(&[
        (
            "constant --rate 5 --endpoints http://127.0.0.1:9,http://127.0.0.1:9",
            "is given twice",
        ),
        (
            "constant --rate 5 --endpoints http://127.0.0.1:9/,ws://127.0.0.1:9/websocket",
            "use --connections for more connections",
        ),
        (
            "constant --rate 5 --endpoints http://127.0.0.1:9 --endpoints http://127.0.0.1:9",
            "is given twice",
        ),
    ]);
    let node = Node::quick();
    let port = node.rpc_address().port();
    refused(&[(
        &format!("constant --rate 5 --endpoints http://127.0.0.1:{port},http://localhost:{port}"),
        "are the same address",
    )]);
}

#[test]
fn an_endpoint_that_is_not_there() {
    let url = format!("http://127.0.0.1:{}", free_port());
    refused(&[(&format!("constant --rate 5 --endpoints {url}"), &url)]);
    refused(&[(
        "constant --rate 5 --endpoints http://no-such-host.invalid",
        "check the host name",
    )]);
}

#[test]
fn an_endpoint_that_is_not_a_nodes_rpc() {
    let website =
        ScriptedServer::start(
            |connection| {
                while connection.answer_request(200, "<html>It works!</html>") {}
            },
        );
    let missing = ScriptedServer::start(
        |connection| {
            while connection.answer_request(404, "not found") {}
        },
    );
    let noise = ScriptedServer::start(|connection| {
        if connection.read_request().is_some() {
            connection.send("SSH-2.0-OpenSSH_9.9\r\n");
        }
    });
    let other_json =
        ScriptedServer::start(
            |connection| {
                while connection.answer_request(200, r#"{"weather":"fine"}"#) {}
            },
        );
    for server in [&website, &missing, &noise, &other_json] {
        let url = server.http_url();
        let line = format!("constant --rate 5 --endpoints {url}");
        refused(&[(&line, &url), (&line, "host, port and path")]);
    }
}

#[test]
fn an_endpoint_that_says_nothing() {
    let server = ScriptedServer::start(|connection| connection.freeze());
    refused(&[(
        &format!("constant --rate 5 --endpoints {}", server.http_url()),
        "did not answer in time",
    )]);
}

#[test]
fn a_node_that_is_catching_up() {
    let identity = FakeChain {
        catching_up: true,
        ..FakeChain::without_blocks()
    };
    let node = FakeNode::start(identity, |_| Behaviour::Accept);
    let url = node.url();
    let transfers = "--workload cosmos-send --seed 7 --prefix cosmos --amount 1stake --accounts 3";
    for workload in ["", transfers] {
        let line = format!("constant --rate 5 --no-follow {workload} --endpoints {url}");
        refused(&[(
            &line,
            "is catching up (height 5); wait until its status says catching_up false",
        )]);
    }
    assert_eq!(node.broadcasts(), 0);
}

#[test]
fn endpoints_of_two_chains() {
    let chain = |chain_id: &str| {
        Node::start(devnode::Config {
            chain_id: chain_id.into(),
            ..quick()
        })
    };
    let (harbour, quay) = (chain("harbour"), chain("quay"));
    refused(&[(
        &format!(
            "constant --rate 5 --endpoints {},{}",
            harbour.url(),
            quay.ws_url()
        ),
        r#"is on chain "quay", but"#,
    )]);
    assert_eq!(harbour.snapshot().broadcasts, 0);
}

#[test]
fn transactions_above_the_chains_block_size() {
    let node = Node::start(devnode::Config {
        max_block_bytes: 2048,
        ..quick()
    });
    let line = format!("flood --count 5 --endpoints {}", node.url());
    refused(&[
        (&format!("{line} --size 2048"), "block.max_bytes"),
        (&format!("{line} --size 1300"), "use a smaller --size"),
    ]);
    // Below it, it is sent: the limit is not guessed too low either.
    let place = Place::new();
    let ended = place.txgen(&format!("{line} --size 1100 --out run"));
    ended.expect(0);
    place.run("run").summary().assert_all_committed(5);
}

#[test]
fn an_output_that_is_not_an_empty_folder() {
    let place = Place::new();
    place.write("file", "in the way");
    fs::create_dir(place.path().join("used")).unwrap();
    place.write("used/notes.txt", "keep me");
    for (out, phrase) in [
        ("file", "is not a folder; choose another --out"),
        ("file/below", "choose an --out that is writable"),
        ("used", "is not empty; choose another --out or remove it"),
    ] {
        let ended = place.txgen(&format!("constant --rate 5 --duration 1s --out {out}"));
        ended.expect(2).says(phrase).says_it_once().says(out);
    }
    let kept = fs::read_to_string(place.path().join("used/notes.txt")).unwrap();
    assert_eq!(kept, "keep me");
    assert_eq!(place.contents(), ["file", "used"]);
}

#[test]
fn scenarios_that_cannot_be_played() {
    let constant = "[[phases]]\nprofile = \"constant\"\nrate = 5\nduration = \"1s\"\n";
    let cases = [
        (
            "[[phases]]\nprofile = \"constant\"\nrate = 5\nduratoin = \"1s\"\n".to_owned(),
            vec!["unknown field `duratoin`", "did you mean `duration`?"],
        ),
        (
            format!("{constant}[settings]\nthreshold = [\"commit.p99\"]\n"),
            vec!["no comparison"],
        ),
        (
            "[[phases]]\nprofile = \"constant\"\nrate = -5\nduration = \"1s\"\n".to_owned(),
            vec!["is negative"],
        ),
        (
            "[[phases]]\nprofile = \"constant\"\nrate = 0\nduration = \"1s\"\n".to_owned(),
            vec!["phase 1", "use a rate above zero"],
        ),
        (
            format!("{constant}[[phases]]\nprofile = \"sawtooth\"\n"),
            vec!["sawtooth", "square"],
        ),
        ("phases = 3\n".to_owned(), vec!["line 1"]),
        ("this is no TOML".to_owned(), vec!["line 1"]),
        (
            format!("{constant}[builtin]\nchain_id = \"\"\n"),
            vec!["chain_id has 0 characters"],
        ),
    ];
    let place = Place::new();
    for (text, phrases) in cases {
        place.write("scenario.toml", text);
        let ended = place.txgen("run scenario.toml --out run");
        ended.expect(2).says_it_once();
        for phrase in phrases {
            ended.says(phrase);
        }
    }
    place
        .txgen("run nowhere.toml --out run")
        .expect(2)
        .says("cannot read nowhere.toml");
    assert_eq!(place.contents(), ["scenario.toml"]);
}

#[test]
fn transaction_files_that_cannot_be_sent() {
    let place = Place::new();
    for (text, format, phrase) in [
        ("aD12\nnot base64!\n", "base64", "line 2: not base64"),
        ("k=v\n", "cobol", "use auto, base64, hex or raw"),
    ] {
        place.write("txs", text);
        let line =
            format!("constant --rate 5 --workload file:txs --file-format {format} --out run");
        place.txgen(&line).expect(2).says(phrase).says_it_once();
    }
    place
        .txgen("constant --rate 5 --workload file:gone --out run")
        .expect(2)
        .says("cannot read the transaction file gone");
    place.write("txs", "k=v\n");
    place
        .txgen("constant --rate 5 --workload file:txs --size 50 --out run")
        .expect(2)
        .says("--size has no meaning for a file");
    place.write("txs", "k".repeat(800_000));
    place
        .txgen("constant --rate 5 --workload file:txs --file-format raw --out run")
        .expect(2)
        .says("use a smaller");
    assert_eq!(place.contents(), ["txs"]);
}
