//! The dashboard and the alerts under `config/` against what the program really exposes.

use rpc::BroadcastMethod;
use sentinel::metrics::AckEnd;
use testkit::Exposition;

use crate::support::{Node, Proxy, broadcast};

const DASHBOARD: &str = include_str!("../../../../config/grafana/sentinel.json");
const ALERTS: &str = include_str!("../../../../config/prometheus/alerts.yml");
const SCRAPING: &str = include_str!("../../../../config/prometheus/prometheus.yml");

fn scrape(proxy: &Proxy) -> String {
    proxy.admin().get("/metrics").unwrap().text()
}

#[test]
fn explain_74_every_series_that_an_alert_needs_exists_before_the_first_request() {
    // No node answers: the worst moment to find out that an alert has nothing to go by.
    let proxy = Proxy::with("http://127.0.0.1:1", |config| {
        config.upstream.any_version = true;
    });
    let page = scrape(&proxy);
    let complaints = Exposition::parse(&page).complaints_about_alerts(ALERTS, "sentinel_");
    assert_eq!(complaints, Vec::<String>::new(), "{page}");
    assert!(
        SCRAPING.contains("job_name: sentinel"),
        "an alert goes by up of this job"
    );
    proxy.stop();
}

/// At 2b52556 any client raised the alarm, with one duplicate that it had sent as async.
#[test]
fn acknowledged_94_the_alarm_is_about_broken_promises_and_no_refusals() {
    let (_, rest) = ALERTS
        .split_once("sentinel_acknowledged_total{end=~\"")
        .unwrap();
    let (alarming, _) = rest.split_once('"').unwrap();
    let promises = AckEnd::ALL
        .into_iter()
        .filter(|end| end.is_broken_promise());
    let promises: Vec<_> = promises.map(AckEnd::name).collect();
    assert_eq!(alarming.split('|').collect::<Vec<_>>(), promises);
}

#[test]
fn every_query_of_the_dashboard_names_metrics_and_labels_that_there_are() {
    let node = Node::start();
    let proxy = Proxy::start(&node.url());
    let write = broadcast(1, BroadcastMethod::Sync, b"watched=1");
    assert_eq!(proxy.http().post("/", &write).unwrap().status, 200);
    assert_eq!(proxy.http().get("/status").unwrap().status, 200);
    let page = scrape(&proxy);
    let complaints = Exposition::parse(&page).complaints_about_dashboard(DASHBOARD, "sentinel_");
    assert_eq!(complaints, Vec::<String>::new(), "{page}");
    proxy.stop();
}
