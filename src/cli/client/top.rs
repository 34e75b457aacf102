//! `top`: the state of a server, live in the terminal.

mod model;
mod rates;
mod screen;
mod view;

use std::{io, pin::pin, time::Duration};

use clap::Args;
use futures::{
    FutureExt,
    future::{Fuse, FusedFuture},
};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep_until, timeout},
};

use self::{model::Sample, screen::Screen, view::View};
use super::{at::duration, failure::Failure, http::Client, work::any_of};
use crate::job::Millis;

/// Timeout of the requests of one sample, so that a server that is frozen counts as unavailable.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Live view of a server.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Top {
    /// Time between two samples, from 500ms to 60s
    #[arg(long, value_name = "DURATION", value_parser = interval, default_value = "1s")]
    interval: Millis,
}

const HELP: &str = "\
Keys: up and down (or k and j) choose a topic, whose due jobs are shown; q, Esc or Ctrl-C quits.

Exit codes: 0 done, 1 refused by the server, 2 wrong use (no terminal), 4 server unreachable at the
start, 5 not allowed (token)";

fn interval(text: &str) -> Result<Millis, String> {
    let interval = duration(text)?;
    match (500..=60_000).contains(&interval.get()) {
        true => Ok(interval),
        false => Err("must be from 500ms to 60s".to_owned()),
    }
}

impl Top {
    /// Shows samples until a key or a signal ends it. Once it runs, it waits for a server that is
    /// unavailable.
    pub async fn run(self, client: &Client) -> Result<(), Failure> {
        screen::check_terminal()?;
        let first = sample(client, None).await?;
        let mut view = View::new(&client.url);
        view.take(Ok(first));
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::quit()];
        let kinds = kinds.into_iter().chain([SignalKind::hangup()]);
        let mut signals = kinds.map(signal).collect::<io::Result<Vec<_>>>()?;
        let mut screen = Screen::open()?;
        let mut sampling = pin!(Fuse::terminated());
        let mut next = Instant::now(); // the first sample has no due jobs
        loop {
            screen.draw(&mut view)?;
            tokio::select! {
                event = screen.event() => match event {
                    Some(event) if !is_quit(&event) => {
                        // The due jobs are those of another topic.
                        if view.handle(&event) {
                            next = Instant::now();
                        }
                    }
                    _ => return Ok(()),
                },
                _ = any_of(&mut signals) => return Ok(()),
                taken = &mut sampling, if !sampling.is_terminated() => {
                    next = Instant::now() + self.interval.into();
                    let taken: Result<Sample, Failure> = taken;
                    match taken {
                        Err(failure) if !failure.is_temporary() => return Err(failure),
                        taken => view.take(taken),
                    }
                }
                () = sleep_until(next), if sampling.is_terminated() => {
                    let topic = view.selected().map(str::to_owned);
                    sampling.set(sample(client, topic).fuse());
                }
            }
        }
    }
}

/// Reads the state of the server, and what is due of a topic.
async fn sample(client: &Client, topic: Option<String>) -> Result<Sample, Failure> {
    let too_late = |_| {
        let text = format!("{} did not answer within {SAMPLE_TIMEOUT:?}", client.url);
        Failure::Unreachable(text)
    };
    timeout(SAMPLE_TIMEOUT, Sample::read(client, topic.as_deref())).await.map_err(too_late)?
}

/// Returns whether a key ends the view. In raw mode, Ctrl-C is a key and no signal.
fn is_quit(event: &Event) -> bool {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return false;
    };
    match code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}
