//! A picture: the share of the bytes used that is brought in, or another figure, by the size of memory; a curve for each policy and
//! for the optimum.

use std::{collections::BTreeMap, error::Error, path::Path};

use plotters::prelude::*;

use super::row::{Row, quotient};
use crate::{
    args::{HeightArg, WidthArg},
    output::write_file,
};

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

/// Points by the size of memory in hundredths of the unit: the heights of each seed.
type Curve = BTreeMap<u64, Vec<f64>>;

/// Draws the rows, inputs below each other.
pub fn write(path: &Path, (x, y): (WidthArg, HeightArg), rows: &[Row]) -> Result<(), Box<dyn Error>> {
    let inputs = Vec::from_iter(rows.chunk_by(|one, other| one.input == other.input));
    let count = inputs.len().max(1);
    let mut picture = String::new();
    let root = SVGBackend::with_string(&mut picture, (WIDTH, HEIGHT * count as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, rows) in root.split_evenly((count, 1)).iter().zip(inputs) {
        let curves = curves((x, y), rows);
        let shares = || curves.values().flat_map(points);
        let most = shares().map(|(_, share)| share).reduce(f64::max).filter(|&most| most > 0.0).unwrap_or(1.0) * 1.05;
        // Without a point the axes are there all the same.
        let least = shares().map(|(size, _)| size).reduce(f64::min).unwrap_or(0.0);
        let largest = shares().map(|(size, _)| size).reduce(f64::max).unwrap_or(100.0);
        let margin = if x == WidthArg::Percent { 2.0 } else { largest / 50.0 };
        let (plot, legend) = area.split_horizontally(WIDTH as i32 - LEGEND_WIDTH);
        let mut chart = ChartBuilder::on(&plot)
            .caption(file_name(&rows[0].input), ("sans-serif", 20))
            .margin(20)
            .x_label_area_size(45)
            .y_label_area_size(60)
            .build_cartesian_2d(least - margin..largest + margin, 0.0..most)?;
        let of = if rows[0].bytes_used.is_some() { "those used" } else { "the footprint" };
        let mesh = &mut chart.configure_mesh();
        mesh.x_label_formatter(&|size| format!("{size:.0}"))
            .x_desc(match x {
                WidthArg::Percent => "local memory, % of the footprint",
                WidthArg::Mib => "local memory, MiB",
            })
            .y_desc(match y {
                HeightArg::Bytes => format!("bytes brought in, % of {of}"),
                HeightArg::Misses => "objects brought in, % of all uses".to_owned(),
                HeightArg::ByMin => "bytes brought in, by those of MIN".to_owned(),
                HeightArg::ByWork => "virtual time, by that of the kernels".to_owned(),
            })
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

/// The height of a point: of bytes in, misses and virtual nanoseconds; none if the figure is not known.
fn height(y: HeightArg, row: &Row, bytes_in: u64, misses: Option<u64>, virtual_ns: Option<u64>) -> Option<f64> {
    Some(match y {
        // With content the bytes used are not known: the footprint stands for them.
        HeightArg::Bytes => bytes_in as f64 / row.bytes_used.unwrap_or(row.footprint_bytes).max(1) as f64 * 100.0,
        HeightArg::Misses => misses? as f64 / row.uses?.max(1) as f64 * 100.0,
        HeightArg::ByMin => quotient((bytes_in, row.optimum?.split.bytes_in)),
        HeightArg::ByWork => quotient((virtual_ns?, row.work_ns.filter(|&work| work > 0)?)),
    })
    .filter(|height| height.is_finite())
}

/// The curves by their names; runs that differ only in the seed are one curve, with a bar from the least to the largest.
fn curves((x, y): (WidthArg, HeightArg), rows: &[Row]) -> BTreeMap<String, Curve> {
    let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
    for row in rows {
        let size = match x {
            WidthArg::Percent => row.local_memory_bytes.saturating_mul(10_000) / row.footprint_bytes.max(1),
            WidthArg::Mib => row.local_memory_bytes.saturating_mul(100) >> 20,
        };
        let of_policy = row.bytes_in.and_then(|bytes_in| height(y, row, bytes_in, row.misses, row.virtual_ns));
        let of_optimum = row.optimum.and_then(|optimum| {
            let split = optimum.split;
            height(y, row, split.bytes_in, Some(split.misses), Some(split.virtual_ns))
        });
        for (name, height) in [(row.policy_name(), of_policy), (OPTIMUM.to_owned(), of_optimum)] {
            if let Some(height) = height {
                curves.entry(name).or_default().entry(size).or_default().push(height);
            }
        }
    }
    curves
}
