//! The command line of `bench`.

use std::path::PathBuf;

use clap::Args;

use crate::grant_arguments::GrantArgs;
use crate::inputs::InstanceTypesArgs;

pub(crate) const HELP: &str = "\
Each compilation is a separate child process, as in a launcher. A call runs the hook point on a new
instance, checks the grants, and records the changes. Through `virt-hook serve`, each call uses a new
connection, as KubeVirt does. Other load on this machine affects the result.

Examples:
  virt-hook bench smbios.wasm
  virt-hook bench smbios.wasm --vmi vmi-with-the-annotation.yaml --calls 4000 --json

Exit codes:
  0  measured
  1  the hook vetoed or failed: nothing was measured
  2  invalid command line, or an unusable file
  3  error of this machine";

/// Arguments of `virt-hook bench`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module
    #[arg(value_name = "WASM")]
    pub(super) module: PathBuf,
    /// The VMI that the hook is called for [default: a built-in one]
    #[arg(long, value_name = "FILE")]
    pub(super) vmi: Option<PathBuf>,
    #[command(flatten)]
    pub(super) instance_types: InstanceTypesArgs,
    #[command(flatten)]
    pub(super) grants: GrantArgs,
    /// Number of calls to measure
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) calls: u32,
}
