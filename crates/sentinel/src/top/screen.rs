//! The figures on the whole terminal.

use std::io;
use std::time::Instant;

use ops::command::exit;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Row, Sparkline, Table, Wrap};

use super::EVERY;
use super::rows::{self, Figure};
use super::source::{Source, SourceError};
use super::text::printable;
use crate::overview::Overview;

/// What is shown: the last figures, and why there are no newer ones.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) overview: Overview,
    pub(super) trouble: Option<String>,
}

/// Shows the figures until a key ends it. The terminal is given back in any case.
///
/// # Errors
/// The terminal refuses, or the first answer cannot be had.
pub(super) fn run(source: &Source) -> anyhow::Result<u8> {
    let mut view = View {
        overview: source.ask()?,
        trouble: None,
    };
    let mut terminal = ratatui::try_init()?;
    let shown = (|| loop {
        terminal.draw(|frame| view.draw(frame))?;
        if ends_within_a_second()? {
            return Ok(exit::DONE);
        }
        view.take(source.ask());
    })();
    ratatui::restore();
    shown
}

/// Waits for the next figures; whether a key asks for the end first.
fn ends_within_a_second() -> io::Result<bool> {
    let end = Instant::now() + EVERY;
    while event::poll(end.saturating_duration_since(Instant::now()))? {
        match event::read()? {
            Event::Key(key) if is_end(key) => return Ok(true),
            // Drawn anew at once.
            Event::Resize(..) => return Ok(false),
            _ => {}
        }
    }
    Ok(false)
}

fn is_end(key: KeyEvent) -> bool {
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

impl View {
    fn take(&mut self, answer: Result<Overview, SourceError>) {
        match answer {
            Ok(overview) => {
                *self = Self {
                    overview,
                    trouble: None,
                }
            }
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame) {
        let overview = &self.overview;
        let [top, figures, curves, clients, rest] = Layout::vertical([
            Constraint::Length(4),
            Constraint::Length(7),
            Constraint::Length(7),
            Constraint::Fill(2),
            Constraint::Fill(3),
        ])
        .areas(frame.area());
        self.draw_head(frame, top);
        draw_figures(frame, figures, overview);
        draw_curves(frame, curves, overview);
        draw_clients(frame, clients, overview);
        let [left, right] = Layout::horizontal([Constraint::Fill(1); 2])
            .spacing(2)
            .areas(rest);
        draw_lines(frame, left, "breaks and nodes", breaks_and_nodes(overview));
        draw_lines(frame, right, "events", events(overview));
    }

    fn draw_head(&self, frame: &mut Frame, area: Rect) {
        let overview = &self.overview;
        let color = match (overview.ready, overview.gate.as_str()) {
            (false, _) => Color::Red,
            (true, "open") => Color::Green,
            (true, _) => Color::Yellow,
        };
        let head = Line::from(vec![
            " sentinel ".bold().reversed(),
            " ".into(),
            printable(&rows::head(overview)).fg(color),
            "  q ends".dim(),
        ]);
        let [bound, counted] = rows::reasons(overview).map(|text| printable(&text));
        let mut lines = vec![head, Line::from(bound).bold(), Line::from(counted)];
        if let Some(trouble) = &self.trouble {
            lines.push(Line::from(printable(trouble)).fg(Color::Red).bold());
        }
        frame.render_widget(Paragraph::new(lines), area);
    }
}

/// All figures in columns as wide as the terminal allows, at least two.
fn draw_figures(frame: &mut Frame, area: Rect, overview: &Overview) {
    let figures: Vec<Figure> = rows::now(overview)
        .into_iter()
        .chain(rows::totals(overview))
        .collect();
    let columns = Layout::horizontal([Constraint::Fill(1); 4]).split(area);
    let tall = usize::from(area.height).max(1);
    for (column, part) in columns.iter().zip(figures.chunks(tall)) {
        let row = |(what, value): &Figure| {
            Row::new([
                Line::from(*what).dim(),
                Line::from(value.clone()).right_aligned(),
            ])
        };
        let widths = [
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Length(1),
        ];
        frame.render_widget(Table::new(part.iter().map(row), widths), *column);
    }
}

/// The last minutes: rates against one scale, what waits against another.
fn draw_curves(frame: &mut Frame, area: Rect, overview: &Overview) {
    let block = Block::new()
        .borders(Borders::TOP)
        .title(" the last minutes ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let history = &overview.history;
    let whole = |column: &[f64]| {
        column
            .iter()
            .map(|value| *value as u64)
            .collect::<Vec<u64>>()
    };
    let counts = |column: &[usize]| {
        column
            .iter()
            .map(|count| *count as u64)
            .collect::<Vec<u64>>()
    };
    let curves = [
        ("in", whole(&history.received), Color::LightBlue, true),
        ("out", whole(&history.forwarded), Color::Green, true),
        ("committed", whole(&history.committed), Color::Yellow, true),
        ("pace", whole(&history.pace), Color::Gray, false),
        ("queue", counts(&history.queued), Color::Magenta, false),
        ("mempool", counts(&history.mempool), Color::Cyan, false),
    ];
    let of_rates = curves
        .iter()
        .filter(|(.., is_rate)| *is_rate)
        .flat_map(|(_, column, ..)| column);
    let most_rate = of_rates.copied().max().unwrap_or(0);
    let lines = Layout::vertical([Constraint::Length(1); 6]).split(inner);
    for ((name, column, color, is_rate), line) in curves.into_iter().zip(lines.iter()) {
        let [label, plot] =
            Layout::horizontal([Constraint::Length(20), Constraint::Fill(1)]).areas(*line);
        let last = column
            .last()
            .map_or(String::new(), |last| rows::number(*last as f64));
        frame.render_widget(
            Line::from(format!("{name:<10}{last:>8} ")).style(Style::new().fg(color)),
            label,
        );
        let most = match is_rate {
            true => most_rate,
            false => column.iter().copied().max().unwrap_or(0),
        };
        let newest = column.len().saturating_sub(usize::from(plot.width));
        frame.render_widget(
            Sparkline::default()
                .data(&column[newest..])
                .max(most.max(1))
                .style(color),
            plot,
        );
    }
}

fn draw_clients(frame: &mut Frame, area: Rect, overview: &Overview) {
    let block = Block::new()
        .borders(Borders::TOP)
        .title(" clients with the longest queues ");
    if overview.clients.is_empty() {
        return frame.render_widget(
            Paragraph::new("no client has a write waiting").block(block),
            area,
        );
    }
    let cells = |[client, numbers @ ..]: [String; 7]| {
        let client = std::iter::once(Line::from(printable(&client)));
        Row::new(client.chain(numbers.map(|number| Line::from(number).right_aligned())))
    };
    let mut widths = [Constraint::Fill(2); 7];
    widths[0] = Constraint::Fill(5);
    let table = Table::new(
        overview.clients.iter().map(|one| cells(rows::client(one))),
        widths,
    )
    .header(cells(rows::CLIENT_HEADS.map(str::to_owned)).dim())
    .block(block);
    frame.render_widget(table, area);
}

fn breaks_and_nodes(overview: &Overview) -> Vec<Line<'static>> {
    let breaks = overview.breaks.iter().map(|one| {
        let color = match one.gain {
            Some(gain) if gain < 0.0 => Color::Red,
            Some(_) => Color::Green,
            None => Color::Reset,
        };
        Line::from(printable(&rows::one_break(one, overview.uptime_seconds))).fg(color)
    });
    let nodes = rows::nodes(overview).map(|node| Line::from(printable(&node)));
    nodes.chain(breaks).collect()
}

fn events(overview: &Overview) -> Vec<Line<'static>> {
    let line = |event: &crate::overview::Event| {
        let color = match event.level.as_str() {
            "ERROR" => Color::Red,
            "WARN" => Color::Yellow,
            _ => Color::Reset,
        };
        let ago = rows::seconds(event.ago_seconds);
        Line::from(format!("{ago:>9} {}", printable(&event.text))).fg(color)
    };
    overview.events.iter().map(line).collect()
}

fn draw_lines(frame: &mut Frame, area: Rect, title: &str, lines: Vec<Line<'static>>) {
    let block = Block::new()
        .borders(Borders::TOP)
        .title(format!(" {title} "));
    frame.render_widget(
        Paragraph::new(lines)
            .wrap(Wrap { trim: false })
            .block(block),
        area,
    );
}
