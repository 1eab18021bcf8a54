//! The command line of `bench`.

use std::path::PathBuf;

use clap::Args;

pub(crate) const HELP: &str = "\
Every compilation is a child of its own, as in a launcher. A call is the hook point on a fresh
instance: grants checked, changes recorded. ServedCost, a call is a connection of its own to
`virt-hook serve`, as KubeVirt makes it. What is measured is this machine, as busy as it is.

Examples:
  virt-hook bench smbios.wasm
  virt-hook bench smbios.wasm --vmi vmi-with-the-annotation.yaml --calls 4000 --json

Exit codes:
  0  measured
  1  the hook refused or failed, so there is nothing to measure
  2  the command line, or a file that it names, cannot be used
  3  this machine could not do it";

/// Arguments of `virt-hook bench`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module
    #[arg(value_name = "WASM")]
    pub(super) module: PathBuf,
    /// The VMI that the hook is called for; a built-in one when left out
    #[arg(long, value_name = "FILE")]
    pub(super) vmi: Option<PathBuf>,
    /// The operator's policy; without one, the hook is granted what it wishes for
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// How many calls are measured
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) calls: u32,
}
