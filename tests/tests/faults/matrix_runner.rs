//! Runs rows, two pods at a time. A row that leaves its pod usable shares it with the next row.

use std::collections::VecDeque;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tests::binaries::target_dir;
use tokio::runtime::Handle;

use crate::fault_matrix::FAULTS;
use crate::fault_row::{Phase, Row, Setup};
use crate::row_expectation_checks;
use crate::row_run::RowRun;
use crate::test_vm::TestVm;

/// Pods at a time: one per core of the CI machine, since rows measure how long something takes.
const WORKERS: usize = 2;
/// The time limit of a row.
const ROW_TIMEOUT: Duration = Duration::from_secs(150);
/// How many rows that spare the pod are put before one that ends it.
const MAX_ROWS_BEFORE_END: usize = 2;

/// The rows whose name contains one of `filters`; without filters all, or the quick ones.
pub(crate) fn choose(filters: &[String], all: bool) -> Vec<Row> {
    let named = |row: &&Row| {
        filters
            .iter()
            .any(|filter| title(row).contains(filter.as_str()))
    };
    let wanted = |row: &&Row| {
        if filters.is_empty() {
            all || row.quick
        } else {
            named(row)
        }
    };
    FAULTS.iter().filter(wanted).copied().collect()
}

/// Name and phase, which identify a row.
fn title(row: &Row) -> String {
    format!("{} / {:?}", row.name, row.phase)
}

/// Runs all rows. Returns the number of failures.
pub(crate) fn run(runtime: &Handle, faults: Vec<Row>) -> usize {
    let begin = Instant::now();
    let total = faults.len();
    let chains = Mutex::new(chains(faults));
    let failed = AtomicUsize::new(0);
    // A pod ends with the thread that created it, so each worker is one thread until the end.
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(chain) = next(&chains) {
                    failed.fetch_add(runtime.block_on(run_chain(&chain)), Ordering::Relaxed);
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!(
        "faults: {} of {total} rows passed in {:?}",
        total - failed,
        begin.elapsed()
    );
    failed
}

fn next(chains: &Mutex<VecDeque<Vec<Row>>>) -> Option<Vec<Row>> {
    chains
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pop_front()
}

/// Groups rows by pod: first those that spare the pod, then one that ends it.
fn chains(faults: Vec<Row>) -> VecDeque<Vec<Row>> {
    let boots = |row: &Row| {
        matches!(
            row.phase,
            Phase::Running | Phase::Paused | Phase::ShuttingDown | Phase::Off
        ) && row.setup == Setup::Plain
    };
    let (mut sparing, ending): (Vec<_>, Vec<_>) = faults.into_iter().partition(Row::spares_the_pod);
    // Rows of one setup after the other, since they share pods.
    sparing.sort_by_key(|row| row.setup);
    let mut sparing = VecDeque::from(sparing);
    let mut chains = VecDeque::new();
    for row in ending {
        let before = if boots(&row) {
            MAX_ROWS_BEFORE_END.min(sparing.len())
        } else {
            0
        };
        let mut chain: Vec<Row> = sparing.drain(..before).collect();
        chain.push(row);
        chains.push_back(chain);
    }
    let rest: Vec<Row> = sparing.into();
    chains.extend(rest.chunks(8).map(<[Row]>::to_vec));
    chains
}

async fn run_chain(chain: &[Row]) -> usize {
    let mut vm: Option<TestVm> = None;
    let mut failed = 0;
    for row in chain {
        vm = vm.filter(|vm| vm.setup() == row.setup);
        let outcome = run_row(&mut vm, row).await;
        failed += usize::from(!outcome.passed());
        println!("{}", outcome.line(row));
        if !outcome.passed() || !row.spares_the_pod() {
            vm = None;
        }
    }
    failed
}

/// The result of a row.
struct Outcome {
    states: Vec<String>,
    recovery: Result<Duration>,
}

impl Outcome {
    fn passed(&self) -> bool {
        self.recovery.is_ok()
    }

    fn line(&self, row: &Row) -> String {
        let mut states = self.states.clone();
        states.dedup();
        let states = if states.is_empty() {
            "nothing".to_owned()
        } else {
            states.join(", ")
        };
        let phase = format!("{:?}", row.phase);
        let (verdict, time, lost) = match &self.recovery {
            Ok(time) => (
                "ok  ",
                format!("{} ms", time.as_millis()),
                "nothing lost".to_owned(),
            ),
            Err(error) => ("FAIL", "-".to_owned(), first_lines(&format!("{error:#}"))),
        };
        format!(
            "{verdict} {:<46} {phase:<13} states: {states}; {time}; {lost}",
            row.name
        )
    }
}

/// The first lines, since an error may contain a whole log.
fn first_lines(text: &str) -> String {
    let text = text.split("; its log:").next().unwrap_or_default();
    text.chars()
        .take(400)
        .collect::<String>()
        .replace('\n', " ")
}

async fn run_row(vm: &mut Option<TestVm>, row: &Row) -> Outcome {
    let mut first_event_index = 0;
    let result =
        tokio::time::timeout(ROW_TIMEOUT, run_row_in(vm, row, &mut first_event_index)).await;
    let recovery = result.unwrap_or_else(|_| Err(anyhow::anyhow!("gave up after {ROW_TIMEOUT:?}")));
    let states = vm
        .as_ref()
        .map(|vm| vm.states(first_event_index))
        .unwrap_or_default();
    if let (Some(vm), Err(error)) = (vm.as_ref(), &recovery) {
        save_logs(vm, &title(row), &format!("{row:#?}\n\n{error:#}"));
    }
    Outcome { states, recovery }
}

async fn run_row_in(
    vm: &mut Option<TestVm>,
    row: &Row,
    first_event_index: &mut usize,
) -> Result<Duration> {
    let vm = match vm {
        Some(vm) => vm,
        none => none.insert(TestVm::create(row.setup)?),
    };
    if row.phase == Phase::Off {
        // The notification of the end precedes any step of virt-handler, and belongs to this row.
        vm.reach(Phase::Running)
            .await
            .context("reaching the phase Running")?;
        *first_event_index = vm.events().len();
    }
    vm.reach(row.phase)
        .await
        .with_context(|| format!("reaching the phase {:?}", row.phase))?;
    if row.phase != Phase::Off {
        *first_event_index = vm.events().len();
    }
    let qemu = vm.qemu();
    let mut run = RowRun::begin(*first_event_index);
    for step in row.steps {
        run.apply(vm, *step)
            .await
            .with_context(|| format!("{step:?}"))?;
    }
    row_expectation_checks::check(vm, &run, row.phase, row.expect, qemu).await
}

/// Saves the pod's log and the notifications of a failed row.
pub(crate) fn save_logs(vm: &TestVm, title: &str, error: &str) {
    let name = title.replace(|character: char| !character.is_ascii_alphanumeric(), "-");
    let directory = target_dir().join("faults");
    let history: String = vm
        .events()
        .iter()
        .map(|event| format!("{:?} {event}\n", event.at))
        .collect();
    let text = format!("{error}\n\n{history}\n{}", vm.pod.log());
    let path = directory.join(format!("{name}.log"));
    if fs::create_dir_all(&directory).is_ok() && fs::write(&path, text).is_ok() {
        println!("     evidence in {}", path.display());
    }
}
