//! The value of everything nobody has set. `docs/sentinel.md` says why each is what it is.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use control::PaceSettings;
use fairq::Order;
use pacing::Rate;
use rpc::Endpoint;

use super::{
    Admin, AsyncAck, Buffer, Fair, Limits, Listen, Log, LogLevel, Pace, Reads, Shutdown, Upstream,
    Ws,
};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn per_second(rate: u64) -> Rate {
    Rate::per_second(rate).expect("the defaults are below the highest rate")
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 26680)),
            threads: 1,
        }
    }
}

impl Default for Upstream {
    fn default() -> Self {
        let node: Endpoint = "http://127.0.0.1:26657"
            .parse()
            .expect("the default address is an address");
        Self {
            urls: vec![node],
            connections: 1,
            health_interval: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            retain_bytes: 32 * MIB,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_client: 1_000,
            body_bytes: 1_000_000,
            header_bytes: 32 * KIB,
            headers: 100,
            uri_bytes: 16 * KIB,
            batch: 10,
            depth: 64,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(10),
            refusal_rest: Duration::from_millis(250),
        }
    }
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            rate_per_client: per_second(200),
            burst_per_client: Duration::from_secs(1),
            concurrency_per_client: 32,
            concurrency: 256,
            allow_methods: Vec::new(),
            refuse_methods: vec!["unsafe_*".to_owned()],
            window_bytes: 256 * KIB,
        }
    }
}

impl Default for Fair {
    fn default() -> Self {
        Self {
            max_req: per_second(2_000),
            queue_per_client: 1_024,
            clients_max: 100_000,
            queue_timeout: Duration::from_secs(30),
            order: Order::Connection,
            weights: Vec::new(),
            async_ack: AsyncAck::Buffered,
            commit_timeout: Duration::from_secs(10),
            commit_waiters: 20_000,
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self { bytes: 256 * MIB }
    }
}

impl Default for Pace {
    fn default() -> Self {
        let PaceSettings {
            mode,
            min_req,
            burst,
            mempool_size,
            mempool_fill,
        } = PaceSettings::default();
        Self {
            mode,
            min_req,
            inflight_per_connection: 256,
            inflight: 512,
            burst,
            mempool_size,
            mempool_fill,
            mempool_interval: Duration::from_millis(500),
        }
    }
}

impl Default for Ws {
    fn default() -> Self {
        Self {
            ping_interval: Duration::from_secs(27),
            read_timeout: Duration::from_secs(30),
            pings_per_second: 10,
            out_bytes: MIB,
            origins: Vec::new(),
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            addr: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 26681))),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            drain: Duration::from_secs(10),
        }
    }
}
