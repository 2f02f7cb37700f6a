use std::collections::BTreeMap;

use control::BreakState;

use super::*;

/// Name with labels → value, read as strictly as Prometheus reads it.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut family = String::new();
    let body = text.strip_suffix("# EOF\n").expect("the end is marked");
    for line in body.lines() {
        if let Some(about) = line.strip_prefix("# ") {
            let (kind, rest) = about.split_once(' ').unwrap();
            let (name, what) = rest.split_once(' ').unwrap();
            assert!(["HELP", "TYPE", "UNIT"].contains(&kind), "{line}");
            assert!(!what.is_empty(), "{line}");
            let is_ours = name.starts_with("sentinel_") || name.starts_with("process_");
            assert!(is_ours, "{line}");
            family = name.to_owned();
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(series.starts_with(&family), "{line} outside its family");
        let labels = series.find('{').map_or("", |at| &series[at..]);
        assert!(
            labels.is_empty() || labels.ends_with("\"}"),
            "unclosed labels: {line}"
        );
        let earlier = samples.insert(series.to_owned(), value.parse::<f64>().unwrap());
        assert!(earlier.is_none(), "{series} twice");
    }
    samples
}

fn scrape(metrics: &Metrics) -> BTreeMap<String, f64> {
    parse(&metrics.render(&Gauges::default()))
}

fn everything_happens(metrics: &Metrics) {
    for transport in Transport::ALL {
        for class in MethodClass::ALL {
            for outcome in OutcomeLabel::ALL {
                metrics.request(transport, class, outcome);
            }
            metrics.upstream_request(class, Nanos::from_millis(3));
        }
    }
    for reason in Reason::ALL {
        metrics.refused(reason);
    }
    for end in CacheEnd::ALL {
        metrics.cacheable_read(end);
    }
    for class in UpstreamError::ALL {
        metrics.upstream_error(class);
    }
    for cause in ReconnectCause::ALL {
        metrics.reconnected(cause);
    }
    for cause in BreakCause::ALL {
        metrics.paused(cause);
    }
    metrics.queue_wait(Nanos::from_secs(2));
    metrics.requeued.inc_by(2);
    metrics.paused_seconds.inc_by(1.5);
    metrics.pause_gain.set(0.08);
    metrics.block(4_000, Some(Nanos::from_millis(1_100)));
    metrics.ws_clients.inc();
}

#[test]
fn metrics_54_the_number_of_series_is_bounded() {
    let metrics = Metrics::default();
    everything_happens(&metrics);
    let before = scrape(&metrics);
    for _ in 0..3 {
        everything_happens(&metrics);
    }
    let after = scrape(&metrics);
    assert!(
        before.keys().eq(after.keys()),
        "a series appeared or vanished"
    );
    assert!(after.len() < 500, "{} series", after.len());
}

#[test]
fn classes_of_requests_that_never_came_are_not_printed() {
    let metrics = Metrics::default();
    let of_requests = |samples: &BTreeMap<String, f64>| {
        let by_class = |name: &&String| name.contains("method_class=");
        samples.keys().filter(by_class).count()
    };
    let idle = scrape(&metrics);
    assert_eq!(of_requests(&idle), 0, "{idle:?}");
    assert!(idle.len() < 150, "{} series", idle.len());
    let (class, outcome) = (MethodClass::BroadcastSync, OutcomeLabel::Forwarded);
    metrics.request(Transport::Ws, class, outcome);
    let one = scrape(&metrics);
    assert_eq!(of_requests(&one), OutcomeLabel::ALL.len());
    let expired = "sentinel_requests_total{transport=\"ws\",lane=\"write\",\
         method_class=\"broadcast_sync\",outcome=\"expired\"}";
    assert_eq!(
        one[expired], 0.0,
        "the first one that expires shows in rate()"
    );
}

#[test]
fn names_are_those_that_were_promised() {
    let metrics = Metrics::default();
    everything_happens(&metrics);
    let samples = parse(&metrics.render(&Gauges {
        state: BreakState::Paused,
        queue_bytes: 7,
        fair_share: 995.0,
        client_evictions: 4,
        ws_subscriptions: 1,
        ws_dropped_events: 3,
        upstream_connecting: 1,
        ..Gauges::default()
    }));
    let promised = [
        (
            "sentinel_requests_total{transport=\"ws\",lane=\"write\",method_class=\"broadcast_sync\",outcome=\"expired\"}",
            1.0,
        ),
        (
            "sentinel_requests_total{transport=\"uri\",lane=\"read\",method_class=\"tx\",outcome=\"forwarded\"}",
            1.0,
        ),
        ("sentinel_rejected_total{reason=\"queue_full\"}", 1.0),
        ("sentinel_queue_depth", 0.0),
        ("sentinel_queue_bytes", 7.0),
        ("sentinel_queue_wait_seconds_count", 1.0),
        ("sentinel_clients_active", 0.0),
        ("sentinel_client_table_entries", 0.0),
        ("sentinel_client_evictions_total", 4.0),
        ("sentinel_fair_share_req_per_second", 995.0),
        ("sentinel_pace_rate_req_per_second", 0.0),
        (
            "sentinel_upstream_request_duration_seconds_count{method_class=\"abci\"}",
            Transport::ALL.len() as f64,
        ),
        ("sentinel_upstream_errors_total{class=\"full\"}", 1.0),
        ("sentinel_upstream_connections{state=\"connecting\"}", 1.0),
        ("sentinel_reconnects_total{cause=\"broken\"}", 1.0),
        ("sentinel_pauses_total{cause=\"interval\"}", 1.0),
        ("sentinel_paused_seconds_total", 1.5),
        ("sentinel_pause_gain_ratio", 0.08),
        ("sentinel_controller_state{state=\"paused\"}", 1.0),
        ("sentinel_controller_state{state=\"running\"}", 0.0),
        ("sentinel_committed_txs_total", 4_000.0),
        ("sentinel_committed_tx_rate", 0.0),
        ("sentinel_block_interval_seconds_count", 1.0),
        ("sentinel_upstream_mempool_txs", 0.0),
        ("sentinel_ws_clients", 1.0),
        ("sentinel_ws_subscriptions", 1.0),
        ("sentinel_ws_dropped_events_total", 3.0),
        ("sentinel_build_info{version=\"0.1.0\"}", 1.0),
    ];
    for (name, value) in promised {
        assert_eq!(samples.get(name), Some(&value), "{name}");
    }
}

#[test]
fn counters_read_at_a_scrape_never_fall() {
    let metrics = Metrics::default();
    let evictions = |client_evictions| {
        let gauges = Gauges {
            client_evictions,
            ..Gauges::default()
        };
        parse(&metrics.render(&gauges))["sentinel_client_evictions_total"]
    };
    assert_eq!((evictions(5), evictions(3), evictions(6)), (5.0, 5.0, 6.0));
}
