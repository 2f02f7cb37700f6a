//! The real node: what the run says is committed is what the chain has, height by height.

use std::collections::BTreeMap;
use std::time::Duration;

use chain_cometbft::Client;
use testkit::{CometBft, CometOptions};

use crate::support::{Place, RunFolder};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The run's transactions by height, as the run folder has it.
fn by_height_in_folder(run: &RunFolder) -> BTreeMap<u64, Vec<String>> {
    let txs = run.table("txs.csv");
    let mut heights: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (id, height) in txs.column("txid").zip(txs.column("height")) {
        if let Ok(height) = height.parse() {
            heights.entry(height).or_default().push(id.into());
        }
    }
    heights.values_mut().for_each(|ids| ids.sort());
    heights
}

/// The same, asked of the chain block by block.
fn by_height_on_chain(node: &CometBft, own: &[String]) -> BTreeMap<u64, Vec<String>> {
    let client = Client::new(&node.rpc_url().parse().unwrap(), Duration::from_secs(10)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut heights = BTreeMap::new();
        for height in 1..=client.status().await.unwrap().latest_block_height {
            let block = client.block(height).await.unwrap();
            let mut ids: Vec<String> = block.hashes.iter().map(|hash| hex(hash)).collect();
            ids.retain(|id| own.contains(id));
            if !ids.is_empty() {
                ids.sort();
                heights.insert(height, ids);
            }
        }
        heights
    })
}

#[test]
#[ignore = "needs cometbft"]
fn every_method_over_every_transport_agrees_with_the_chain_height_by_height() {
    let node = CometBft::start(CometOptions::default()).unwrap();
    let mut seed = 0;
    for url in [node.rpc_url(), node.ws_url()] {
        for (method, rate, connections) in [("async", 300, 4), ("sync", 300, 4), ("commit", 4, 12)]
        {
            seed += 1;
            let place = Place::new();
            let ended = place.txgen(&format!(
                "constant --rate {rate} --duration 3s -c {connections} --seed {seed} \
                 --broadcast-tx-method {method} --out run --endpoints {url}"
            ));
            let run = place.run("run");
            let summary = run.summary();
            ended.ends_as_judged(0, &summary);
            summary.assert_all_committed(rate * 3);
            let own: Vec<String> = run
                .table("txs.csv")
                .column("txid")
                .map(ToOwned::to_owned)
                .collect();
            let on_chain = by_height_on_chain(&node, &own);
            assert_eq!(by_height_in_folder(&run), on_chain, "{method} over {url}");
            let counted: usize = on_chain.values().map(Vec::len).sum();
            assert_eq!(counted as u64, summary.count("fate.committed"));
            let blocks = run.table("blocks.csv");
            for (height, own_txs) in blocks
                .numbers("height")
                .iter()
                .zip(blocks.numbers("own_txs"))
            {
                let there = on_chain.get(height).map_or(0, Vec::len);
                assert_eq!(own_txs, there as u64, "height {height}");
            }
        }
    }
}

#[test]
#[ignore = "needs cometbft"]
fn a_ramp_without_an_end_finds_where_a_small_mempool_gives_in() {
    // 200 transactions a block, a block about every 1.1 s: under 200/s.
    let node = CometBft::start(CometOptions::default().set("mempool.size", "200")).unwrap();
    let place = Place::new();
    let ended = place.txgen(&format!(
        "ramp --start 40 --step 80 --every 4s --drain-timeout 10s --out run --endpoints {}",
        node.ws_url()
    ));
    let run = place.run("run");
    let summary = run.summary();
    summary.assert_conserved();
    ended.ends_as_judged(0, &summary);
    let knee = summary.number("knee.rate_tps");
    let step = summary.count("knee.step");
    assert!((40.0..=200.0).contains(&knee), "{knee}");
    let sustained = 40.0 + 80.0 * step as f64;
    assert!(knee <= sustained && knee < summary.number("knee.below_tps"));
    ended.says(&format!(
        "the ramp ends: sustained up to step {step} ({sustained:.0}/s)"
    ));
    assert!(summary.count("fate.rejected_by_code.-32603") > 0);
    assert_eq!(summary.count("fate.pending"), 0);
    let own: Vec<String> = run
        .table("txs.csv")
        .column("txid")
        .map(ToOwned::to_owned)
        .collect();
    assert_eq!(by_height_in_folder(&run), by_height_on_chain(&node, &own));
}

#[test]
#[ignore = "needs cometbft"]
fn the_ramp_of_the_main_job_runs_on_a_real_node() {
    let node = CometBft::start(CometOptions::default()).unwrap();
    let place = Place::new();
    let ended = place.txgen(&format!(
        "ramp --start 1 --step 200 --every 2s --to 801 --out run --endpoints {}",
        node.rpc_url()
    ));
    let summary = place.run("run").summary();
    ended.ends_as_judged(0, &summary);
    // 2 · (1 + 201 + 401 + 601 + 801)
    summary.assert_all_committed(4_010);
}
