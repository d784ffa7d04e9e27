//! Standard output and error, written with care: a reader that is gone is an error, not a panic.

use std::io::{self, IsTerminal, Write};

/// Where the terminal's words go.
pub struct Out {
    stream: Standard,
}

enum Standard {
    Out,
    Err,
}

impl Out {
    /// Standard output.
    pub fn stdout() -> Self {
        Self { stream: Standard::Out }
    }

    /// Standard error.
    pub fn stderr() -> Self {
        Self { stream: Standard::Err }
    }

    /// Writes a line, at once.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        self.raw(&format!("{line}\n"))
    }

    /// Writes exactly this, at once.
    pub fn raw(&mut self, text: &str) -> io::Result<()> {
        let write = |stream: &mut dyn Write| {
            stream.write_all(text.as_bytes())?;
            stream.flush()
        };
        match self.stream {
            Standard::Out => write(&mut io::stdout().lock()),
            Standard::Err => write(&mut io::stderr().lock()),
        }
    }

    /// The columns and rows of the terminal it goes to; none when it is no terminal that can be drawn on.
    pub fn size(&self) -> Option<(usize, usize)> {
        let dumb = coppice_engine::env::var("TERM").is_none_or(|term| term == "dumb");
        if dumb || !matches!(self.stream, Standard::Out) || !io::stdout().is_terminal() {
            return None;
        }
        #[cfg(unix)]
        {
            let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
            Some((known(size.ws_col, "COLUMNS", 80).max(20), known(size.ws_row, "LINES", 24).max(4)))
        }
        #[cfg(not(unix))]
        None
    }
}

/// What the terminal tells; else what the environment tells; else what was usual for long.
#[cfg(unix)]
fn known(told: u16, name: &str, usual: usize) -> usize {
    match told {
        0 => coppice_engine::env::var(name).and_then(|size| size.parse().ok()).unwrap_or(usual),
        told => told.into(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::known;

    #[test]
    fn a_terminal_that_does_not_know_its_size_has_the_usual_one() {
        let sizes = [0, 40].map(|told| known(told, "COPPICE_NOT_SET", 80));
        assert_eq!(sizes, [80, 40]);
    }
}
