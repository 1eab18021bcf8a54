//! Measures time and allocations, and prints them as the rows of a table.
// Each benchmark uses a part of it.
#![allow(dead_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How a time is measured.
pub(crate) struct Sampling {
    samples: usize,
    /// How long a sample takes, so that the clock does not count.
    length: Duration,
    /// Of sorted times.
    pick: fn(&[Duration]) -> Duration,
}

pub(crate) const MEDIAN: Sampling = Sampling {
    samples: 101,
    length: Duration::from_millis(2),
    pick: |times| times[times.len() / 2],
};

/// Other load on the machine does not count.
pub(crate) const FASTEST: Sampling = Sampling {
    samples: 401,
    length: Duration::from_millis(4),
    pick: |times| times[0],
};

impl Sampling {
    /// Prints time and allocations of `work`, and returns the time.
    pub(crate) fn row<T>(&self, what: &str, work: impl Fn() -> T) -> Duration {
        let work = || drop(black_box(work()));
        let allocations = allocation_counter::measure(work);
        let time = self.time(work);
        println!(
            "{what:<46} {:>9.1} us {:>7} allocations {:>9} bytes",
            time.as_secs_f64() * 1e6,
            allocations.count_total,
            allocations.bytes_total,
        );
        time
    }

    fn time(&self, work: impl Fn()) -> Duration {
        let start = Instant::now();
        work();
        let once = start.elapsed().as_nanos().max(1);
        let batch = u32::try_from(self.length.as_nanos() / once).unwrap_or(1);
        let batch = batch.max(1);
        let sample = |_| {
            let start = Instant::now();
            for _ in 0..batch {
                work();
            }
            start.elapsed() / batch
        };
        let mut times: Vec<_> = (0..self.samples).map(sample).collect();
        times.sort_unstable();
        (self.pick)(&times)
    }
}
