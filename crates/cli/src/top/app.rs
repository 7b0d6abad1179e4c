//! The state of the screen, and what keys do to it.

use std::time::Instant;

use everwarp_telemetry::registry::Order;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::gather::{Snapshot, Target};
use super::table::{Rates, Tab, Table, table};

/// What is to be done after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    None,
    /// End.
    Quit,
    /// Look again, now.
    Refresh,
    /// Give an order.
    Order(Target, Order),
    /// Describe an actor.
    Inspect(Target),
}

/// The part of the screen that gets the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The table.
    Table,
    /// The text by which rows are chosen.
    Filter,
    /// The details of the selected row.
    Details,
    /// The question whether something is to end.
    Kill(Target),
    /// The list of keys.
    Help,
}

/// The screen.
pub(super) struct App {
    pub(super) tab: Tab,
    pub(super) mode: Mode,
    pub(super) filter: String,
    /// The column by which a table is sorted; none: as the engines list it.
    pub(super) sort: Option<usize>,
    pub(super) reversed: bool,
    pub(super) selected: usize,
    pub(super) paused: bool,
    /// The last thing that happened.
    pub(super) message: String,
    /// What is known of the actor that was inspected.
    pub(super) inspected: Vec<String>,
    pub(super) snapshot: Snapshot,
    rates: Rates,
    at: Instant,
}

impl App {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            tab: Tab::Engines,
            mode: Mode::Table,
            filter: String::new(),
            sort: None,
            reversed: false,
            selected: 0,
            paused: false,
            message: String::new(),
            inspected: Vec::new(),
            snapshot,
            rates: Rates::default(),
            at: Instant::now(),
        }
    }

    /// Takes what there is now.
    pub(super) fn update(&mut self, snapshot: Snapshot) {
        let now = Instant::now();
        let seconds = (now - self.at).as_secs_f64();
        self.rates = Rates::between(&self.snapshot, &snapshot, seconds);
        (self.snapshot, self.at) = (snapshot, now);
    }

    /// The table on the screen.
    pub(super) fn table(&self) -> Table {
        let mut table = table(self.tab, &self.snapshot, &self.rates);
        table.filter(&self.filter);
        if let Some(column) = self.sort {
            table.sort(column.min(table.columns.len() - 1), self.reversed);
        }
        table
    }

    /// The row that is selected.
    pub(super) fn row(&self, table: &Table) -> usize {
        self.selected.min(table.rows.len().saturating_sub(1))
    }

    fn target(&self) -> Option<Target> {
        let table = self.table();
        table.rows.get(self.row(&table))?.target.clone()
    }

    fn show(&mut self, tab: Tab) -> Action {
        (self.tab, self.sort, self.reversed, self.selected) = (tab, None, false, 0);
        Action::None
    }

    fn turn(&mut self, by: usize) -> Action {
        let at = Tab::ALL
            .iter()
            .position(|tab| *tab == self.tab)
            .unwrap_or(0);
        self.show(Tab::ALL[(at + by) % Tab::ALL.len()])
    }

    /// What a key does.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        match self.mode.clone() {
            Mode::Filter => self.key_of_filter(key.code),
            Mode::Kill(target) => {
                self.mode = Mode::Table;
                match key.code {
                    KeyCode::Char('y') => Action::Order(target, Order::Kill),
                    _ => {
                        self.message = "nothing was ended".to_owned();
                        Action::None
                    }
                }
            }
            Mode::Help | Mode::Details => {
                self.mode = Mode::Table;
                Action::None
            }
            Mode::Table => self.key_of_table(key.code),
        }
    }

    fn key_of_filter(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Enter => self.mode = Mode::Table,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
        Action::None
    }

    fn key_of_table(&mut self, code: KeyCode) -> Action {
        self.message.clear();
        let rows = self.table().rows.len();
        let columns = self.table().columns.len();
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Esc => {
                self.filter.clear();
                self.sort = None;
            }
            KeyCode::Tab | KeyCode::Right => return self.turn(1),
            KeyCode::BackTab | KeyCode::Left => return self.turn(Tab::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='7') => {
                return self.show(Tab::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Down | KeyCode::Char('j') => {
                self.selected = (self.selected + 1).min(rows.saturating_sub(1));
            }
            KeyCode::Up | KeyCode::Char('k') => {
                self.selected = self.selected.min(rows).saturating_sub(1);
            }
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = rows.saturating_sub(1),
            KeyCode::PageDown => self.selected = (self.selected + 10).min(rows.saturating_sub(1)),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            KeyCode::Char('s') => {
                self.sort = Some(self.sort.map_or(0, |column| (column + 1) % columns));
            }
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char(' ') => return Action::Refresh,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Enter => {
                self.inspected.clear();
                self.mode = Mode::Details;
                if let Some(target) = self.target().filter(|target| target.is_actor) {
                    return Action::Inspect(target);
                }
            }
            KeyCode::Char('x') => match self.target() {
                Some(target) => self.mode = Mode::Kill(target),
                None => self.message = "select a process or an actor first".to_owned(),
            },
            KeyCode::Char(letter @ ('d' | 'a')) => {
                let order = if letter == 'd' {
                    Order::Deactivate
                } else {
                    Order::Activate
                };
                match self.target().filter(|target| target.is_actor) {
                    Some(target) => return Action::Order(target, order),
                    None => {
                        self.message =
                            "select an actor first: only actors can keep their messages".to_owned()
                    }
                }
            }
            _ => {}
        }
        Action::None
    }
}
