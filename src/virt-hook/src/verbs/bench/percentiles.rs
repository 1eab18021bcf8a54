//! Percentiles of measured durations.

use std::time::Duration;

use serde::Serialize;

use crate::verb_failure::Failure;

/// Percentiles of durations, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LatencyPercentiles {
    count: usize,
    fastest_micros: u64,
    p50_micros: u64,
    p99_micros: u64,
    slowest_micros: u64,
}

impl LatencyPercentiles {
    /// Calls `measurement` `count` times, at least once.
    pub(super) fn measure(
        count: usize,
        mut measurement: impl FnMut(usize) -> Result<Duration, Failure>,
    ) -> Result<Self, Failure> {
        let times: Result<Vec<Duration>, Failure> =
            (0..count.max(1)).map(&mut measurement).collect();
        Ok(Self::from_durations(times?))
    }

    fn from_durations(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |percentile: usize| {
            let index = (times.len().saturating_sub(1) * percentile).div_ceil(100);
            let micros = times.get(index).map_or(0, Duration::as_micros);
            u64::try_from(micros).unwrap_or(u64::MAX)
        };
        Self {
            count: times.len(),
            fastest_micros: at(0),
            p50_micros: at(50),
            p99_micros: at(99),
            slowest_micros: at(100),
        }
    }

    /// The median and the 99th percentile, formatted.
    pub(super) fn p50_and_p99(&self) -> [String; 2] {
        [self.p50_micros, self.p99_micros].map(|micros| match micros {
            0..10_000 => format!("{micros} us"),
            _ => format!("{} ms", micros / 1000),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let times = LatencyPercentiles::from_durations(
            (1..=200).rev().map(Duration::from_micros).collect(),
        );
        assert_eq!(times.p50_micros, 101);
        assert_eq!((times.p99_micros, times.slowest_micros), (199, 200));
        assert_eq!(times.p50_and_p99(), ["101 us", "199 us"]);
        assert_eq!(
            LatencyPercentiles::from_durations(vec![Duration::from_secs(1)]).p50_and_p99()[0],
            "1000 ms"
        );
    }
}
