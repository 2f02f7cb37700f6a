//! Loads on Cosmos SDK chains: on the built-in bank, and (`simd`) on a real chain.

mod simd;
mod trials;

use crate::support::{Behaviour, FakeChain, FakeNode, Node, Place, Running, quick, wait_until};
use chain_cosmos::fixture::{BankAccount, BankConfig, BankKind};
use devnode::{Blueprint, Config, MempoolConfig};
use rustix::process::Signal;

/// Accounts of seed 7 in the genesis of a built-in node where gas is free.
fn bank(accounts: u32, mempool: MempoolConfig) -> Node {
    bank_of(accounts, |config| config.mempool = mempool)
}

/// The same where gas has a price.
fn bank_at(min_gas_price: &str, accounts: u32, mempool: MempoolConfig) -> Node {
    bank_of(accounts, |config| {
        config.mempool = mempool;
        let price = |bank: &mut BankConfig| bank.min_gas_price = min_gas_price.to_owned();
        config.sections.change(price);
    })
}

/// The same with other settings.
fn bank_of(accounts: u32, change: impl FnOnce(&mut Config)) -> Node {
    let (keys, prefix) = (
        cosmos::Keys::from_seed(7),
        cosmos::Prefix::new("cosmos").unwrap(),
    );
    let accounts = (0..accounts).map(|number| BankAccount {
        address: prefix.write(keys.key(number).unwrap().address()),
        amount: 1_000_000,
    });
    let mut config = quick().with(BankConfig {
        accounts: accounts.collect(),
        ..BankConfig::default()
    });
    change(&mut config);
    let kind = &BankKind;
    Node::start(Blueprint { kind, config })
}

#[test]
fn every_send_is_committed_in_the_order_of_its_account() {
    let node = bank(10, MempoolConfig::default());
    let place = Place::new();
    for (out, more) in [
        ("http", ""),
        ("ws", "--transport ws --connections 3 --threads 2"),
        (
            "several",
            "--messages 3 --recipients cold --signing-threads 3",
        ),
        (
            "multi",
            "--workload cosmos-multisend --messages 4 --gas 500000",
        ),
    ] {
        let kind = if out == "multi" {
            ""
        } else {
            "--workload cosmos-send"
        };
        let ended = place.txgen(&format!(
            "constant --rate 200 --duration 1s {kind} {more} --accounts 10 --seed 7 --endpoints {} --out {out}",
            node.url()
        ));
        let summary = place.run(out).summary();
        ended.ends_as_judged(0, &summary);
        summary.assert_all_committed(200);
    }
}

#[test]
fn the_least_price_of_gas_is_asked_and_paid() {
    let node = bank_at("0.01stake", 10, MempoolConfig::default());
    let place = Place::new();
    let ended = place.txgen(&format!(
        "constant --rate 100 --duration 1s --workload cosmos-send --accounts 10 --seed 7 --endpoints {} --out run",
        node.url()
    ));
    place.run("run").summary().assert_all_committed(100);
    ended.says("stake");
}

#[test]
fn without_endpoints_the_built_in_node_has_the_accounts() {
    let place = Place::new();
    let ended = place
        .txgen("constant --rate 100 --duration 1s --workload cosmos-send --accounts 20 --out run");
    let summary = place.run("run").summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_all_committed(100);
    let manifest = place.run("run").manifest().to_string();
    assert!(manifest.contains("recipients warm"), "{manifest}");
}

/// Blocks with room for ten transfers of 200,000: at be368fd the built-in bank's results had no gas, and nothing here
/// could be limited by it.
#[test]
fn blocks_that_are_full_of_gas_are_what_limited_a_run_and_others_are_not() {
    let place = Place::new();
    let run = |max_block_gas: Option<u64>, out: &str| {
        let node = bank_of(20, |config| config.max_block_gas = max_block_gas);
        let ended = place.txgen(&format!(
            "constant --rate 200 --duration 3s --workload cosmos-send --accounts 20 --seed 7 --gas 200000 \
             --endpoints {} --out {out}",
            node.url()
        ));
        let blocks = place.run(out).table("blocks.csv");
        let wanted = blocks.column("gas_wanted");
        let most = wanted.filter_map(|gas| gas.parse::<u64>().ok()).max();
        (ended, most)
    };
    let (limited, most) = run(Some(2_000_000), "limited");
    assert_eq!(most, Some(2_000_000), "the fullest block is full");
    limited.prints("blocks had no gas for another transaction (block.max_gas 2,000,000)");
    let (free, most) = run(None, "free");
    assert!(most > Some(0), "gas is read");
    assert!(!free.out.contains("no gas for another"), "{free}");
}

/// A load of four accounts that lasts longer than any test.
fn long_load(place: &Place, node: &Node, policy: &str) -> Running {
    place.start(&format!(
        "constant --rate 100 --duration 3m --workload cosmos-send --accounts 4 --seed 7 --transport ws --gas 200000 \
         --on-gap {policy} --endpoints {} --out {policy}",
        node.url()
    ))
}

#[test]
fn a_full_mempool_breaks_sequences_and_the_accounts_go_on() {
    let place = Place::new();
    let node = bank(4, MempoolConfig::default());
    let running = long_load(&place, &node, "resync");
    wait_until("blocks", || node.snapshot().committed > 20);
    node.faults().set_mempool_full(true);
    let refused = node.snapshot().refused;
    wait_until("refusals", || node.snapshot().refused > refused + 20);
    node.faults().set_mempool_full(false);
    let committed = node.snapshot().committed;
    wait_until("that the accounts go on", || {
        node.snapshot().committed > committed + 20
    });
    running.signal(Signal::INT);
    let ended = running.wait();
    let gaps = place.run("resync").summary();
    let gaps = gaps.at("fate.sequence_gaps");
    assert!(gaps["JSON-RPC error -32603"].as_u64() > Some(0), "{gaps}");
    ended.expect(130).prints("sequence broken");
}

#[test]
fn an_abandoned_account_is_not_sent_again() {
    let place = Place::new();
    let node = bank(4, MempoolConfig::default());
    node.faults().set_mempool_full(true);
    place.txgen(&format!(
        "constant --rate 100 --duration 2s --workload cosmos-send --accounts 4 --seed 7 --transport ws --gas 200000 \
         --on-gap abandon --max-in-flight 4 --at-max-in-flight wait --endpoints {} --out run",
        node.url()
    ));
    let summary = place.run("run").summary();
    // No account has more than four under way when its first one is refused.
    let (sent, unsent) = (
        summary.count("fate.sent"),
        summary.count("offered.unsent_by_reason.sequence_broken"),
    );
    assert!((4..=16).contains(&sent), "{sent}");
    assert_eq!(sent + unsent, 200);
}

#[test]
fn a_broken_sequence_stops_the_run_where_that_is_wanted() {
    let place = Place::new();
    let node = bank(4, MempoolConfig::default());
    node.faults().set_mempool_full(true);
    let ended = long_load(&place, &node, "stop").wait();
    ended.says("stopped: the sequence of an account is broken (JSON-RPC error -32603)");
    let summary = place.run("stop").summary();
    assert!(summary.count("fate.sent") < 18_000);
}

#[test]
fn what_a_chain_cannot_take_is_said_before_anything_is_sent() {
    let node = bank(4, MempoolConfig::default());
    let place = Place::new();
    for (more, phrase) in [
        ("--accounts 6", "account 4, cosmos1"),
        ("--accounts 4 --chain-id other-1", "not on \"other-1\""),
        ("--accounts 4 --amount 100000stake", "cannot pay for"),
        ("--accounts 4 --amount 1nope", "cannot pay for"),
        ("--accounts 4 --prefix osmo", "osmo1"),
        ("--accounts 4 --gas 40000", "--gas 40000 is below the"),
        ("--accounts 4 --unordered 5m", "leave --unordered out"),
    ] {
        place
            .txgen(&format!(
                "constant --rate 100 --duration 1s --workload cosmos-send --seed 7 {more} --endpoints {} --out run",
                node.url()
            ))
            .expect(2)
            .says(phrase);
    }
    assert_eq!(node.snapshot().committed, 0);
    let dear = bank_at("0.01stake", 4, MempoolConfig::default());
    place
        .txgen(&format!(
            "constant --rate 100 --duration 1s --workload cosmos-send --seed 7 --accounts 4 --gas 100000 --fee 999stake \
             --endpoints {} --out run",
            dear.url()
        ))
        .expect(2)
        .says("the fee is below 1000stake");
    let kvstore = Node::start(quick());
    place
        .txgen(&format!(
            "constant --rate 10 --duration 1s --workload cosmos-send --seed 7 --endpoints {} --out run",
            kvstore.url()
        ))
        .expect(2)
        .says("--prefix");
}

#[test]
fn flags_that_make_no_load_are_refused() {
    let place = Place::new();
    let url = "--endpoints http://127.0.0.1:1";
    for (line, phrase) in [
        (
            format!("--workload cosmos-send {url}"),
            "needs --mnemonic or --seed",
        ),
        (
            format!("--workload cosmos-send --seed 1 --accounts 5 --shard 1/2 {url}"),
            "a multiple of 2",
        ),
        (
            "--workload cosmos-send --mnemonic abandon".to_owned(),
            "12 to 24",
        ),
        ("--workload cosmos-send --gas none".to_owned(), "or auto"),
        ("--workload cosmos-send --amount 1".to_owned(), "200stake"),
        ("--workload cosmos-send --size 5".to_owned(), "--messages"),
        ("--accounts 5".to_owned(), "needs --workload cosmos-send"),
        (
            "--workload cosmos-send --target bigchaindb".to_owned(),
            "needs --target cometbft",
        ),
    ] {
        place
            .txgen(&format!(
                "constant --rate 10 --duration 1s {line} --out run"
            ))
            .expect(2)
            .says(phrase);
    }
}

/// Each point and each run of a campaign has transactions of its own; at d835b97 also accounts of its own, which
/// nobody had funded.
#[test]
fn points_of_a_search_and_runs_of_a_campaign_have_the_same_accounts() {
    let node = bank(10, MempoolConfig::default());
    let place = Place::new();
    let settings = format!(
        "--workload cosmos-send --accounts 10 --seed 7 --endpoints {}",
        node.url()
    );
    let search = place.txgen(&format!(
        "search --from 20/s --max 40/s --duration 1s --time-limit 4s {settings} --out search"
    ));
    assert!(!search.to_string().contains("unknown to"), "{search}");
    search.prints("knee");
    place.write(
        "twice.toml",
        "[[phases]]\nprofile = \"constant\"\nrate = \"50/s\"\nduration = \"1s\"\n[campaign]\nrepeats = 2\n",
    );
    let twice = place.txgen(&format!("run twice.toml {settings} --out twice --no-tui"));
    assert!(!twice.to_string().contains("unknown to"), "{twice}");
    let campaign = place.run("twice").json("campaign.json");
    let seeds: Vec<_> = campaign["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["seed"])
        .collect();
    assert_eq!(seeds, [7, 8], "{twice}");
}

#[test]
fn messages_of_a_description_are_sent_in_place_of_transfers() {
    let node = bank(10, MempoolConfig::default());
    let place = Place::new();
    place.write(
        "send.json",
        r#"{"@type": "/cosmos.bank.v1beta1.MsgSend", "from_address": "{from}", "toAddress": "{to}",
            "amount": [{"denom": "stake", "amount": "2"}]}"#,
    );
    let run = |file: &str, out: &str| {
        place.txgen(&format!(
            "constant --rate 100 --duration 1s --workload cosmos-send --message {file} --messages 2 --accounts 10 \
             --seed 7 --endpoints {} --out {out}",
            node.url()
        ))
    };
    let ended = run("send.json", "sent");
    let summary = place.run("sent").summary();
    ended.ends_as_judged(0, &summary);
    summary.assert_all_committed(100);
    ended.says("/cosmos.bank.v1beta1.MsgSend, 2 in a transaction");
    for (file, json, phrase) in [
        (
            "slip.json",
            r#"{"@type": "/cosmos.bank.v1beta1.MsgSend", "form_address": "{from}"}"#,
            "'form_address' (the fields of cosmos.bank.v1beta1.MsgSend are from_address, to_address, amount)",
        ),
        (
            "own.json",
            r#"{"@type": "/own.v1.MsgDo", "who": "{from}"}"#,
            "/own.v1.MsgDo, whose fields are not known here: give their descriptors with --proto-descriptors",
        ),
    ] {
        place.write(file, json);
        run(file, "refused").expect(2).says(phrase);
    }
    place
        .txgen("constant --rate 1 --duration 1s --workload cosmos-send --message own.json --proto-descriptors own.json --out x")
        .expect(2)
        .says("--proto-descriptors cannot use own.json: it is no FileDescriptorSet");
}

/// Cosmos SDK 0.53 says "not found", as of an account that there is not: at 058ea7f txgen wanted to fund it. Of a chain
/// that had no block yet it said at b2c1579 that it was none of the Cosmos SDK.
#[test]
fn a_node_without_a_state_to_answer_from_is_named_and_no_account_is() {
    let pruned = "failed to load state at height 912; version does not exist (latest height: 912): not found";
    let begins = "SimApp is not ready; please wait for first block: invalid height";
    for (log, phrase) in [
        (
            pruned,
            "has no state of the chain to answer from (failed to load state at height 912;",
        ),
        (
            begins,
            "has executed no block yet (SimApp is not ready; please wait for first block",
        ),
    ] {
        let identity = FakeChain {
            no_query: log,
            ..FakeChain::without_blocks()
        };
        let node = FakeNode::start(identity, |_| Behaviour::Accept);
        let place = Place::new();
        let accounts = "--seed 7 --accounts 3 --endpoints";
        for line in [
            "constant --rate 10 --duration 1s --out run --workload cosmos-send",
            "constant --rate 10 --duration 1s --out run --workload cosmos-send --prefix cosmos --amount 1stake",
        ] {
            let ended = place.txgen(&format!("{line} {accounts} {}", node.url()));
            ended.expect(2).says(phrase);
            assert!(!ended.to_string().contains("unknown to"), "{ended}");
        }
        let swept = format!("cosmos sweep --to cosmos1 {accounts} {}", node.url());
        place.txgen(&swept).expect(1).says(phrase);
        assert!(!place.path().join("run").exists(), "nothing was recorded");
        assert_eq!(node.broadcasts(), 0);
    }
}

/// At b2c1579 `cosmos prepare` asked a node that was catching up for the sequences of long ago, and said of transfers
/// that failed in their block that they had paid.
#[test]
fn accounts_are_not_said_to_be_funded_where_nobody_was_paid() {
    let place = Place::new();
    let wallet = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
    let prepare = |amount: &str, url: &str| {
        let line =
            format!("cosmos prepare --seed 9 --accounts 3 --amount {amount} --endpoints {url}");
        place.txgen_with(&[("TXGEN_FUNDER", wallet)], &line)
    };
    let behind = FakeChain {
        catching_up: true,
        ..FakeChain::without_blocks()
    };
    let behind = FakeNode::start(behind, |_| Behaviour::Accept);
    prepare("5stake", &behind.url())
        .expect(1)
        .says("is catching up (height 5)");
    let keys = cosmos::Keys::from_mnemonic(wallet, "m/44'/118'/0'/0").unwrap();
    let prefix = cosmos::Prefix::new("cosmos").unwrap();
    let address = prefix.write(keys.key(0).unwrap().address());
    let node = bank_of(0, |config| {
        let amount = 100;
        let account = BankAccount { address, amount };
        let give = |bank: &mut BankConfig| bank.accounts = vec![account];
        config.sections.change(give);
    });
    let poor = "has 100stake of the 150stake that the next transfer takes; give it more, or correct --funder";
    prepare("50stake", &node.url()).expect(1).says(poor);
    prepare("0stake", &node.url())
        .expect(1)
        .says("it failed there: nobody was paid by it");
    prepare("30stake", &node.url())
        .expect(0)
        .prints("3 accounts have 30stake more each");
    let swept = format!(
        "cosmos sweep --seed 9 --accounts 3 --to {} --endpoints {}",
        prefix.write(keys.key(0).unwrap().address()),
        node.url()
    );
    place
        .txgen(&swept)
        .expect(0)
        .prints("3 of 3 accounts sent 90stake");
}

/// Two generators of one seed use the same accounts: the second one with a sequence is refused (the second
/// generator perhaps as early as its first transaction is simulated), names the account and stops.
#[test]
fn an_account_that_somebody_else_uses_during_the_run_is_named_with_its_address() {
    let node = bank(2, MempoolConfig::default());
    let place = Place::new();
    let line = |duration: &str, out: &str| {
        format!(
            "constant --rate 50 --duration {duration} --workload cosmos-send --accounts 2 --seed 7 --on-gap stop \
             --endpoints {} --no-tui --out {out}",
            node.url()
        )
    };
    let first = place.start(&line("20s", "first"));
    wait_until("the first one's transactions", || {
        node.snapshot().committed > 0
    });
    let second = place.txgen(&line("1s", "second")).to_string();
    let is_told = |text: &str| {
        let account = text.contains("somebody else used account 0, cosmos1")
            || text.contains("somebody else used account 1, cosmos1");
        account && text.contains("give every generator accounts of its own")
    };
    if !is_told(&second) {
        // All of the second one's were taken, so one of the first one's is refused.
        let first = first.wait().to_string();
        assert!(is_told(&first), "{first}\n{second}");
    }
}
