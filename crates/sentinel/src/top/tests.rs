//! The figures drawn and written, with names that want to do harm.

use crate::overview::{
    BreakFigures, ClientFigures, Event, Figures, History, Holding, Overview, Totals,
};
use crate::views::{ClientView, NodeView};

use super::source::Address;
use super::text;

/// Every figure has a value of its own, so that each can be looked for.
fn overview() -> Overview {
    Overview {
        version: "0.1.0".to_owned(),
        uptime_seconds: 7_500.0,
        ready: true,
        why: "paused: writes are held and go out after the break".to_owned(),
        gate: "paused".to_owned(),
        controller: "reconnecting".to_owned(),
        bound: Holding {
            name: "ceiling".to_owned(),
            text: "the ceiling: 2000.0 writes/s (fair.max_req)".to_owned(),
        },
        counted_in: "transactions: blocks have room".to_owned(),
        now: Figures {
            received_per_second: 4_101.0,
            forwarded_per_second: 1_102.0,
            refused_per_second: 1_103.0,
            reads_per_second: 1_104.0,
            committed_per_second: 1_105.0,
            pace_per_second: 1_106.0,
            share_per_second: 1_107.0,
            pace_is_blind: true,
            queued: 1_108,
            queued_bytes: 109_000,
            in_flight: 1_110,
            mempool_txs: 1_111,
            buffered_bytes: 112_000_000,
            buffer_capacity_bytes: 113_000_000,
            connections: 1_114,
            waiting_clients: 1_115,
            known_clients: 1_116,
        },
        totals: Totals {
            received: 2_201,
            forwarded: 2_202,
            refused: 2_203,
            displaced: 2_204,
            expired: 2_205,
            cancelled: 2_206,
            reads: 2_207,
            committed: 2_208,
            breaks: 2_209,
            paused_seconds: 59.0,
        },
        history: History {
            at_seconds: vec![7_498.0, 7_499.0, 7_500.0],
            received: vec![0.0, 2_000.0, 3_301.0],
            forwarded: vec![0.0, 2_000.0, 3_302.0],
            committed: vec![0.0, 2_000.0, 3_303.0],
            pace: vec![0.0, 2_000.0, 3_304.0],
            queued: vec![0, 2_000, 3_305],
            mempool: vec![0, 2_000, 3_306],
        },
        nodes: vec![NodeView {
            url: "http://10.0.0.5:26657".to_owned(),
            up: true,
            silent_ms: None,
            catching_up: true,
            height: Some(4_401),
        }],
        clients: vec![ClientFigures {
            client: ClientView {
                client: HOSTILE.to_owned(),
                weight: 1,
                connections: 5_501,
                queued: 5_502,
                queued_bytes: 5_503,
                share_per_second: 5_504.0,
                dispatched: 5_505,
                refused: 5_506,
            },
            forwarded_per_second: Some(5_507.0),
        }],
        breaks: vec![BreakFigures {
            at_seconds: 7_440.0,
            cause: "threshold".to_owned(),
            paused_seconds: 5.0,
            gain: Some(-0.123),
        }],
        events: vec![Event {
            ago_seconds: 61.0,
            level: "WARN".to_owned(),
            text: "a break begins \u{1b}[2J\u{9b}2J".to_owned(),
        }],
    }
}

/// A name that would clear the terminal, and be a script in a page.
const HOSTILE: &str = "\u{1b}[2J<script>x</script>";

/// What both views show of [`overview`].
const SHOWN: [&str; 41] = [
    "gate paused",
    "version 0.1.0",
    "up 2 h 5 min",
    "the ceiling: 2000.0 writes/s (fair.max_req)",
    "transactions: blocks have room",
    "reconnecting",
    "knows neither blocks nor the mempool",
    "4,101",
    "1,102",
    "1,103",
    "1,104",
    "1,105",
    "1,106",
    "1,107",
    "1,108",
    "109 kB",
    "1,110",
    "1,111",
    "112 MB",
    "113 MB",
    "1,114",
    "1,115",
    "1,116",
    "2,201",
    "2,202",
    "2,203",
    "2,204",
    "2,205",
    "2,206",
    "2,207",
    "2,208",
    "2,209",
    "59 s",
    "5,501",
    "5,502",
    "5,504",
    "5,505",
    "5,506",
    "5,507",
    "gain -12.3 %",
    "http://10.0.0.5:26657",
];

#[test]
fn the_text_has_every_figure() {
    let text = text::of(&overview());
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in SHOWN {
        assert!(joined.contains(part), "no {part} in\n{text}");
    }
    let wide = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{text}");
    assert!(text.ends_with("\n\n"), "{text}");
}

#[test]
fn a_hostile_name_is_text_in_a_terminal() {
    let text = text::of(&overview());
    assert!(text.contains("\u{fffd}[2J<script>"), "{text}");
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{9b}'),
        "{text}"
    );
}

#[cfg(feature = "tui")]
mod screen {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::screen::View;
    use super::*;

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_screen_has_every_figure_and_the_course_of_the_last_minutes() {
        let view = View {
            overview: overview(),
            trouble: None,
        };
        let screen = drawn(&view, 140, 40);
        for part in SHOWN
            .into_iter()
            .chain(["3,301", "3,302", "3,303", "3,304", "3,305", "3,306", "█"])
        {
            assert!(screen.contains(part), "no {part} in\n{screen}");
        }
        assert!(!screen.contains('\u{1b}'), "{screen}");
    }

    #[test]
    fn figures_stay_and_the_reason_is_told_when_it_no_longer_answers() {
        let view = View {
            overview: overview(),
            trouble: Some("127.0.0.1:26681 does not answer".to_owned()),
        };
        let screen = drawn(&view, 140, 40);
        assert!(
            screen.contains("does not answer") && screen.contains("4,101"),
            "{screen}"
        );
    }

    #[test]
    fn no_terminal_is_too_small() {
        for (width, height) in [(1, 1), (20, 5), (60, 15)] {
            let view = View {
                overview: overview(),
                trouble: None,
            };
            drawn(&view, width, height);
            drawn(&View::default(), width, height);
        }
    }
}

#[test]
fn a_listener_is_named_by_url_address_or_port() {
    let read = |text: &str| text.parse::<Address>().map(|address| address.to_string());
    for (text, address) in [
        ("26681", "127.0.0.1:26681"),
        ("10.0.0.5:9000", "10.0.0.5:9000"),
        ("http://localhost:26681/", "localhost:26681"),
        ("http://sentinel", "sentinel:26681"),
        ("[::1]:26681", "[::1]:26681"),
    ] {
        assert_eq!(read(text).unwrap(), address, "{text}");
    }
    for text in ["", "https://10.0.0.5", "http://", "a b"] {
        assert!(read(text).is_err(), "{text}");
    }
}
