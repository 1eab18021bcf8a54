//! Standalone mode: the launcher runs the VMI of `STANDALONE_VMI` without a virt-handler.

use anyhow::{Context, bail};
use kubevirt_api::vmi::Vmi;

use crate::config::Config;
use crate::launcher_lifetime::Ending;
use crate::manager::{Command, Identity, Manager, SyncRequest};

/// Parses the VMI to run, if there is one.
pub(super) fn read(config: &Config) -> anyhow::Result<Option<Vmi>> {
    let parse = |text: &String| Vmi::from_yaml_or_json(text.as_bytes());
    config
        .standalone_vmi
        .as_ref()
        .map(parse)
        .transpose()
        .context("STANDALONE_VMI")
}

/// The identity from the flags, or from the VMI of a standalone launcher if the flags are missing.
pub(super) fn identity(config: &Config, standalone: Option<&Vmi>) -> Identity {
    match standalone {
        Some(vmi) if config.flags.name.is_empty() => {
            Identity::new(vmi.namespace(), vmi.name(), vmi.uid())
        }
        _ => Identity::new(
            &config.flags.namespace,
            &config.flags.name,
            &config.flags.uid,
        ),
    }
}

/// Syncs the standalone VMI, if there is one. Returns only if that fails.
pub(super) async fn run(manager: &Manager, vmi: Option<Vmi>) -> anyhow::Result<Ending> {
    if let Some(vmi) = vmi {
        tracing::info!("standalone: running the VMI of STANDALONE_VMI");
        let request = SyncRequest {
            vmi,
            options: Default::default(),
            plugins: Default::default(),
            allow_emulation: true,
        };
        if let Err(error) = manager.run(Command::sync(request)).await
            // A refusal means that the VM is being ended on request.
            && !error.is_refusal()
        {
            bail!("running the VMI of STANDALONE_VMI: {}", error.message());
        }
    }
    std::future::pending().await
}
