//! What is written rather than drawn: where the run stands, nodes, messages, keys.

use measure::Counts;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::symbols::line;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, LineGauge, Paragraph, Wrap};
use report::text::{self, grouped, narrow_millis, or_dash, short};

use super::figures::{MARK, PLAN};
use crate::live::state::{LiveState, NodeState, Phase};

/// The load.
pub(super) fn head(frame: &mut Frame, area: Rect, state: &LiveState) {
    let mut spans = vec![" txgen ".bold().reversed(), " ".into()];
    if let Some(heading) = &state.heading {
        spans.push(heading.clone().bold());
        spans.push(" · ".into());
    }
    spans.push(state.info.title.clone().into());
    frame.render_widget(Line::from(spans), area);
}

/// How far it is.
pub(super) fn gauge(frame: &mut Frame, area: Rect, state: &LiveState) {
    let (text, color) = (progress(state), phase_color(state.phase));
    match state.progress() {
        Some(share) => frame.render_widget(
            LineGauge::default()
                .ratio(share)
                .label(Span::styled(text, color))
                .filled_symbol(line::THICK_HORIZONTAL)
                .filled_style(Style::new().fg(color))
                .unfilled_style(Style::new().fg(PLAN)),
            area,
        ),
        None => frame.render_widget(Line::styled(text, color), area),
    }
}

/// What the run shows by now.
pub(super) fn finding(frame: &mut Frame, area: Rect, state: &LiveState) {
    let room = usize::from(area.width).saturating_sub(1);
    let text = format!(" {}", cut(&state.finding(), room));
    frame.render_widget(Line::styled(text, finding_color(state)), area);
}

fn finding_color(state: &LiveState) -> Color {
    if state.onsets.is_empty() {
        Color::Green
    } else {
        Color::Red
    }
}

/// The phase, the step, the time and the time left in one line.
fn progress(state: &LiveState) -> String {
    let elapsed = clock(state.now.as_secs_f64());
    let step = step_of(state).map_or(String::new(), |step| format!(", {step}"));
    match (state.phase, state.seconds_left()) {
        (Phase::Connecting, _) => " connecting ".into(),
        (Phase::Offering, Some(left)) if !state.is_open_ended() => {
            format!(" offering{step}, {elapsed}, {} left ", clock(left.ceil()))
        }
        (Phase::Offering, _) => format!(" offering{step}, {elapsed}, no fixed end "),
        (Phase::Draining, _) => format!(
            " draining, {elapsed}, {} still to come, up to {:.0} s ",
            grouped(state.pending),
            state.drain_left_s()
        ),
        (Phase::Over, _) => format!(" over, {elapsed} "),
    }
}

fn step_of(state: &LiveState) -> Option<String> {
    let profile = state.info.profile.as_ref()?;
    let step = profile.step_at(state.now);
    let (count, rate) = (profile.step_count(), step.rate);
    // Counted from 0, as in steps.csv and in the final table.
    match count {
        0 | 1 => None,
        _ if state.is_open_ended() => Some(format!("step {} at {rate}", step.index)),
        _ => Some(format!(
            "step {} (0 to {}) at {rate}",
            step.index,
            count - 1
        )),
    }
}

const fn phase_color(phase: Phase) -> Color {
    match phase {
        Phase::Connecting | Phase::Over => Color::Blue,
        Phase::Offering => Color::Green,
        Phase::Draining => Color::Yellow,
    }
}

/// Every node: in one line where that fits, otherwise in a line for each thing it reports.
pub(super) fn node_lines(state: &LiveState, width: u16) -> Vec<Line<'static>> {
    let nodes = state.info.nodes.all();
    let room = usize::from(width.saturating_sub(2));
    let lines = nodes.iter().flat_map(|node| {
        let parts = node_parts(state, node);
        let length = parts.iter().map(|part| part.width() + 2).sum::<usize>();
        if length.saturating_sub(2) <= room {
            let gaps = std::iter::repeat(Span::raw("  "));
            let spans = parts.into_iter().zip(gaps);
            let spans = spans.flat_map(|(part, gap)| [part, gap]);
            return vec![Line::from_iter(spans)];
        }
        let further = parts.iter().skip(1).cloned();
        let further = further.map(|part| Line::from_iter([Span::raw("  "), part]));
        let first = parts.first().cloned().map(Line::from);
        first.into_iter().chain(further).collect()
    });
    lines.collect()
}

/// What a node is called, and what it reports.
fn node_parts(state: &LiveState, node: &NodeState) -> Vec<Span<'static>> {
    let name = node
        .name
        .split_once("://")
        .map_or(&*node.name, |(_, name)| name);
    let mut parts = vec![Span::raw(name.to_owned())];
    if let Some(trouble) = &node.trouble {
        parts.push(Span::styled(format!("lost: {trouble}"), Color::Red));
        return parts;
    }
    if let Some((txs, bytes, _)) = node.mempool {
        let bytes = short(bytes as f64);
        parts.push(format!("mempool {} ({bytes}B)", grouped(txs)).into());
    }
    if node.height > 0 {
        let age = state.now.saturating_sub(node.block_at).as_secs_f64();
        let text = format!(
            "height {} ({} txs, {age:.0} s ago)",
            grouped(node.height),
            grouped(node.block_txs)
        );
        parts.push(text.into());
    }
    if !node.version.is_empty() {
        parts.push(Span::styled(format!("v{}", node.version), PLAN));
    }
    parts
}

/// The nodes in their frame.
pub(super) fn nodes(frame: &mut Frame, area: Rect, lines: Vec<Line<'_>>) {
    frame.render_widget(Paragraph::new(lines).block(panel(" nodes ")), area);
}

/// How many transactions a mempool takes, where it is known: `of 5,000`.
pub(super) fn mempool_limit(state: &LiveState) -> Option<String> {
    let limit = state.info.limits.mempool_txs?;
    Some(format!("of {}", grouped(limit)))
}

/// The messages, the last first: a long message is read to its end.
pub(super) fn messages(frame: &mut Frame, area: Rect, state: &LiveState) {
    let room = usize::from(area.height.saturating_sub(2));
    let lines = state.messages.iter().rev().take(room).map(|message| {
        let time = Span::styled(format!("{:>6} ", clock(message.at.as_secs_f64())), PLAN);
        let color = message_color(&message.text);
        Line::from(vec![time, Span::styled(message.text.clone(), color)])
    });
    let text: Vec<Line> = lines.collect();
    let text = Paragraph::new(text).wrap(Wrap { trim: false });
    frame.render_widget(text.block(panel(" messages ")), area);
}

fn message_color(text: &str) -> Color {
    if text.starts_with("warning") {
        Color::Red
    } else if text.starts_with("mark") {
        MARK
    } else {
        Color::Reset
    }
}

/// A text in so much room; where it is longer, with a sign that it goes on.
fn cut(text: &str, room: usize) -> String {
    if text.chars().count() > room {
        text.chars()
            .take(room.saturating_sub(1))
            .chain(['…'])
            .collect()
    } else {
        text.to_owned()
    }
}

/// What the keys take of the foot.
const KEYS_WIDTH: usize = 27;

/// The keys, and the last message where there is no other room for it.
pub(super) fn foot(frame: &mut Frame, area: Rect, state: &LiveState, with_message: bool) {
    let key = |key: &'static str| Span::styled(key, Modifier::BOLD);
    let mut keys = vec![
        key(" q"),
        " quit  ".into(),
        key("m"),
        " mark  ".into(),
        key("?"),
        " help".into(),
    ];
    let last = state.messages.back().filter(|_| with_message);
    if let Some(message) = last {
        let room = usize::from(area.width).saturating_sub(KEYS_WIDTH);
        let text = format!("{} {}", clock(message.at.as_secs_f64()), message.text);
        let color = message_color(&message.text);
        keys.push(Span::styled(format!("  {}", cut(&text, room)), color));
    }
    frame.render_widget(Line::from_iter(keys), area);
}

/// What the keys do.
pub(super) fn help(frame: &mut Frame, area: Rect) {
    let lines = [
        "q, Ctrl-C  stop offering and drain; again: leave at once.",
        "           Everything recorded is written either way.",
        "m          mark this moment (series.csv, column mark)",
        "?, h       this help",
    ];
    let width = area.width.min(64);
    let height = area.height.min(lines.len() as u16 + 2);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let text: Vec<Line> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(text).block(panel(" keys ")), place);
}

/// The run in a few lines, the most important first.
pub(super) fn small(frame: &mut Frame, area: Rect, state: &LiveState) {
    let last = state.last().cloned().unwrap_or_default();
    let totals = &state.counters.totals;
    let Counts {
        offered,
        sent,
        accepted,
        committed,
        ..
    } = last.counts;
    let mut lines = vec![
        Line::styled(progress(state), phase_color(state.phase)),
        Line::from(format!("{offered} offered {sent} sent {accepted} accepted")),
    ];
    if state.info.follows {
        let depth = last
            .mempool_txs
            .map_or("-".into(), |depth| depth.to_string());
        let text = format!("{committed} committed, mempool {depth}");
        lines.push(Line::from(text));
    }
    if area.height >= SMALL_HEIGHT || !state.onsets.is_empty() {
        lines.push(Line::styled(state.finding(), finding_color(state)));
    }
    let [accept_p50, accept_p99, commit_p50, commit_p99] = [
        "accept_p50_ms",
        "accept_p99_ms",
        "commit_p50_ms",
        "commit_p99_ms",
    ]
    .map(|name| or_dash(last.latency.figure(name), narrow_millis));
    let text = format!("accept {accept_p50}/{accept_p99} ms, commit {commit_p50}/{commit_p99}");
    lines.push(Line::from(text));
    let refused = totals.rejected + totals.errors;
    if refused + totals.unsent > 0 {
        let text = format!(
            "{} refused, {} unsent",
            grouped(refused),
            grouped(totals.unsent)
        );
        lines.push(Line::styled(text, Color::Red));
    }
    if area.height > SMALL_HEIGHT
        && let Some(message) = state.messages.back()
    {
        lines.push(Line::from(message.text.clone()));
    }
    lines.push(Line::styled("q quit, m mark, ? help", PLAN));
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

/// Lines of [`small`] without the last message.
pub(super) const SMALL_HEIGHT: u16 = 7;

/// Seconds as on a clock, the hours only where there are some.
fn clock(seconds: f64) -> String {
    text::clock(seconds, seconds)
}

pub(super) fn panel<'a>(title: impl Into<Line<'a>>) -> Block<'a> {
    Block::bordered()
        .title(title.into().bold())
        .border_style(Style::new().fg(PLAN))
}
