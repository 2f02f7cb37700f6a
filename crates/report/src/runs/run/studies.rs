//! The four plots of BEP-23, by its own rules.

use super::RunReport;
use crate::Page;
use crate::chart::{Axis, Bar, Chart, Tone, Unit};
use crate::runs::bep23::{DelayFigures, SecondFigures};
use crate::text;

pub(super) fn bep23(report: &RunReport) -> String {
    let Some(bep23) = &report.bep23 else {
        return String::new();
    };
    let (accept, finalize) = (Tone::Accepted, Tone::Committed);
    let charts = [
        delays("Accept: from send to answer", accept, &bep23.accept),
        seconds("Accepted in each second", accept, &bep23.accepted),
        delays("Finalize: from answer to block", finalize, &bep23.finalize),
        seconds("Finalized in each second", finalize, &bep23.finalized),
    ];
    let note = "<p class=\"note\">By the rules of the original: time begins with the first send, seconds are rounded half to even, the last one is left out when it rounds up. <code>txgen report RUN --format bep23</code> prints the figures.</p>";
    note.to_owned() + &Page::grid(charts)
}

fn delays(title: &str, tone: Tone, figures: &DelayFigures) -> String {
    let bars = figures.histogram.iter().map(|(from, to, count)| Bar {
        from: *from,
        to: *to,
        height: *count as f64,
    });
    let delay = Axis::linear("seconds", Unit::Seconds).from(None);
    let count = Axis::linear("transactions", Unit::Number);
    let mut chart = Chart::new(title, delay, count).bars("", tone, bars);
    if let (Some(p68), Some(p95), Some(p99_7)) = (figures.p68, figures.p95, figures.p99_7) {
        let [p68, p95, p99_7] = [p68, p95, p99_7].map(text::seconds);
        chart = chart.note(&format!(
            "68 % within {p68}, 95 % within {p95}, 99.7 % within {p99_7}."
        ));
    }
    chart.html()
}

fn seconds(title: &str, tone: Tone, figures: &SecondFigures) -> String {
    let step = figures.counts.len().div_ceil(MAX_DOTS).max(1);
    let points = figures.counts.iter().enumerate().step_by(step);
    let points = points.map(|(second, count)| (second as f64, f64::from(*count)));
    let every = match step {
        1 => String::new(),
        _ => format!(" Drawn is every {step}th second."),
    };
    let time = Axis::linear("seconds since the first send", Unit::Time);
    let count = Axis::linear("transactions", Unit::Number);
    let [median, mean] = [figures.median, figures.mean].map(text::number);
    Chart::new(title, time, count)
        .dots("", tone, points)
        .note(&format!("Median {median}, mean {mean} per second.{every}"))
        .html()
}

/// Dots of a scatter plot at most.
const MAX_DOTS: usize = 4_000;
