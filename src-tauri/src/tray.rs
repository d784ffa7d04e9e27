//! The tray: what lives on when the window is closed, in a line, who needs the person, and Open, Stop everything and Quit.

use coppice_engine::id::{AskId, SessionId};
use coppice_host::board::{Board, Counts, asker};
use coppice_host::host::Host;
use coppice_host::{notify, text};
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};
use tauri::menu::{Menu, MenuItem, PredefinedMenuItem};
use tauri::tray::TrayIconBuilder;
use tauri::{AppHandle, Manager, Wry};

/// What is chosen in the tray's menu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Bring the window to the front.
    Open,
    /// Bring the window to the front, at this ask.
    Ask(AskId),
    /// Stop everything and stay.
    Stop,
    /// Quit, after asking.
    Quit,
}

/// Does what is chosen.
pub type Does = fn(&AppHandle, Deed);

/// The icon, and the line that says what runs.
pub struct Tray {
    menu: Menu<Wry>,
    line: MenuItem<Wry>,
    stop: MenuItem<Wry>,
    /// The lines of the asks, below the first.
    asks: Mutex<Vec<MenuItem<Wry>>>,
}

/// An ask as the menu names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskLine {
    /// The ask.
    pub ask: AskId,
    /// The session that asks.
    pub session: SessionId,
    text: String,
}

/// How many asks are named; the others are counted.
const NAMED: usize = 5;
/// The longest line of the menu, in characters.
const LINE: usize = 60;
/// What the ids of their lines begin with.
const ASK: &str = "ask:";

impl Tray {
    /// Puts the icon into the tray. On the main thread.
    pub fn new(app: &AppHandle, does: Does) -> Option<Self> {
        // The library that shows the icon is looked for only now, and is missed by a panic.
        let made = std::panic::catch_unwind(AssertUnwindSafe(|| make(app, does)));
        match made {
            Ok(Ok(tray)) => Some(tray),
            Ok(Err(error)) => {
                tracing::warn!(%error, "no tray");
                None
            }
            Err(_) => {
                tracing::warn!("no tray: its library is not installed (libayatana-appindicator3)");
                None
            }
        }
    }

    /// Brings the lines up to date.
    pub fn show(&self, counts: Option<Counts>, asks: &[AskLine]) {
        if let Err(error) = self.name(asks) {
            tracing::debug!(%error, "the tray could not name who asks");
        }
        for done in
            [self.line.set_text(line(counts)), self.stop.set_enabled(counts.is_none_or(|counts| counts.run > 0))]
        {
            if let Err(error) = done {
                tracing::debug!(%error, "the tray could not be brought up to date");
            }
        }
    }
}

impl Tray {
    fn name(&self, asks: &[AskLine]) -> tauri::Result<()> {
        let mut named = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        for before in named.drain(..) {
            self.menu.remove(&before)?;
        }
        let app = self.menu.app_handle();
        let item = |id: String, text: &str| MenuItem::with_id(app, id, text, true, None::<&str>);
        let mut lines: Vec<MenuItem<Wry>> = Vec::new();
        for ask in asks.iter().take(NAMED) {
            lines.push(item(format!("{ASK}{}", ask.ask), &ask.text)?);
        }
        if asks.len() > NAMED {
            lines.push(item("open".to_owned(), &format!("{} more", asks.len() - NAMED))?);
        }
        for (at, line) in lines.into_iter().enumerate() {
            self.menu.insert(&line, at + 1)?;
            named.push(line);
        }
        Ok(())
    }
}

/// The asks that wait, oldest first, as the menu names them: "north: Run make install".
pub fn ask_lines(board: &Board) -> Vec<AskLine> {
    let line = |ask: &coppice_engine::view::AskView| {
        let words = format!("{}: {}", text::line(asker(ask), LINE / 2), notify::what(&ask.action));
        // What a menu would take for the mark of a key.
        let text = text::line(&words, LINE).replace('&', "&&");
        AskLine { ask: ask.id.clone(), session: ask.session.clone(), text }
    };
    board.waiting().into_iter().map(line).collect()
}

fn make(app: &AppHandle, does: Does) -> tauri::Result<Tray> {
    let item = |id: &str, text: &str, enabled: bool| MenuItem::with_id(app, id, text, enabled, None::<&str>);
    let first = item("line", &line(None), false)?;
    let stop = item("stop", "Stop everything", true)?;
    let menu = Menu::with_items(
        app,
        &[
            &first,
            &PredefinedMenuItem::separator(app)?,
            &item("open", "Open Coppice", true)?,
            &stop,
            &PredefinedMenuItem::separator(app)?,
            &item("quit", "Quit", true)?,
        ],
    )?;
    // The desktop reads the icon from a file. A folder that all users share may belong to another.
    let folder = app.state::<Host>().engine.data().join("tray");
    let icon = tauri::image::Image::from_bytes(include_bytes!("../../icons/32x32.png"))?;
    TrayIconBuilder::with_id("coppice")
        .temp_dir_path(folder)
        .icon(icon)
        .tooltip("Coppice")
        .menu(&menu)
        .on_menu_event(move |app, event| match event.id().as_ref() {
            "open" => does(app, Deed::Open),
            "stop" => does(app, Deed::Stop),
            "quit" => does(app, Deed::Quit),
            other => {
                if let Some(ask) = other.strip_prefix(ASK) {
                    does(app, Deed::Ask(AskId(ask.to_owned())));
                }
            }
        })
        .build(app)?;
    Ok(Tray { menu, line: first, stop, asks: Mutex::default() })
}

/// "5 run, 1 needs you".
pub fn line(counts: Option<Counts>) -> String {
    let Some(counts) = counts else { return "What runs is not known".to_owned() };
    let run = match counts.run {
        0 => "Nothing runs".to_owned(),
        1 => "1 runs".to_owned(),
        n => format!("{n} run"),
    };
    match counts.needs_you {
        0 => run,
        1 => format!("{run}, 1 needs you"),
        n => format!("{run}, {n} need you"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_runs_and_who_needs_you() {
        let line = |run, needs_you| line(Some(Counts { run, needs_you, roots: 1 }));
        assert_eq!(super::line(None), "What runs is not known");
        assert_eq!(line(0, 0), "Nothing runs");
        assert_eq!(line(1, 0), "1 runs");
        assert_eq!(line(5, 1), "5 run, 1 needs you");
        assert_eq!(line(5, 2), "5 run, 2 need you");
    }
}
