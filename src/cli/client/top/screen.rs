//! The terminal: switched to the alternate screen, and restored at every end.

use std::{
    io::{self, IsTerminal},
    thread,
};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event},
};
use tokio::sync::mpsc;

use super::{super::failure::Failure, view::View};

/// The terminal while the view runs. Dropping it restores the terminal; so does a panic.
pub struct Screen {
    terminal: DefaultTerminal,
    events: mpsc::UnboundedReceiver<Event>,
}

/// Checks that there is a terminal to show the view on.
///
/// # Errors
/// Standard input or output is none.
pub fn check_terminal() -> Result<(), Failure> {
    match io::stdin().is_terminal() && io::stdout().is_terminal() {
        true => Ok(()),
        false => Err(Failure::Usage(
            "top needs a terminal: use `delay-queue topics` for a pipe or a file".to_owned(),
        )),
    }
}

impl Screen {
    /// Switches the terminal, and starts to read keys.
    ///
    /// # Errors
    /// The terminal cannot be switched.
    pub fn open() -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        let (sender, events) = mpsc::unbounded_channel();
        // Ends with the process, since nothing can interrupt the read.
        thread::spawn(move || {
            while let Ok(event) = event::read() {
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        Ok(Self { terminal, events })
    }

    /// Draws the view in the present size of the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, view: &mut View) -> io::Result<()> {
        self.terminal.draw(|frame| view.render(frame)).map(drop)
    }

    /// Waits for a key or another size; `None` if the terminal is gone.
    pub async fn event(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = ratatui::try_restore();
    }
}
