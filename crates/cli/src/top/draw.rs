//! The screen of `everwarp top`.

use everwarp_telemetry::view::HealthState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::app::{App, Mode};
use super::table::{self, Tab, bytes};

const KEYS: &[&str] = &[
    "Tab, left, right, 1 to 7   another table",
    "up, down, j, k             select a row",
    "Enter                      the details of the row, and the state of an actor",
    "s, r                       sort by the next column, reverse the order",
    "/                          show the rows that contain a text; Esc shows all",
    "d, a                       deactivate an actor, activate it again",
    "x                          end a process or an actor, after a question",
    "p, space                   stop looking or go on, look now",
    "q                          quit",
];

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [head, tabs, body, foot] = areas.areas(frame.area());
    frame.render_widget(Paragraph::new(summary(app)), head);
    frame.render_widget(Paragraph::new(tab_line(app)), tabs);
    draw_table(frame, app, body);
    frame.render_widget(Paragraph::new(foot_line(app)), foot);
    match &app.mode {
        Mode::Details => popup(frame, body, "details: any key goes back", &details(app)),
        Mode::Help => {
            let keys: Vec<_> = KEYS.iter().map(|key| (*key).to_owned()).collect();
            popup(frame, body, "keys: any key goes back", &keys);
        }
        _ => {}
    }
}

fn summary(app: &App) -> Line<'static> {
    let snapshot = &app.snapshot;
    let engines: usize = snapshot.programs.iter().map(|p| p.engines.len()).sum();
    let hosts = snapshot
        .programs
        .iter()
        .flat_map(|p| &p.hosts)
        .chain(&snapshot.served);
    let (running, waiting) = hosts.fold((0, 0), |(r, w), h| (r + h.running, w + h.waiting));
    let actors: u32 = snapshot
        .programs
        .iter()
        .flat_map(|p| &p.systems)
        .map(|s| s.live)
        .sum();
    let mut text = format!(
        "everwarp top: {engines} engines, {running} processes running, {waiting} waiting, {actors} actors"
    );
    for gpu in &snapshot.gpus {
        let watts = gpu
            .power_w
            .map_or_else(String::new, |watts| format!(" {watts:.0} W"));
        let used = gpu
            .memory_used
            .map_or_else(String::new, |used| format!(" {}", bytes(used)));
        text += &format!("; GPU {}{watts}{used}", gpu.number);
    }
    if app.paused {
        text += " (paused)";
    }
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

fn tab_line(app: &App) -> Line<'static> {
    let tabs = Tab::ALL.iter().enumerate().flat_map(|(number, tab)| {
        let style = match *tab == app.tab {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        [
            Span::styled(format!("{} {}", number + 1, tab.name()), style),
            Span::raw("  "),
        ]
    });
    Line::from(tabs.collect::<Vec<_>>())
}

fn foot_line(app: &App) -> String {
    match &app.mode {
        Mode::Filter => format!(
            "rows with: {}_   (Enter keeps it, Esc shows all)",
            app.filter
        ),
        Mode::Kill(target) => format!(
            "end {} of program {}? y ends it, any other key does not",
            target.id, target.os_pid
        ),
        _ if !app.message.is_empty() => app.message.clone(),
        _ if !app.filter.is_empty() => format!("rows with `{}`   (Esc shows all)", app.filter),
        _ => "? keys   q quit".to_owned(),
    }
}

fn colour(health: HealthState) -> Style {
    match health {
        HealthState::Ok => Style::new(),
        HealthState::Degraded => Style::new().fg(Color::Yellow),
        HealthState::Failed => Style::new().fg(Color::Red),
    }
}

fn draw_table(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let shown = app.table();
    if shown.rows.is_empty() {
        let text = match app.filter.is_empty() {
            true => format!("there are no {}", app.tab.name()),
            false => format!("no {} contain `{}`", app.tab.name(), app.filter),
        };
        return frame.render_widget(Paragraph::new(text), area);
    }
    let width = |column: usize| {
        let cells = shown
            .rows
            .iter()
            .map(|row| row.cells[column].text().chars().count());
        // One more for the mark of the sorted column.
        let widest = cells
            .chain([shown.columns[column].len() + 1])
            .max()
            .unwrap_or(0);
        Constraint::Length(widest as u16)
    };
    let widths: Vec<_> = (0..shown.columns.len()).map(width).collect();
    let head =
        shown
            .columns
            .iter()
            .enumerate()
            .map(|(number, name)| match app.sort == Some(number) {
                true => Cell::from(format!("{name}{}", if app.reversed { "^" } else { "v" })),
                false => Cell::from(*name),
            });
    let head = Row::new(head).style(Style::new().add_modifier(Modifier::BOLD));
    let rows = shown.rows.iter().map(|row| {
        let cells = row.cells.iter().map(|cell| match cell {
            table::Cell::Text(text) => Cell::from(text.clone()),
            table::Cell::Number(_, text) => Cell::from(Line::from(text.clone()).right_aligned()),
        });
        Row::new(cells).style(colour(row.health))
    });
    let drawn = Table::new(rows, widths)
        .header(head)
        .column_spacing(2)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(app.row(&shown)));
    frame.render_stateful_widget(drawn, area, &mut state);
}

fn details(app: &App) -> Vec<String> {
    let shown = app.table();
    let Some(row) = shown.rows.get(app.row(&shown)) else {
        return vec!["there is nothing to describe".to_owned()];
    };
    let cells = shown.columns.iter().zip(&row.cells);
    let cells = cells.map(|(name, cell)| format!("{:<10} {}", name.to_lowercase(), cell.text()));
    let inspected = app.inspected.iter().cloned();
    cells
        .chain(row.details.iter().cloned())
        .chain(inspected)
        .collect()
}

fn popup(frame: &mut Frame<'_>, over: Rect, title: &str, lines: &[String]) {
    let area = Rect {
        x: over.x + 2,
        y: over.y + 1,
        width: over.width.saturating_sub(4),
        height: (lines.len() as u16 + 8).min(over.height.saturating_sub(1)),
    };
    if area.width == 0 || area.height == 0 {
        return;
    }
    let text: Vec<_> = lines.iter().map(|line| Line::from(line.clone())).collect();
    let block = Block::bordered().title(title.to_owned());
    frame.render_widget(Clear, area);
    frame.render_widget(
        Paragraph::new(text).block(block).wrap(Wrap { trim: false }),
        area,
    );
}
