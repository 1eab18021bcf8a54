//! Hooks as a pod would have them: laid out in a directory of our own, collected and chained by the
//! same code.

use std::path::PathBuf;

use anyhow::Context;
use domain::vmi::Vmi;
use hook_host::{Chain, Invocation, Reason};

use crate::failure::Failure;
use crate::modules::{self, Terms};

/// The XML after all hooks. Without hooks it stays as it is, and nothing is started.
pub(super) fn apply(paths: &[PathBuf], vmi: &Vmi, xml: String) -> Result<String, Failure> {
    if paths.is_empty() {
        return Ok(xml);
    }
    let found = modules::find(paths).map_err(Failure::Usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
        .map_err(Failure::Usage)?;
    runtime.block_on(async {
        let place = tempfile::tempdir()
            .context("making a temporary directory")
            .map_err(Failure::Usage)?;
        let chain = modules::collect(&found, place.path(), Terms::default()).await;
        call(&chain.map_err(Failure::Usage)?, vmi, xml).await
    })
}

async fn call(chain: &Chain, vmi: &Vmi, xml: String) -> Result<String, Failure> {
    let invocation = Invocation {
        reason: Reason::Boot,
        namespace: vmi.namespace().to_owned(),
        name: vmi.name().to_owned(),
        uid: vmi.uid().to_owned(),
        domain: vmi.domain_name(),
    };
    chain
        .pre_start(&invocation, vmi.raw_json())
        .await
        .map_err(Failure::refused)?;
    let (xml, _) = chain
        .on_define_domain(&invocation, vmi.raw_json(), xml)
        .await
        .map_err(Failure::refused)?;
    Ok(xml)
}
