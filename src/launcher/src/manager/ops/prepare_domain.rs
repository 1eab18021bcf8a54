//! Prepares the domain of a boot or of a migration's target: converts the VMI, runs the hooks, and creates images and
//! taps.

use domain::cloud_init::CloudInitData;
use domain::convert::{Purpose, volume_mode_lookups};
use domain::guest_agent_access_credentials::Credential;
use domain::host_facts::HostFacts;
use domain::libvirt_spec::DomainSpec;
use hook_host::{CloudInitDocuments, HookError, Invocation, Plugins, Reason, Run};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

use crate::blocking;
use crate::manager::command_error::CommandError;
use crate::manager::hook_applied_event_messages::AppliedHook;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::notify::Warning;
use crate::vm_boot::boot_resources::{
    BootResourceError, CloudInitImage, FILE_TIMEOUT, PreparedDisks,
};
use crate::vm_boot::host_facts::{HostQuery, with_volume_modes};

/// The domain that a VMI converts to, before hooks.
pub(super) struct ConvertedVm<'a> {
    purpose: Purpose,
    vmi: &'a Vmi,
    options: &'a Options,
    plugins: &'a Plugins,
    facts: HostFacts,
    spec: DomainSpec,
}

/// The domain as it will be defined, after hooks. Its images and its network exist.
pub(super) struct PreparedDomain<'a> {
    pub(super) vmi: &'a Vmi,
    pub(super) xml: String,
    pub(super) cloud_init: Option<CloudInitImage>,
    pub(super) credentials: Vec<Credential>,
    pub(super) applied_hooks: Vec<AppliedHook>,
    /// The host facts that the conversion used.
    pub(super) facts: HostFacts,
}

impl<'a> ConvertedVm<'a> {
    /// Converts the VMI of the request, with the host facts that it needs.
    pub(super) async fn convert(
        vm: &VmContext,
        request: &'a SyncRequest,
        purpose: Purpose,
    ) -> Result<Self, CommandError> {
        let vmi = &request.vmi;
        let options = vm.boot_resources.options(vmi, &request.options).await?;
        let mut facts = vm.boot_resources.facts().await?;
        facts.allow_emulation |= request.allow_emulation;
        let claims = volume_mode_lookups(vmi);
        if !claims.is_empty() {
            facts = with_volume_modes(facts, claims).await?;
        }
        let query = HostQuery::for_vmi(vmi, &options, &facts)?;
        if !query.is_empty() {
            let network_info = vm.boot_resources.network_info.clone();
            let answer = move || query.answer(facts, &network_info);
            facts = blocking::file_call("asking for devices and block sizes", FILE_TIMEOUT, answer)
                .await?;
        }
        let mut spec = domain::convert::convert_for(purpose, vmi, &options, &facts)?;
        if vm.boot_resources.test_driver {
            "test".clone_into(&mut spec.kind);
        }
        Ok(ConvertedVm {
            purpose,
            vmi,
            options: &request.options,
            plugins: &request.plugins,
            facts,
            spec,
        })
    }

    pub(super) fn spec(&self) -> &DomainSpec {
        &self.spec
    }

    pub(super) fn into_spec(self) -> DomainSpec {
        self.spec
    }

    /// Runs the hooks, connects the network and creates images.
    pub(super) async fn prepare(self, vm: &VmContext) -> Result<PreparedDomain<'a>, CommandError> {
        let invocation = Invocation {
            uid: self.vmi.uid().to_owned(),
            ..vm.identity.invocation(reason(self.purpose))
        };
        let vmi_json = self.vmi.raw_json();
        report_hook_error(vm, vm.hooks.check_plugins(vmi_json, self.plugins).await)?;
        let mut runs = report_hook_error(vm, vm.hooks.pre_start(&invocation, vmi_json).await)?;
        let tell_missing = |reason| tell_missing_cloud_init_data(vm, reason);
        let cloud_init = match vm.boot_resources.cloud_init(self.vmi, tell_missing).await? {
            Some(data) => Some(hook_cloud_init(vm, &invocation, vmi_json, data, &mut runs).await?),
            None => None,
        };
        let spec = vm
            .boot_resources
            .network(self.vmi, self.options, self.spec)
            .await?;
        let credentials = vm.boot_resources.access_credentials(self.vmi).await?;
        let PreparedDisks {
            mut spec,
            cloud_init: path,
        } = vm
            .boot_resources
            .disks(self.purpose, self.vmi, spec, &self.facts)
            .await?;
        for correction in domain::qemu_limits::correct(&mut spec) {
            tracing::warn!("{correction}");
        }
        let xml = domain::domain_spec_to_xml::render(&spec);
        let (xml, define_runs) = report_hook_error(
            vm,
            vm.hooks
                .on_define_domain(&invocation, vmi_json, xml, self.plugins)
                .await,
        )?;
        runs.extend(define_runs);
        Ok(PreparedDomain {
            vmi: self.vmi,
            xml,
            cloud_init: cloud_init
                .zip(path)
                .map(|(data, (path, min_bytes))| CloudInitImage {
                    data,
                    path,
                    min_bytes,
                }),
            credentials,
            applied_hooks: AppliedHook::from_runs(&runs),
            facts: self.facts,
        })
    }
}

fn reason(purpose: Purpose) -> Reason {
    match purpose {
        Purpose::Boot => Reason::Boot,
        Purpose::MigrationTarget => Reason::MigrationTarget,
    }
}

/// Tells that the guest gets less cloud-init data than the VMI asks for.
fn tell_missing_cloud_init_data(vm: &VmContext, reason: String) {
    let warning = Warning {
        reason: "CloudInitDataMissing",
        message: format!("The guest gets only a part of its cloud-init data: {reason}"),
    };
    tracing::warn!("{}", warning.message);
    vm.notifier.warning(&warning);
}

async fn hook_cloud_init(
    vm: &VmContext,
    invocation: &Invocation,
    vmi_json: &str,
    data: CloudInitData,
    runs: &mut Vec<Run>,
) -> Result<CloudInitData, CommandError> {
    let documents = CloudInitDocuments {
        data_source: data.data_source.name().to_owned(),
        cloud_init_data_json: data.to_json(),
    };
    let (hooked, cloud_init_runs) = report_hook_error(
        vm,
        vm.hooks
            .pre_cloud_init_iso(invocation, vmi_json, documents)
            .await,
    )?;
    runs.extend(cloud_init_runs);
    let hooked = data.merge_hook_output(&hooked.cloud_init_data_json);
    Ok(hooked.map_err(BootResourceError::from)?)
}

/// Sends a Kubernetes event for the error of a hook. It is sent once per cause, because virt-handler repeats the sync
/// until it succeeds.
fn report_hook_error<T>(vm: &VmContext, result: Result<T, HookError>) -> Result<T, CommandError> {
    result.map_err(|error| {
        vm.hook_failures.report(&error);
        error.into()
    })
}
