//! The two examples at the head of each command's help. A test parses all of them, and holds
//! `docs/commands.md` to them.

use ops::examples;

pub(super) const TXGEN: &str = examples![
    "txgen ramp --start 500/s --step 1000/s --every 5s --to 4500/s"
    "txgen constant --rate 200/s --duration 30s --endpoints http://127.0.0.1:26657"
];
pub(super) const CONSTANT: &str = examples![
    "txgen constant --rate 1000/s --duration 60s"
    "txgen constant --rate 200/s --endpoints http://127.0.0.1:26657 --threshold 'commit.p95<5s'"
];
pub(super) const RAMP: &str = examples![
    "txgen ramp --start 100/s --step 200/s --every 20s --endpoints http://127.0.0.1:26657"
    "txgen ramp --start 500/s --step 1000/s --every 5s --to 4500/s"
];
pub(super) const SQUARE: &str = examples![
    "txgen square --rate 1000/s --on 100s --off 5s --cycles 10"
    "txgen square --rate 2000/s --low 100/s --on 10s --off 10s --cycles 6 --reconnect"
];
pub(super) const FLOOD: &str = examples![
    "txgen flood --concurrency 100 --count 1000000"
    "txgen flood --concurrency 256 --count 200000 --transport ws --endpoints ws://127.0.0.1:26657"
];
pub(super) const RUN: &str = examples![
    "txgen run phases"
    "txgen run config/sentinel-ab.toml --scale 0.01 --node builtin --only direct"
];
pub(super) const DOCTOR: &str = examples![
    "txgen doctor"
    "txgen doctor http://127.0.0.1:26657"
];
pub(super) const INIT: &str = examples![
    "txgen init rate --endpoint http://127.0.0.1:26657"
    "txgen init hold --workload cosmos-send --out load.toml"
];
pub(super) const SEARCH: &str = examples![
    "txgen search --endpoints http://127.0.0.1:26657"
    "txgen search --slo 'commit.p95<5s' --precision 10% --endpoints http://127.0.0.1:26657"
    "txgen search --rates 500..4000:500"
];
pub(super) const REPORT: &str = examples![
    "txgen report runs/20261122T101515Z-ramp"
    "txgen report runs/20261122T101515Z-ramp --format md --out -"
];
pub(super) const TM_BENCH: &str = examples![
    "txgen tm-bench -T 10 -r 1000 -c 1 127.0.0.1:26657"
    "txgen tm-bench -T 60 -r 500 -c 4 --broadcast-tx-method sync 127.0.0.1:26657"
];
pub(super) const BIGCHAINDB_BENCHMARK: &str = examples![
    "txgen bigchaindb-benchmark --processes 32 --peer http://127.0.0.1:9984 send -r 16000"
    "txgen bigchaindb-benchmark --csv e3.csv --processes 32 --dry-run send -r 1000000 --mode async"
];
pub(super) const COMPARE: &str = examples![
    "txgen compare runs/before runs/after"
    "txgen compare runs/before runs/after --fail-on-regression 10% --format md"
];
pub(super) const AB: &str = examples![
    "txgen ab http://10.0.0.5:26657 http://10.0.0.6:26657 --rate 500/s --duration 30s"
    "txgen ab --a './old start' --b './new start' --endpoints http://127.0.0.1:26657 --rate 500/s"
    "txgen ab --a '--transport http' --b '--transport ws' --rate 500/s --budget 10m"
];
pub(super) const ANALYSE: &str = examples![
    "txgen analyse runs/20261122T101515Z-ramp"
    "txgen analyse runs/gigablock-ramp/serial"
];
pub(super) const RECORD: &str = examples![
    "txgen record --target bitcoin --observe a=http://me:it@127.0.0.1:18334,pid=4242 --duration 60s"
    "txgen record --from http://10.0.0.5:26657 --discover 4 --out runs/idle"
];
pub(super) const MERGE: &str = examples![
    "txgen merge runs/one runs/two --out runs/both"
    "txgen merge runs/shard-1 runs/shard-2 runs/shard-3 runs/shard-4 --out runs/whole"
];
#[cfg(feature = "fleet")]
pub(super) const WORKER: &str = examples![
    "txgen worker --nats nats://10.0.0.5:4222"
    "txgen worker --nats tls://token@bus.example:4222 --name rack-7 --runs /var/lib/txgen/runs"
];
#[cfg(feature = "fleet")]
pub(super) const FLEET: &str = examples![
    "txgen fleet --local 3"
    "txgen fleet --fetch 20261122T101515Z-4242 --nats nats://10.0.0.5:4222 --out runs/fetched"
];
pub(super) const DEVNODE: &str = examples![
    "txgen devnode"
    "txgen devnode --listen 127.0.0.1:26657 --set block_interval=500ms --set mempool.size=1000"
];
pub(super) const COMPLETIONS: &str = examples![
    "txgen completions bash > ~/.local/share/bash-completion/completions/txgen"
    "txgen completions zsh > ~/.zfunc/_txgen"
];
pub(super) const MAN: &str = examples![
    "txgen man | man -l -"
    "txgen man > txgen.1"
];
