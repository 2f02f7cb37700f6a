//! What no key sets. These are constants; they are fields so that a test can vary them.

use std::time::Duration;

use pacing::Rate;

base::settings! {
    /// Values that no key sets, each with its reason.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Fixed {
        /// Interval of the health checks of each node: the time of a block on a fast chain.
        pub health_interval: Duration = Duration::from_secs(1),
        /// How long a connect to a node may take: TCP repeats a lost first packet after 1 and 3 s (RFC 6298).
        pub connect_timeout: Duration = Duration::from_secs(5),
        /// New connections a second of one client; as many as it may have may come at once.
        pub connect_rate_per_client: Rate = Rate::per_second(500).expect("500/s is a rate"),
        /// Largest head of a request: four buffers of nginx's `large_client_header_buffers`.
        pub header_bytes: usize = 32 << 10,
        /// Header lines of a request: Apache's `LimitRequestFields`.
        pub headers: usize = 100,
        /// Longest request target, well above a broadcast by GET of a usual transaction.
        pub uri_bytes: usize = 16 << 10,
        /// How long a connection may be idle between requests: nginx's `keepalive_timeout`, so that a load balancer, with a
        /// minute as a rule, ends its own first.
        pub idle_timeout: Duration = Duration::from_secs(75),
        /// Depth of JSON: calls of the node's RPC need 4.
        pub depth: usize = 64,
        /// From the first byte of a head to its last: the node's `ReadHeaderTimeout` (`rpc/jsonrpc/server`).
        pub header_timeout: Duration = Duration::from_secs(10),
        /// From the end of the head to the last byte of the body: the node's `ReadTimeout`.
        pub body_timeout: Duration = Duration::from_secs(10),
        /// Within this a client has to take 64 KiB of its answer, or all of it: the node's `WriteTimeout`.
        pub write_timeout: Duration = Duration::from_secs(10),
        /// How many reads of a client may come at once, as time at its rate.
        pub read_burst: Duration = Duration::from_secs(1),
        /// Reads of one client under way: an eighth of `reads.concurrency`'s default.
        pub reads_per_client: usize = 32,
        /// Bytes of an answer held while a slow client takes them.
        pub window_bytes: usize = 256 << 10,
        /// Clients with a state of their own; while so many have writes waiting, those of others are refused.
        pub clients_max: usize = 100_000,
        /// Writes under way on one connection to a node, beside `pace.inflight` in all.
        pub inflight_per_connection: usize = 256,
        /// How often the depth of the mempool is asked for: twice in the shortest usual block.
        pub mempool_interval: Duration = Duration::from_millis(500),
        /// How long `broadcast_tx_commit` waits for its block: the node's `timeout_broadcast_tx_commit`.
        pub commit_timeout: Duration = Duration::from_secs(10),
        /// Subscriptions of one WebSocket client: the node's `max_subscriptions_per_client`.
        pub subscriptions: usize = 5,
        /// Connections to a node that subscribe for all clients, each to 5 distinct queries: a node takes 100 from all its
        /// clients (`max_subscription_clients`).
        pub subscribers: usize = 20,
        /// How often a WebSocket client is pinged: the node's `defaultWSPingPeriod`.
        pub ping_interval: Duration = Duration::from_secs(27),
        /// How long a WebSocket client may be silent, pongs included, while it is read: the node's `defaultWSReadWait`.
        pub silence_limit: Duration = Duration::from_secs(30),
        /// Answers and events that wait for one slow WebSocket client.
        pub out_bytes: usize = 1 << 20,
    }
}
