//! Collects the hooks while libvirt's daemons start: neither needs the other, and each takes a good part of the start.

use std::pin::pin;

/// Waits for the hooks and the daemons. If one cannot be had, the other ends before the error is returned: the
/// collection is dropped, and daemons that run or still start are given to `end`.
pub(super) async fn both<H, D>(
    collection: impl Future<Output = anyhow::Result<H>>,
    start: impl Future<Output = anyhow::Result<D>>,
    end: impl AsyncFnOnce(D),
) -> anyhow::Result<(H, D)> {
    let (mut collection, mut start) = (pin!(collection), pin!(start));
    let (collected, started) = tokio::select! {
        collected = &mut collection => (collected, start.await),
        started = &mut start => {
            let daemons = started?;
            (collection.await, Ok(daemons))
        }
    };
    match (collected, started) {
        (Ok(hooks), Ok(daemons)) => Ok((hooks, daemons)),
        (Ok(_), Err(error)) | (Err(error), Err(_)) => Err(error),
        (Err(error), Ok(daemons)) => {
            end(daemons).await;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;

    use anyhow::{Result, bail};
    use tokio::task::yield_now;

    use super::*;

    /// What a part of the start does, and how often it waits before.
    #[derive(Clone, Copy)]
    enum Part {
        Succeeds(usize),
        Fails(usize),
    }
    use Part::{Fails, Succeeds};

    struct Row {
        name: &'static str,
        collection: Part,
        daemons: Part,
        /// The part whose error is returned, if one is.
        error: Option<&'static str>,
        /// How often the whole start waits.
        waits: usize,
        daemons_end: bool,
    }

    const ROWS: [Row; 7] = [
        row("both", Succeeds(100), Succeeds(90), None, 100, false),
        row("late daemons", Succeeds(5), Succeeds(90), None, 90, false),
        row("bad hook", Fails(5), Succeeds(90), Some("hooks"), 90, true),
        row("no hook", Fails(90), Succeeds(5), Some("hooks"), 90, true),
        row(
            "no daemon, no hook yet",
            Succeeds(900),
            Fails(5),
            Some("daemons"),
            5,
            false,
        ),
        row(
            "no daemon",
            Succeeds(5),
            Fails(90),
            Some("daemons"),
            90,
            false,
        ),
        row("neither", Fails(5), Fails(90), Some("hooks"), 90, false),
    ];

    const fn row(
        name: &'static str,
        collection: Part,
        daemons: Part,
        error: Option<&'static str>,
        waits: usize,
        daemons_end: bool,
    ) -> Row {
        Row {
            name,
            collection,
            daemons,
            error,
            waits,
            daemons_end,
        }
    }

    async fn play(part: Part, name: &'static str) -> Result<&'static str> {
        let (Succeeds(waits) | Fails(waits)) = part;
        for _ in 0..waits {
            yield_now().await;
        }
        match part {
            Succeeds(_) => Ok(name),
            Fails(_) => bail!(name),
        }
    }

    #[tokio::test]
    async fn start_takes_as_long_as_its_longer_part_and_a_failure_leaves_no_daemon() {
        for row in ROWS {
            let (ended, polls) = (Cell::new(false), Cell::new(0_usize));
            let collection = play(row.collection, "hooks");
            let end = async |_| ended.set(true);
            let mut starting = pin!(both(collection, play(row.daemons, "daemons"), end));
            let result = poll_fn(|context| {
                polls.set(polls.get() + 1);
                starting.as_mut().poll(context)
            });
            let error = result.await.err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), row.error, "{}", row.name);
            assert_eq!(ended.get(), row.daemons_end, "{}", row.name);
            // The poll in which one part ends may be one of the other's, or not.
            let waits = polls.get() - 1;
            assert!(
                waits.abs_diff(row.waits) <= 1,
                "{}: waits {waits} times",
                row.name
            );
        }
    }
}
