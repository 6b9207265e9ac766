//! A picture: the share of the bytes used that is brought in, by the size of memory; a curve for each policy and for the optimum.

use std::{collections::BTreeMap, error::Error, path::Path};

use plotters::prelude::*;

use super::row::Row;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 540;

/// Points by the size of memory in percent of the footprint: the sum of the shares brought in, in percent, and their number.
type Curve = BTreeMap<u64, (f64, u32)>;

/// Draws the rows, inputs below each other.
pub fn write(path: &Path, rows: &[Row]) -> Result<(), Box<dyn Error>> {
    let inputs = Vec::from_iter(rows.chunk_by(|one, other| one.input == other.input));
    let count = inputs.len().max(1);
    let root = SVGBackend::new(path, (WIDTH, HEIGHT * count as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, rows) in root.split_evenly((count, 1)).iter().zip(inputs) {
        let curves = curves(rows);
        let shares = || curves.values().flat_map(points);
        let most = shares().map(|(_, share)| share).fold(1.0, f64::max) * 1.05;
        let least = shares().map(|(size, _)| size).fold(100.0, f64::min);
        let largest = shares().map(|(size, _)| size).fold(least + 1.0, f64::max);
        let mut chart = ChartBuilder::on(area)
            .caption(&rows[0].input, ("sans-serif", 20))
            .margin(20)
            .x_label_area_size(45)
            .y_label_area_size(60)
            .build_cartesian_2d(least..largest, 0.0..most)?;
        let mesh = &mut chart.configure_mesh();
        mesh.x_desc("local memory, % of the footprint").y_desc("bytes brought in, % of those used").draw()?;
        for (number, (name, curve)) in curves.iter().enumerate() {
            let colour = Palette99::pick(number).to_rgba();
            let line = LineSeries::new(points(curve), colour.stroke_width(2));
            let legend = move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2));
            chart.draw_series(line)?.label(name).legend(legend);
            chart.draw_series(points(curve).map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        chart.configure_series_labels().background_style(WHITE.mix(0.9)).border_style(BLACK).draw()?;
    }
    root.present().map_err(|error| format!("cannot write {}: {error}; give another path", path.display()).into())
}

fn points(curve: &Curve) -> impl Iterator<Item = (f64, f64)> {
    curve.iter().map(|(&size, &(sum, count))| (size as f64 / 100.0, sum / f64::from(count)))
}

/// The curves by their names; of runs that differ only in the seed, the mean. With content the bytes used are not known: then the
/// footprint stands for them.
fn curves(rows: &[Row]) -> BTreeMap<String, Curve> {
    let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
    for row in rows {
        let of = row.bytes_used.unwrap_or(row.footprint_bytes).max(1) as f64;
        let size = row.local_memory_bytes.saturating_mul(10_000) / row.footprint_bytes.max(1);
        let of_policy = (row.policy_name(), row.bytes_in);
        let optimum = row.optimum.map(|optimum| ("(optimum)".to_owned(), optimum.split_bytes_in));
        for (name, bytes_in) in [Some(of_policy), optimum].into_iter().flatten() {
            let (sum, count) = curves.entry(name).or_default().entry(size).or_default();
            (*sum, *count) = (*sum + bytes_in as f64 / of * 100.0, *count + 1);
        }
    }
    curves
}
