//! Plots the progress of downloads over time.

use std::fmt::Display;
use std::path::Path;

use plotters::prelude::*;

use super::error::RealNetError;

const SIZE: (u32, u32) = (1_000, 500);

const PALETTE: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(214, 39, 40),
    RGBColor(255, 127, 14),
    RGBColor(127, 127, 127),
];

/// Downloads of one kind, each as points of seconds and million bytes.
#[derive(Debug)]
pub struct Series {
    /// Name for the legend.
    pub name: String,
    /// A line for each download.
    pub lines: Vec<Vec<(f64, f64)>>,
}

/// Draws downloads into an SVG file, until `end` seconds.
///
/// # Errors
///
/// The file cannot be written.
pub fn progress(path: &Path, title: &str, series: &[Series], end: f64) -> Result<(), RealNetError> {
    draw(path, title, series, end)
        .map_err(|cause| RealNetError::Plot(path.display().to_string(), cause))
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn draw(path: &Path, title: &str, series: &[Series], end: f64) -> Result<(), String> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(text)?;
    let points = series.iter().flat_map(|series| series.lines.iter().flatten());
    let highest = points.map(|point| point.1).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(26)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..1.05 * highest)
        .map_err(text)?;
    chart
        .configure_mesh()
        .y_desc("million bytes delivered")
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|seconds| format!("{seconds} s"))
        .draw()
        .map_err(text)?;
    for (number, series) in series.iter().enumerate() {
        let color = PALETTE[number % PALETTE.len()];
        for (line, points) in series.lines.iter().enumerate() {
            let inside = points.iter().copied().filter(|point| point.0 <= end);
            let drawn =
                chart.draw_series(LineSeries::new(inside, color.stroke_width(1))).map_err(text)?;
            if line == 0 {
                drawn
                    .label(series.name.as_str())
                    .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], color));
            }
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .draw()
        .map_err(text)?;
    root.present().map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_names_each_series() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("progress.svg");
        let series = ["cubic", "reno"].map(|name| Series {
            name: name.to_owned(),
            lines: vec![vec![(0.0, 0.0), (1.0, 10.0)]; 2],
        });
        progress(&path, "a title", &series, 2.0).expect("drawn");
        let svg = std::fs::read_to_string(path).expect("written");
        for text in ["a title", "cubic", "reno"] {
            assert!(svg.contains(text), "{text}");
        }
    }
}
