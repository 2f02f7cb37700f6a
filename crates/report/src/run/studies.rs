//! The four plots of BEP-23, by its own rules.

use super::RunReport;
use crate::Page;
use crate::bep23::{DelayFigures, SecondFigures};
use crate::chart::{Axis, Bar, Chart, Tone, Unit};
use crate::text;

pub(super) fn bep23(report: &RunReport) -> String {
    let Some(bep23) = &report.bep23 else {
        return "<p class=\"none\">left out, as they need every transaction and there are very many; <code>txgen report RUN</code> draws them</p>".to_owned();
    };
    let charts = [
        delays("Accept: from send to answer", Tone::Accepted, &bep23.accept),
        seconds("Accepted in each second", Tone::Accepted, &bep23.accepted),
        delays(
            "Finalize: from answer to block",
            Tone::Committed,
            &bep23.finalize,
        ),
        seconds(
            "Finalized in each second",
            Tone::Committed,
            &bep23.finalized,
        ),
    ];
    format!(
        "<p class=\"note\">By the rules of the original: time begins with the first send, seconds are rounded half to even, the last one is left out when it rounds up. <code>txgen report RUN --format bep23</code> prints the figures.</p>{}",
        Page::grid(charts)
    )
}

fn delays(title: &str, tone: Tone, figures: &DelayFigures) -> String {
    let mut chart = Chart::new(
        title,
        Axis::linear("seconds", Unit::Seconds).from(None),
        Axis::linear("transactions", Unit::Number),
    )
    .bars(
        "",
        tone,
        figures.histogram.iter().map(|(from, to, count)| Bar {
            from: *from,
            to: *to,
            height: *count as f64,
        }),
    );
    if let (Some(p68), Some(p95), Some(p99_7)) = (figures.p68, figures.p95, figures.p99_7) {
        chart = chart.note(&format!(
            "68 % within {}, 95 % within {}, 99.7 % within {}.",
            text::seconds(p68),
            text::seconds(p95),
            text::seconds(p99_7)
        ));
    }
    chart.html()
}

fn seconds(title: &str, tone: Tone, figures: &SecondFigures) -> String {
    let points = figures.counts.iter().enumerate();
    let step = figures.counts.len().div_ceil(MAX_DOTS).max(1);
    let chart = Chart::new(
        title,
        Axis::linear("seconds since the first send", Unit::Time),
        Axis::linear("transactions", Unit::Number),
    )
    .dots(
        "",
        tone,
        points
            .step_by(step)
            .map(|(second, count)| (second as f64, f64::from(*count))),
    );
    let every = if step > 1 {
        format!(" Drawn is every {step}th second.")
    } else {
        String::new()
    };
    chart
        .note(&format!(
            "Median {}, mean {} per second.{every}",
            text::number(figures.median),
            text::number(figures.mean)
        ))
        .html()
}

/// Dots of a scatter plot at most.
const MAX_DOTS: usize = 4_000;
