//! `everwarp top`: what all engines of the user do, on a screen that is renewed, once as text, or once as JSON.

mod app;
mod draw;
mod gather;
mod table;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{Event, KeyEventKind, poll, read};

use crate::control::ControlError;
use crate::error::CliError;
use crate::output::{print, print_json};
use app::{Action, App, Mode};
use gather::{Gatherer, Snapshot};
use table::{Rates, Tab};

#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// Show only the engines of the program with this process id.
    #[arg(long, value_name = "N")]
    engine: Option<u32>,
    /// Look this often, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// The largest number of processes or actors to show of each engine.
    #[arg(long, value_name = "N", default_value_t = 50)]
    most: u32,
    /// Print all tables once and end.
    #[arg(long)]
    once: bool,
    /// Print one JSON object; needs --once.
    #[arg(long, requires = "once")]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    match (0.1..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("it must be from 0.1 to 3600".to_owned()),
    }
}

/// `everwarp top`.
pub(crate) fn top(args: &TopArgs) -> Result<(), CliError> {
    let gatherer = Gatherer::new(args.engine);
    let first = gatherer.gather(args.most)?;
    if args.json {
        return print_json(&first);
    }
    if args.once {
        for silent in &first.silent {
            eprintln!("everwarp: warning: {}", silent.reason);
        }
        return print(&all_tables(&first));
    }
    if !std::io::stdout().is_terminal() {
        return Err(CliError::NoTerminal);
    }
    // Restores the terminal also after a panic.
    let mut terminal = ratatui::try_init().map_err(CliError::Stdout)?;
    let shown = show(&mut terminal, &gatherer, App::new(first), args);
    ratatui::try_restore().map_err(CliError::Stdout)?;
    shown
}

fn all_tables(snapshot: &Snapshot) -> String {
    let mut text = Vec::new();
    for tab in Tab::ALL {
        let table = table::table(tab, snapshot, &Rates::default());
        if !table.rows.is_empty() {
            text.push(format!("{}\n{}", tab.name(), table::text(&table)));
        }
    }
    text.join("\n\n")
}

/// Looks again. Engines that have all ended leave an empty screen.
fn look(gatherer: &Gatherer, app: &mut App, most: u32) -> Result<(), CliError> {
    match gatherer.gather(most) {
        Ok(snapshot) => app.update(snapshot),
        Err(ControlError::NoEngine | ControlError::UnknownEngine { .. }) => {
            app.update(Snapshot::default());
            app.message = "no engine runs any more".to_owned();
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    gatherer: &Gatherer,
    mut app: App,
    args: &TopArgs,
) -> Result<(), CliError> {
    let every = Duration::from_secs_f64(args.every);
    let mut next = Instant::now() + every;
    loop {
        terminal
            .draw(|frame| draw::draw(frame, &app))
            .map_err(CliError::Stdout)?;
        let left = next.saturating_duration_since(Instant::now());
        let mut action = Action::None;
        if poll(left).map_err(CliError::Stdout)? {
            action = match read().map_err(CliError::Stdout)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => app.key(key),
                // The next drawing takes the new size.
                _ => Action::None,
            };
        } else {
            next = Instant::now() + every;
            if !app.paused {
                action = Action::Refresh;
            }
        }
        match action {
            Action::None => {}
            Action::Quit => return Ok(()),
            Action::Refresh => look(gatherer, &mut app, args.most)?,
            Action::Order(target, order) => {
                let message = gatherer.order(&target, order);
                look(gatherer, &mut app, args.most)?;
                app.message = message;
            }
            Action::Inspect(target) => {
                app.inspected = match gatherer.actor(&target) {
                    Ok(Some(actor)) => {
                        vec![format!("state: {}", actor.content.unwrap_or_default())]
                    }
                    Ok(None) => vec!["it does not live any more".to_owned()],
                    Err(error) => vec![error.to_string()],
                };
                app.mode = Mode::Details;
            }
        }
    }
}
