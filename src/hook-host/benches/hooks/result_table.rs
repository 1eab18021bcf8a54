//! Rows and cells of the table of results.

use std::time::Duration;

pub(crate) fn row(cells: [&str; 4]) {
    let [what, measured, goal, reference] = cells;
    println!("| {what:<42} | {measured:>10} | {goal:>7} | {reference:<42} |");
}

/// The duration at a percentile; the one at 100 is the slowest.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times[((times.len() - 1) * percent).div_ceil(100)]
}

pub(crate) fn us(time: Duration) -> String {
    format!("{} us", time.as_micros())
}

pub(crate) fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

pub(crate) fn mb(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}
