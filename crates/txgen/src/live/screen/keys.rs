//! What keys do.

use std::sync::Arc;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::View;
use crate::live::nodes::NodeBoard;
use crate::live::track::Track;

/// What a key asks of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::live) enum Asked {
    /// Nothing; it changed the picture at most.
    Nothing,
    /// To stop offering, as Ctrl-C would.
    Quit,
    /// To note the moment, with a text or without.
    Mark(Option<String>),
}

impl View {
    /// Takes a key; `now` is the state of the run.
    pub(in crate::live) fn key(&mut self, key: KeyEvent, now: &Track) -> Asked {
        if key.kind == KeyEventKind::Release {
            return Asked::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            // The terminal makes no signals of keys while it has a picture.
            return match key.code {
                KeyCode::Char('c' | '\\') => Asked::Quit,
                _ => Asked::Nothing,
            };
        }
        if let Some(text) = self.writing.take() {
            return self.write(text, key.code);
        }
        match key.code {
            KeyCode::Char('q') => return Asked::Quit,
            KeyCode::Char('m') => return Asked::Mark(None),
            KeyCode::Char('M') => self.writing = Some(String::new()),
            KeyCode::Char('p' | ' ') => self.pause(now),
            KeyCode::Char('h' | '?') => self.help = !self.help,
            KeyCode::Esc => self.help = false,
            KeyCode::Char('+' | '=') => self.window.narrower(),
            KeyCode::Char('-') => self.window.wider(),
            _ => {}
        }
        Asked::Nothing
    }

    fn pause(&mut self, now: &Track) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => {
                let mut frozen = now.clone();
                frozen.scene.nodes = Arc::new(NodeBoard::new(now.scene.nodes.all()));
                Some(Box::new(frozen))
            }
        };
    }

    /// A key of a mark's text.
    fn write(&mut self, mut text: String, code: KeyCode) -> Asked {
        match code {
            KeyCode::Enter => {
                let text = text.trim().to_owned();
                return Asked::Mark((!text.is_empty()).then_some(text));
            }
            KeyCode::Esc => return Asked::Nothing,
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(c) if text.chars().count() < measure::MAX_MARK_CHARS => text.push(c),
            _ => {}
        }
        self.writing = Some(text);
        Asked::Nothing
    }
}
