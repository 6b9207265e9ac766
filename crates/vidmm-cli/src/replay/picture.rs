//! A picture: the share of the bytes used that is brought in, by the size of memory; a curve for each policy and for the optimum.

use std::{collections::BTreeMap, error::Error, path::Path};

use plotters::prelude::*;

use super::row::Row;
use crate::output::write_file;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 540;

/// The width of the list of curves beside the plot.
const LEGEND_WIDTH: i32 = 220;

/// A policy has the same colour in every picture, whatever others are there.
const COLOURS: [(&str, RGBColor); 6] = [
    (OPTIMUM, BLACK),
    ("lru", RGBColor(31, 119, 180)),
    ("clock", RGBColor(44, 160, 44)),
    ("s3-fifo", RGBColor(230, 110, 0)),
    ("lfu-da", RGBColor(148, 80, 190)),
    ("predict", RGBColor(214, 39, 40)),
];

const OPTIMUM: &str = "(optimum)";

/// Points by the size of memory in hundredths of a percent of the footprint: the shares brought in, in percent, of each seed.
type Curve = BTreeMap<u64, Vec<f64>>;

/// Draws the rows, inputs below each other.
pub fn write(path: &Path, rows: &[Row]) -> Result<(), Box<dyn Error>> {
    let inputs = Vec::from_iter(rows.chunk_by(|one, other| one.input == other.input));
    let count = inputs.len().max(1);
    let mut picture = String::new();
    let root = SVGBackend::with_string(&mut picture, (WIDTH, HEIGHT * count as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, rows) in root.split_evenly((count, 1)).iter().zip(inputs) {
        let curves = curves(rows);
        let shares = || curves.values().flat_map(points);
        let most = shares().map(|(_, share)| share).fold(1.0, f64::max) * 1.05;
        let least = shares().map(|(size, _)| size).fold(f64::INFINITY, f64::min);
        let largest = shares().map(|(size, _)| size).fold(0.0, f64::max);
        let (plot, legend) = area.split_horizontally(WIDTH as i32 - LEGEND_WIDTH);
        let mut chart = ChartBuilder::on(&plot)
            .caption(file_name(&rows[0].input), ("sans-serif", 20))
            .margin(20)
            .x_label_area_size(45)
            .y_label_area_size(60)
            .build_cartesian_2d(least - 2.0..largest + 2.0, 0.0..most)?;
        let of = if rows[0].bytes_used.is_some() { "those used" } else { "the footprint" };
        let mesh = &mut chart.configure_mesh();
        mesh.x_label_formatter(&|size| format!("{size:.0}"))
            .x_desc("local memory, % of the footprint")
            .y_desc(format!("bytes brought in, % of {of}"))
            .draw()?;
        for ((number, (name, curve)), at) in curves.iter().enumerate().zip((80..).step_by(22)) {
            let line = colour(name, number).stroke_width(2);
            chart.draw_series(LineSeries::new(points(curve), line))?;
            chart.draw_series(points(curve).map(|point| Circle::new(point, 3, line.filled())))?;
            chart.draw_series(
                bars(curve).map(|(size, low, high)| PathElement::new([(size, low), (size, high)], line)),
            )?;
            legend.draw(&PathElement::new([(0, at), (24, at)], line))?;
            legend.draw(&Text::new(name.clone(), (32, at - 7), ("sans-serif", 14)))?;
        }
    }
    root.present()?;
    drop(root);
    Ok(write_file(path, picture)?)
}

/// The colour of a curve, which is number `number` of its picture: a policy with parameters has one that no other has there.
fn colour(name: &str, number: usize) -> RGBAColor {
    let known = COLOURS.iter().find(|&&(known, _)| known == name).map(|(_, colour)| colour.to_rgba());
    // Steps of the golden ratio lie apart, however many there are.
    known.unwrap_or_else(|| HSLColor(0.5 + number as f64 * 0.618 % 1.0, 0.7, 0.35).to_rgba())
}

/// The name of an input without the folder.
fn file_name(input: &str) -> String {
    Path::new(input).file_name().map_or_else(|| input.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The mean of the seeds at each size.
fn points(curve: &Curve) -> impl Iterator<Item = (f64, f64)> {
    curve.iter().map(|(&size, shares)| (size as f64 / 100.0, shares.iter().sum::<f64>() / shares.len() as f64))
}

/// The least and the largest share of the seeds at each size.
fn bars(curve: &Curve) -> impl Iterator<Item = (f64, f64, f64)> {
    let least = |shares: &[f64]| shares.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = |shares: &[f64]| shares.iter().copied().fold(0.0, f64::max);
    let several = curve.iter().filter(|(_, shares)| shares.len() > 1);
    several.map(move |(&size, shares)| (size as f64 / 100.0, least(shares), largest(shares)))
}

/// The curves by their names; runs that differ only in the seed are one curve, with a bar from the least to the largest. With content the bytes used are not known: then the
/// footprint stands for them.
fn curves(rows: &[Row]) -> BTreeMap<String, Curve> {
    let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
    for row in rows {
        let of = row.bytes_used.unwrap_or(row.footprint_bytes).max(1) as f64;
        let size = row.local_memory_bytes.saturating_mul(10_000) / row.footprint_bytes.max(1);
        let of_policy = row.bytes_in.map(|bytes_in| (row.policy_name(), bytes_in));
        let optimum = row.optimum.map(|optimum| (OPTIMUM.to_owned(), optimum.split.bytes_in));
        for (name, bytes_in) in [of_policy, optimum].into_iter().flatten() {
            curves.entry(name).or_default().entry(size).or_default().push(bytes_in as f64 / of * 100.0);
        }
    }
    curves
}
