//! `virt-hook serve`: modules as one sidecar of a stock KubeVirt.

mod allowance;
mod arguments;
mod policy;
mod socket;

use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hook_host::Chain;
use hook_host::serve::{Front, ServeConfig, Stage};
use hook_host::wasm::baked_dirs;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use crate::hooks::runtime;
use crate::modules::{self, Found, Terms};
use allowance::Allowance;
pub(crate) use allowance::SMALLEST;
pub(crate) use arguments::{Arguments, HELP};

/// Where an image has modules that were compiled for it.
const BAKED: &str = "/usr/share/virt-hook/hook-artifacts";
/// For calls in flight when it ends.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until told to end.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // One thread: a sidecar may have a fifth of a processor.
    runtime()?.block_on(async {
        let stop = stop()
            .context("listening for signals")
            .map_err(Failure::Usage)?;
        let found = in_order(modules::find(&arguments.modules).map_err(Failure::Usage)?);
        let place = socket::place(arguments).map_err(Failure::Usage)?;
        let stage = Stage::prepare(&place.directory, &place.file).map_err(Failure::usage)?;
        until_told(&found, stage, arguments, stop).await
    })
}

async fn until_told(
    found: &[Found],
    stage: Stage,
    arguments: &Arguments,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    tokio::pin!(stop);
    let started = Instant::now();
    let allowance = Allowance::read();
    let limits = allowance.limits();
    let policy = policy::source(arguments.policy.as_deref(), stage.private());
    let terms = Terms {
        limits: limits.clone(),
        policy: policy.map_err(Failure::Usage)?,
        namespace: arguments.namespace.clone(),
        record: arguments.hook_record.clone(),
        baked_dirs: baked_dirs(arguments.hook_artifacts.as_deref(), Path::new(BAKED)),
        ..Terms::default()
    };
    let chain = tokio::select! {
        chain = modules::collect(found, stage.private(), terms) => chain,
        () = &mut stop => {
            tracing::info!("told to end before the hooks were ready");
            return Ok(());
        }
    };
    let chain = chain.map_err(|error| Failure::Usage(allowance.explain(error)))?;
    tracing::info!(hooks = found.len(), ready_after = ?started.elapsed(), %allowance, "hooks are ready");
    let config = ServeConfig {
        front: front(arguments, &chain),
        limits,
        drain: DRAIN,
    };
    let ending = hook_host::serve::serve(chain, stage, config, stop)
        .await
        .map_err(Failure::refused)?;
    tracing::info!(?ending, "hooks are no longer served");
    Ok(())
}

fn front(arguments: &Arguments, chain: &Chain) -> Front {
    if arguments.plugin.is_some() {
        return Front::Plugin;
    }
    let names: Vec<_> = chain.hooks().into_iter().map(|hook| hook.name).collect();
    Front::Sidecar {
        name: names.join("+").chars().take(253).collect(),
    }
}

/// A chain orders hooks of the same priority by name, so the place on the command line goes first.
fn in_order(mut found: Vec<Found>) -> Vec<Found> {
    if found.len() > 1 {
        for (at, hook) in found.iter_mut().enumerate() {
            hook.directory = format!("{}-{}", at + 1, hook.directory);
        }
    }
    found
}

/// The signals that end KubeVirt's own sidecars. They are caught before anything else is done: as a
/// container's first process, this would not hear them otherwise.
fn stop() -> Result<impl Future<Output = ()>> {
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ];
    let signals: std::io::Result<Vec<Signal>> = kinds.into_iter().map(signal).collect();
    let [mut term, mut int, mut hup, mut quit] = signals?
        .try_into()
        .map_err(|_| anyhow!("a signal is missing"))?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hup.recv() => {}
            _ = quit.recv() => {}
        }
        tracing::info!("a signal ends this");
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_decides_between_equals() {
        let hook = |name: &str| Found {
            module: name.into(),
            directory: name.to_owned(),
            settings: None,
        };
        let names = |found: Vec<Found>| -> Vec<_> {
            let found = in_order(found).into_iter();
            found.map(|hook| hook.directory).collect()
        };
        assert_eq!(names(vec![hook("b"), hook("a")]), ["1-b", "2-a"]);
        assert_eq!(names(vec![hook("b")]), ["b"]);
    }
}
