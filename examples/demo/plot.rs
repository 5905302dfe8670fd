//! The board as a plot, below the prompt of a terminal.

use std::io::{self, Write};
use std::time::Duration;

use flowgate::Timestamp;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType};
use ratatui::{DefaultTerminal, Frame, TerminalOptions, Viewport};

use crate::board::{Board, TICKS, Tally};
use crate::{PHASE_SECONDS, PHASES, SECONDS, lines};

const HEIGHT: u16 = 23;
/// Less room would cut the names of the phases.
const LABELLED_WIDTH_MIN: u16 = 70;
const FRAME: Duration = Duration::from_millis(100);

const PASSED: Color = Color::Green;
const BLOCKED: Color = Color::Red;
const WAITED: Color = Color::Yellow;

/// Draws until the board is closed, or closes it when told to by a key. The
/// last picture stays on the screen.
pub(crate) fn show(board: &Board, limit: f64) -> io::Result<()> {
    let options = TerminalOptions {
        viewport: Viewport::Inline(HEIGHT),
    };
    let mut terminal = match ratatui::try_init_with_options(options) {
        Ok(terminal) => terminal,
        // Terminals that do not say where their cursor is.
        Err(_) => {
            ratatui::restore();
            return lines::show(board);
        }
    };
    let drawn = draw_until_closed(&mut terminal, board, limit);
    let end = terminal.get_frame().area().bottom().saturating_sub(1);
    let left = terminal.set_cursor_position((0, end));
    let left = left.and_then(|()| terminal.show_cursor());
    ratatui::restore();
    let below = writeln!(io::stdout());
    drawn.and(left).and(below)
}

fn draw_until_closed(terminal: &mut DefaultTerminal, board: &Board, limit: f64) -> io::Result<()> {
    let clock = flowgate::Clock::system();
    while !board.is_closed() {
        terminal.draw(|frame| draw(frame, board, clock.now(), limit))?;
        if event::poll(FRAME)? && is_quit(&event::read()?) {
            board.close();
        }
    }
    terminal.draw(|frame| draw(frame, board, clock.now(), limit))?;
    Ok(())
}

fn is_quit(event: &Event) -> bool {
    let Event::Key(key) = event else {
        return false;
    };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    let is_quit = control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    is_quit && key.kind == KeyEventKind::Press
}

fn draw(frame: &mut Frame<'_>, board: &Board, now: Timestamp, limit: f64) {
    let tick = board.tick_at(now).min(SECONDS * TICKS);
    let curves = Curves::of(&board.tallies().ticks[..tick]);
    let [head, seconds, tenths, waits] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ])
    .areas(frame.area());
    frame.render_widget(heading(tick, &curves), head);
    let at_limit = [(0.0, limit), (SECONDS as f64, limit)];
    Plot {
        title: "calls in each second",
        top: 800.0,
        curves: &[
            (&at_limit, Color::DarkGray),
            (&curves.blocked, BLOCKED),
            (&curves.passed, PASSED),
        ],
        names_phases: seconds.width >= LABELLED_WIDTH_MIN,
    }
    .render(frame, seconds);
    Plot {
        title: "passed in each tenth of a second",
        top: 200.0,
        curves: &[(&curves.passed_in_tenth, PASSED)],
        names_phases: false,
    }
    .render(frame, tenths);
    Plot {
        title: "mean and longest wait in each second, ms",
        top: 400.0,
        curves: &[
            (&curves.longest_wait, Color::DarkGray),
            (&curves.mean_wait, WAITED),
        ],
        names_phases: false,
    }
    .render(frame, waits);
}

/// Time in seconds, and a value.
type Curve = Vec<(f64, f64)>;

/// What is drawn.
#[derive(Default)]
struct Curves {
    passed: Curve,
    blocked: Curve,
    passed_in_tenth: Curve,
    mean_wait: Curve,
    longest_wait: Curve,
}

impl Curves {
    fn of(ticks: &[Tally]) -> Self {
        let mut curves = Curves::default();
        for (index, tick) in ticks.iter().enumerate() {
            let at = (index + 1) as f64 / TICKS as f64;
            curves.passed_in_tenth.push((at, tick.passed as f64));
        }
        for (second, ticks) in ticks.chunks_exact(TICKS).enumerate() {
            let sum = Tally::of(ticks);
            let ms = |wait: Duration| wait.as_secs_f64() * 1e3;
            for (curve, value) in [
                (&mut curves.passed, sum.passed as f64),
                (&mut curves.blocked, sum.blocked as f64),
                (&mut curves.mean_wait, ms(sum.wait_mean())),
                (&mut curves.longest_wait, ms(sum.wait_max)),
            ] {
                let begin = second as f64;
                curve.extend([(begin, value), (begin + 1.0, value)]);
            }
        }
        curves
    }
}

/// The phases, the present one marked, and the figures of the last second.
fn heading(tick: usize, curves: &Curves) -> Line<'static> {
    let phase = (tick / TICKS / PHASE_SECONDS).min(PHASES.len() - 1);
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (index, it) in PHASES.iter().enumerate() {
        let name = format!(" {} ", it.name);
        spans.push(match index == phase {
            true => name.bold().reversed(),
            false => name.dim(),
        });
    }
    let newest = |curve: &Curve| curve.last().map_or(0.0, |(_, value)| *value);
    spans.push(format!("  {:>4} passed", newest(&curves.passed)).fg(PASSED));
    spans.push(format!("  {:>4} blocked", newest(&curves.blocked)).fg(BLOCKED));
    spans.push(format!("  {:>3.0} ms mean wait", newest(&curves.mean_wait)).fg(WAITED));
    Line::from(spans)
}

struct Plot<'a> {
    title: &'static str,
    /// The value at the top.
    top: f64,
    curves: &'a [(&'a [(f64, f64)], Color)],
    names_phases: bool,
}

impl Plot<'_> {
    fn render(&self, frame: &mut Frame<'_>, area: Rect) {
        let [caption, area] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        frame.render_widget(Line::from(self.title).dim(), caption);
        let swaps: Vec<Curve> = (1..PHASES.len())
            .map(|phase| (phase * PHASE_SECONDS) as f64)
            .map(|at| vec![(at, 0.0), (at, self.top)])
            .collect();
        let swaps = swaps.iter().map(|swap| (&swap[..], Color::DarkGray));
        let data_set = |(points, color)| {
            Dataset::default()
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(Style::new().fg(color))
                .data(points)
        };
        let sets = swaps.chain(self.curves.iter().copied()).map(data_set);
        let mut x = Axis::default().bounds([0.0, SECONDS as f64]);
        if self.names_phases {
            x = x.labels(phase_labels());
        }
        let y = Axis::default()
            .bounds([0.0, self.top])
            .labels(["   0".to_owned(), format!("{:>4}", self.top)]);
        frame.render_widget(Chart::new(sets.collect()).x_axis(x).y_axis(y), area);
    }
}

/// `0 s`, `reject`, `5 s`, ...: they stand at equal distances.
fn phase_labels() -> Vec<String> {
    let mut labels = vec!["0 s".to_owned()];
    for (index, phase) in PHASES.iter().enumerate() {
        labels.push(phase.name.to_owned());
        labels.push(format!("{} s", (index + 1) * PHASE_SECONDS));
    }
    labels
}
