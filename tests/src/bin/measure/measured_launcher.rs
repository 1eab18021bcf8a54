//! The launcher to measure: this project's or KubeVirt's.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use tests::launcher_fixture::PreparedPod;
use tests::pod::LauncherUser;

/// The variable with the directory of KubeVirt's own `virt-launcher` and `virt-launcher-monitor`.
const STOCK_LAUNCHER: &str = "STOCK_LAUNCHER";

/// A launcher and its monitor.
pub(crate) enum MeasuredLauncher {
    /// The programs of this workspace.
    Ours,
    /// KubeVirt's own programs, in this directory.
    Stock(PathBuf),
}

impl MeasuredLauncher {
    /// KubeVirt's own launcher, if `STOCK_LAUNCHER` is set.
    pub(crate) fn stock() -> Result<Option<MeasuredLauncher>> {
        let Some(directory) = std::env::var_os(STOCK_LAUNCHER).filter(|text| !text.is_empty())
        else {
            return Ok(None);
        };
        let directory = PathBuf::from(directory);
        for name in ["virt-launcher", "virt-launcher-monitor"] {
            let path = directory.join(name);
            ensure!(
                path.is_file(),
                "{STOCK_LAUNCHER}: {} is not there; it takes the directory of KubeVirt's own launcher",
                path.display()
            );
        }
        Ok(Some(MeasuredLauncher::Stock(directory)))
    }

    /// A pod that runs this launcher and does not print its log.
    pub(crate) fn pod(&self) -> Result<PreparedPod> {
        let mut prepared = PreparedPod::create(LauncherUser::Nonroot)?;
        prepared.pod.suppress_log();
        if let MeasuredLauncher::Stock(directory) = self {
            prepared.pod.use_stock_launcher(directory)?;
        }
        Ok(prepared)
    }
}

impl fmt::Display for MeasuredLauncher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeasuredLauncher::Ours => formatter.write_str("virt-launcher of this tree"),
            MeasuredLauncher::Stock(directory) => {
                write!(formatter, "virt-launcher in {}", directory.display())
            }
        }
    }
}
