//! The command line of `test`.

use std::path::PathBuf;

use clap::Args;

use crate::granted_dirs::GrantedDirs;
use crate::inputs::InstanceTypesArgs;

pub(crate) const HELP: &str = "\
A case is a directory:
  vmi.yaml or vmi.json     the VMI
  options.json, host.json  as for `render`; without a host.json, a built-in node
  domain.xml               a domain to use instead of the converted VMI
  device.xml               a device that is attached to the running VM: only OnAttachDevice runs, and the
                           expected changes are those of the device
  hook.yaml, policy.yaml   settings of the VM's owner, and the operator's policy; a file beside the cases
                           is for the cases without one
                           (a directory in allow.dirs of such a policy needs --grant-dir, too)
  pod.yaml                 facts about the pod: a Pod, or a map of annotations, labels, networkStatus and
                           networkInfo; the policy has to allow them
  invocation.json          {\"reason\": \"migration-target\"}: the VM arrives from another node; without
                           this file, it boots
  migration.json           migration parameters, NAME to VALUE: only PreMigrationSource runs
and at least one expected result (--update writes those of a new case with only a vmi.yaml):
  expected.diff            the changes of the domain; empty if nothing may change
  expected.xml             the whole domain, instead of its changes
  expected.user-data, expected.network-data, expected.meta-data
                           the cloud-init documents that hooks changed
  expected.migration       the migration parameters that hooks changed, a line `NAME: VALUE` each
  expected.veto            the message of the hook's veto
  expected.error           any other error: of the hook, the policy or the VMI; also one that failurePolicy
                           in hook.yaml ignores, in addition to the changes
A file with a similar but wrong name, such as vmi.yml or expected.network_data, is refused.

Examples:
  virt-hook test --hook smbios.wasm cases
  virt-hook test --hook smbios.wasm cases --update   # write the actual results, and review them

--update does not write, and the case fails, if the result is an unexpected error, or if the hook changes
nothing or vetoes where changes were expected: probably a mistake. --accept-errors writes these too.

Exit codes:
  0  every case has the expected result, or was updated
  1  a case does not have the expected result; standard output shows the difference
  2  invalid command line, or an unusable module or directory of cases
  3  error of this machine";

/// Arguments of `virt-hook test`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory of cases, or one case
    #[arg(value_name = "DIR", default_value = "cases")]
    pub(super) cases: PathBuf,
    /// A WASM hook, as for `render`. May be repeated
    #[arg(long = "hook", value_name = "DIR_OR_WASM", required = true)]
    pub(super) hooks: Vec<PathBuf>,
    /// The operator's policy for cases without a policy.yaml [default: the one beside the cases]
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    #[command(flatten)]
    pub(super) instance_types: InstanceTypesArgs,
    #[command(flatten)]
    pub(super) dirs: GrantedDirs,
    /// Write the actual results into the cases, instead of comparing
    #[arg(long)]
    pub(super) update: bool,
    /// With --update: also write unexpected errors and vetoes, and missing changes
    #[arg(long, requires = "update")]
    pub(super) accept_errors: bool,
}
