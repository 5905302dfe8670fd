//! The chart of the page on benchmarks: one call of ours and of the peer's, on a
//! logarithmic axis.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::line::{Line, Unit};
use crate::report::Report;

const OURS: RGBColor = RGBColor(31, 119, 180);
const THEIRS: RGBColor = RGBColor(190, 190, 190);
const ROW: u32 = 44;
const WIDTH: u32 = 900;

/// Draws the lines whose value is a ratio of two times of a call.
pub(crate) fn draw(report: &Report, file: &Path) -> Result<()> {
    let build = if report.lines.iter().any(|line| line.build == "lto") {
        "lto"
    } else {
        "default"
    };
    let lines: Vec<&Line> = report
        .lines
        .iter()
        .filter(|line| line.build == build && line.unit == Unit::Ratio)
        .filter(|line| line.name != "swap_callers")
        .collect();
    bars(&lines, build, file).map_err(|error| anyhow!("{error}"))
}

fn bars(lines: &[&Line], build: &str, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let height = 110 + ROW * lines.len() as u32;
    let root = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let longest = lines
        .iter()
        .flat_map(|line| [line.ours_ns, line.peer_ns])
        .flatten()
        .fold(10.0, f64::max);
    let title = format!("Nanoseconds per call (logarithmic; build: {build})");
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(260)
        .build_cartesian_2d((1.0..longest * 12.0).log_scale(), 0.0..lines.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(8)
        .x_label_formatter(&|ns| format!("{ns}"))
        .draw()?;
    let small = ("sans-serif", 13).into_font();
    for (row, line) in lines.iter().rev().enumerate() {
        let bottom = row as f64;
        let sides = [
            (line.ours_ns, OURS, 0.5, "Flowgate"),
            (line.peer_ns, THEIRS, 0.12, line.peer.as_str()),
        ];
        for (time, colour, offset, name) in sides {
            let Some(time) = time else { continue };
            let (low, high) = (bottom + offset, bottom + offset + 0.36);
            let bar = Rectangle::new([(1.0, low), (time.max(1.0), high)], colour.filled());
            let label = Text::new(
                format!("\u{a0}{time:.1} ns, {name}"),
                (time.max(1.0), high - 0.04),
                small.clone(),
            );
            chart.draw_series([bar])?;
            chart.draw_series([label])?;
        }
        let (_, y) = chart.backend_coord(&(1.0, bottom + 0.66));
        root.draw(&Text::new(line.name.clone(), (14, y), small.clone()))?;
    }
    root.present()?;
    Ok(())
}
