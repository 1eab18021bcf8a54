//! Commands and queries of a launcher whose VM runs.

use anyhow::Result;
use proto::cmd::v1::EmptyRequest;
use tests::fixture::LauncherFixture;
use tests::pod::User;
use tests::vmi::Vmi;

use crate::raw_client::RawClient;

/// The number of calls per median.
const CALLS: usize = 2000;

/// Medians in microseconds.
pub(crate) struct CallTimes {
    pub(crate) ping: f64,
    pub(crate) stats: f64,
    pub(crate) domain: f64,
    pub(crate) sync: f64,
}

/// Boots a VM with a guest agent, measures, and ends it.
pub(crate) async fn measure() -> Result<CallTimes> {
    let vmi = Vmi::new("measured", User::Nonroot);
    let mut fixture = LauncherFixture::start(User::Nonroot, &vmi).await?;
    fixture.pod.suppress_log();
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    let mut client =
        RawClient::connect(&fixture.pod.share_dir().join("sockets/launcher-sock")).await?;
    let empty = EmptyRequest {};
    let running = CallTimes {
        ping: client.median("Ping", &empty, CALLS).await?,
        stats: client.median("GetDomainStats", &empty, CALLS).await?,
        domain: client.median("GetDomain", &empty, CALLS).await?,
        sync: client
            .median("SyncVirtualMachine", &vmi.request(), CALLS)
            .await?,
    };
    fixture.commands.kill(&vmi).await?.ok()?;
    Ok(running)
}
