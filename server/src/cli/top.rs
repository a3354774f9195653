//! `sluicegate top` shows the connections of the running server in a terminal, again and again.

use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::bail;
use hyper::Method;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};
use serde_json::Value;
use sluicegate_cc::Registry;

use super::admin_client::{AdminArgs, Reply, is_id};
use super::why::{HEAD, row, story};

/// Connections that are asked for.
const SHOWN: usize = 100;
/// Time in which a key has its effect.
const KEYS: Duration = Duration::from_millis(100);
/// Orders of the list, as the server names them.
const ORDERS: [(&str, &str); 5] = [
    ("busy", "the longest busy first"),
    ("stalled", "the longest wait first"),
    ("sent", "most sent first"),
    ("lost", "most lost first"),
    ("age", "the oldest first"),
];

/// Show the connections of the running server in the terminal, those that have been busy longest first.
///
/// A connection is busy while it waits for anything but its client. Keys: up and down choose a connection, Enter shows it, Esc leads
/// back, `s` changes the order, `q` ends.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TopArgs {
    #[command(flatten)]
    server: AdminArgs,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// Shows the connections until the operator has seen enough. Returns the exit code.
///
/// # Errors
/// The server cannot be asked at first, or standard output is no terminal.
pub(super) fn run(args: &TopArgs, registry: &Registry) -> anyhow::Result<u8> {
    if !std::io::stdout().is_terminal() {
        bail!("standard output is no terminal: `sluicegate why` prints the same once");
    }
    let mut view = View::default();
    match args.server.request(registry, &Method::GET, &view.target())? {
        Reply::WrongConfig(code) => return Ok(code),
        reply => view.on_reply(Ok(reply)),
    }
    let (asked, questions) = channel();
    let (answer, replies) = channel();
    std::thread::scope(|scope| {
        let (server, pause) = (&args.server, Duration::from_secs(args.interval));
        scope.spawn(move || ask(server, registry, pause, &questions, &answer));
        let shown = ratatui::run(|terminal| {
            loop {
                terminal.draw(|frame| view.draw(frame))?;
                if event::poll(KEYS)? && view.on_event(&event::read()?) {
                    return std::io::Result::Ok(());
                }
                while let Ok((target, reply)) = replies.try_recv() {
                    // The operator may have chosen something else meanwhile.
                    if target == view.target() {
                        view.on_reply(reply);
                    }
                }
                // The thread that asks ends after this one.
                let _ = asked.send(view.target());
            }
        });
        // Ends the thread that asks.
        drop(asked);
        shown
    })?;
    Ok(0)
}

type Answer = (String, anyhow::Result<Reply>);

/// Asks the server what the last question says, at once if that is new, until nobody asks.
fn ask(
    server: &AdminArgs,
    registry: &Registry,
    pause: Duration,
    questions: &Receiver<String>,
    answer: &Sender<Answer>,
) {
    let mut current = String::new();
    let mut left = Duration::ZERO;
    while let Ok(next) = questions.recv() {
        let next = questions.try_iter().last().unwrap_or(next);
        left = if next == current { left.saturating_sub(KEYS) } else { Duration::ZERO };
        current = next;
        if left.is_zero() {
            left = pause;
            let reply = server.request(registry, &Method::GET, &current);
            if answer.send((current.clone(), reply)).is_err() {
                return;
            }
        }
    }
}

/// What the terminal shows.
#[derive(Debug, Default)]
struct View {
    list: Value,
    chosen: TableState,
    order: usize,
    /// Connection whose page is shown, and the page once it has come.
    one: Option<(String, Option<Value>)>,
    problem: String,
}

impl View {
    /// Returns the path of what is shown.
    fn target(&self) -> String {
        match &self.one {
            Some((id, _)) => format!("/debug/connections/{id}"),
            None => format!("/debug/connections?limit={SHOWN}&sort={}", ORDERS[self.order].0),
        }
    }

    fn on_reply(&mut self, reply: anyhow::Result<Reply>) {
        self.problem.clear();
        match (reply, &mut self.one) {
            (Ok(Reply::Found(page)), Some((_, shown))) => *shown = Some(page),
            (Ok(Reply::Found(list)), None) => {
                self.list = list;
                let count = self.connections().len();
                self.chosen.select(match self.chosen.selected() {
                    _ if count == 0 => None,
                    chosen => Some(chosen.unwrap_or(0).min(count - 1)),
                });
            }
            (Ok(Reply::NotFound(reason)), _) => self.problem = reason.trim_end().to_owned(),
            (Ok(Reply::WrongConfig(_)), _) => {
                self.problem = "the configuration has become wrong".to_owned();
            }
            (Err(error), _) => self.problem = format!("{error:#}"),
        }
    }

    fn connections(&self) -> &[Value] {
        self.list["connections"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns whether the operator has seen enough.
    fn on_event(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else {
            return false;
        };
        if key.kind == KeyEventKind::Release {
            return false;
        }
        match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.one = None,
            KeyCode::Char('s') => {
                self.one = None;
                self.order = (self.order + 1) % ORDERS.len();
            }
            KeyCode::Down | KeyCode::Char('j') => self.chosen.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.chosen.select_previous(),
            KeyCode::Enter | KeyCode::Right if self.one.is_none() => {
                let chosen = self.chosen.selected().and_then(|place| self.connections().get(place));
                let id = chosen.and_then(|one| one["id"].as_str());
                let id = id.filter(|id| is_id(id));
                self.one = id.map(|id| (id.to_owned(), None));
            }
            _ => {}
        }
        false
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let [top, middle, bottom] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
                .areas(frame.area());
        frame.render_widget(Paragraph::new(self.summary()), top);
        match &self.one {
            Some((_, page)) => {
                let text = page.as_ref().map_or_else(|| "…".to_owned(), story);
                frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), middle);
            }
            None => {
                let rows = self.connections().iter().map(|one| Row::new(row(one).map(Cell::from)));
                let rows: Vec<Row<'_>> = rows.collect();
                let table = Table::new(rows, WIDTHS)
                    .header(Row::new(HEAD).style(bold))
                    .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
                frame.render_stateful_widget(table, middle, &mut self.chosen);
            }
        }
        let last = match (self.problem.is_empty(), &self.one) {
            (false, _) => Line::styled(self.problem.as_str(), bold),
            (true, Some(_)) => Line::raw("Esc back   q end"),
            (true, None) => Line::raw("↑ ↓ choose   Enter show   s order   q end"),
        };
        frame.render_widget(Paragraph::new(last), bottom);
    }

    /// Returns the lines above the table: how many connections there are, and what they wait for.
    fn summary(&self) -> Vec<Line<'static>> {
        let count = self.list["count"].as_u64().unwrap_or(0);
        let mut waits: Vec<(&str, u64)> = { self.list["waits"].as_object().into_iter().flatten() }
            .map(|(wait, count)| (wait.as_str(), count.as_u64().unwrap_or(0)))
            .collect();
        waits.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let waits: Vec<String> =
            waits.into_iter().map(|(wait, count)| format!("{wait} {count}")).collect();
        vec![
            Line::raw(format!("connections: {count}; {}", ORDERS[self.order].1)),
            Line::raw(waits.join(", ")),
        ]
    }
}

const WIDTHS: [Constraint; 11] = [
    Constraint::Min(16),
    Constraint::Min(21),
    Constraint::Length(8),
    Constraint::Length(8),
    Constraint::Min(24),
    Constraint::Length(9),
    Constraint::Length(9),
    Constraint::Length(8),
    Constraint::Length(8),
    Constraint::Length(8),
    Constraint::Length(8),
];

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyEvent;
    use serde_json::json;

    use super::*;

    fn shown(view: &mut View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(130, 12)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn press(view: &mut View, code: KeyCode) -> bool {
        view.on_event(&Event::Key(KeyEvent::from(code)))
    }

    fn connection(id: &str) -> Value {
        json!({
            "id": id, "client": "192.0.2.1:5", "wait": "congestion_control", "waiting_ms": 4200.0, "algorithm": "cubic",
            "congestion_window_bytes": 2400, "rtt_ms": 120.0, "sent_bytes": 100_000, "lost_bytes": 12_000, "waits_ms": {},
        })
    }

    #[test]
    fn keys_lead_from_the_list_to_a_connection_and_back() {
        let mut view = View::default();
        let list = json!({
            "count": 7, "waits": { "client": 2, "congestion_control": 5 },
            "connections": [connection("8a0f"), connection("9b10")],
        });
        view.on_reply(Ok(Reply::Found(list)));
        let text = shown(&mut view);
        for part in [
            "connections: 7; the longest busy first",
            "congestion_control 5, client 2",
            "WAITS FOR",
            "8a0f",
            "192.0.2.1:5",
            "congestion_control  ",
            "4.2 s",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        press(&mut view, KeyCode::Down);
        press(&mut view, KeyCode::Enter);
        assert_eq!(view.target(), "/debug/connections/9b10");
        view.on_reply(Ok(Reply::Found(connection("9b10"))));
        assert!(shown(&mut view).contains("waits for  congestion_control, for 4.2 s"));
        view.on_reply(Ok(Reply::NotFound("it has ended\n".to_owned())));
        assert!(shown(&mut view).contains("it has ended"));
        press(&mut view, KeyCode::Esc);
        assert_eq!(view.target(), "/debug/connections?limit=100&sort=busy");
        press(&mut view, KeyCode::Char('s'));
        assert!(view.target().ends_with("sort=stalled"));
        assert!(press(&mut view, KeyCode::Char('q')));
    }

    /// Whatever listens at the address may be no Sluicegate.
    #[test]
    fn strange_replies_and_small_terminals_do_no_harm() {
        let mut view = View::default();
        for reply in [json!(null), json!({ "connections": [{ "id": "\u{1b}[2J" }, 3] }), json!([])]
        {
            view.on_reply(Ok(Reply::Found(reply)));
            press(&mut view, KeyCode::Down);
            press(&mut view, KeyCode::Enter);
            assert!(view.one.is_none());
            assert!(!shown(&mut view).contains('\u{1b}'));
        }
        view.on_reply(Err(anyhow::anyhow!("nobody listens")));
        assert!(shown(&mut view).contains("nobody listens"));
        let mut terminal = Terminal::new(TestBackend::new(3, 1)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
    }
}
