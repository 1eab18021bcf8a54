//! The command line of `test`.

use std::path::PathBuf;

use clap::Args;

pub(crate) const HELP: &str = "\
A case is a directory:
  vmi.yaml or vmi.json     the VMI
  options.json, host.json  as for render; a node that is the same everywhere when left out
  domain.xml               a domain instead of the VMI's conversion
  device.xml               a device that is attached to the running VM: OnAttachDevice alone is run, and
                           what is expected of a domain is expected of the device
  hook.yaml, policy.yaml   what the VM's owner and the operator say; one beside the cases is for the
                           cases without one
  pod.yaml                 facts about the pod: a Pod, or annotations, labels, networkStatus, networkInfo; the
                           policy has to allow them
  invocation.json          {\"reason\": \"migration-target\"}: the VM arrives from another node; without it, it boots
  migration.json           parameters of a migration, NAME to VALUE: PreMigrationSource alone is run
and one or more of what is expected:
  expected.diff            what hooks changed of the domain; empty for nothing: of a new case, write the vmi.yaml alone,
                           and give --update
  expected.xml             the whole domain instead
  expected.user-data, expected.network-data, expected.meta-data
                           cloud-init documents, those that hooks changed
  expected.migration       the parameters that hooks changed, a line `NAME: VALUE` each
  expected.veto            the hook's words when it says no
  expected.error           any other refusal, of the hook, the policy or the VMI; also one that failurePolicy in
                           hook.yaml ignores, beside what hooks changed
A file that looks like one of these and is none, such as vmi.yml or expected.network_data, is refused.

Examples:
  virt-hook test --hook smbios.wasm cases
  virt-hook test --hook smbios.wasm cases --update   # write down what is so, and review it

--update leaves a case alone, and it fails, if the case ends in an error that was not expected, or if
the hook does nothing, or refuses the VM, where it was expected to act: more likely a mistake than
what is wanted. --accept-errors writes that too.

Exit codes:
  0  every case is as expected, or was brought up to date
  1  a case is not as expected; standard output shows the difference
  2  the command line, a module or the folder of cases cannot be used
  3  this machine could not do it";

/// Arguments of `virt-hook test`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of cases, or one case
    #[arg(value_name = "DIR", default_value = "cases")]
    pub(super) cases: PathBuf,
    /// A WASM hook, as for render. May be repeated
    #[arg(long = "hook", value_name = "DIR_OR_WASM", required = true)]
    pub(super) hooks: Vec<PathBuf>,
    /// The operator's policy of cases without a policy.yaml, instead of the one beside the cases
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Write what is so into the cases, instead of comparing
    #[arg(long)]
    pub(super) update: bool,
    /// With --update: also write errors, and that a hook does nothing, or refuses, where it was expected to act
    #[arg(long, requires = "update")]
    pub(super) accept_errors: bool,
}
