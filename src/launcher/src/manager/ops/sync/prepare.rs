use domain::access_credentials::Credential;
use domain::cloud_init::CloudInitData;
use domain::options::Options;
use domain::spec::DomainSpec;
use domain::vmi::Vmi;
use hook_host::{CloudInitDocuments, HookError, Invocation, Plugins, Reason};

use super::SyncRequest;
use super::warn::warn_once;
use crate::blocking;
use crate::host::Questions;
use crate::manager::error::OpError;
use crate::manager::preparation::{CloudInitImage, Disks, PreparationError};
use crate::manager::vm::{QUICK, Vm};

/// The domain that the VMI asks for.
pub(super) struct Wanted<'a> {
    vmi: &'a Vmi,
    options: &'a Options,
    plugins: &'a Plugins,
    spec: DomainSpec,
}

/// The domain as it will be defined; everything it needs is in place.
pub(super) struct Prepared<'a> {
    pub(super) vmi: &'a Vmi,
    pub(super) xml: String,
    pub(super) cloud_init: Option<CloudInitImage>,
    pub(super) credentials: Vec<Credential>,
}

impl<'a> Wanted<'a> {
    pub(super) async fn convert(vm: &Vm, request: &'a SyncRequest) -> Result<Self, OpError> {
        let vmi = &request.vmi;
        let options = vm.preparation.options(vmi, &request.options).await?;
        let mut facts = vm.preparation.facts().await?;
        facts.allow_emulation |= request.allow_emulation;
        let questions = Questions::of(vmi, &options, &facts)?;
        if !questions.is_empty() {
            let ask = move || questions.answer(facts);
            facts = blocking::call("asking for devices and block sizes", QUICK, ask).await?;
        }
        let mut spec = domain::convert::convert(vmi, &options, &facts)?;
        if vm.preparation.test_driver {
            "test".clone_into(&mut spec.kind);
        }
        Ok(Wanted {
            vmi,
            options: &request.options,
            plugins: &request.plugins,
            spec,
        })
    }

    pub(super) fn spec(&self) -> &DomainSpec {
        &self.spec
    }

    /// Runs the hooks, connects the network and puts images in place.
    pub(super) async fn prepare(self, vm: &Vm) -> Result<Prepared<'a>, OpError> {
        let invocation = Invocation {
            uid: self.vmi.uid().to_owned(),
            ..vm.identity.invocation(Reason::Boot)
        };
        let vmi_json = self.vmi.raw_json();
        told(vm, vm.hooks.admit(vmi_json, self.plugins).await)?;
        told(vm, vm.hooks.pre_start(&invocation, vmi_json).await)?;
        let cloud_init = match vm.preparation.cloud_init(self.vmi).await? {
            Some(data) => Some(hook_cloud_init(vm, &invocation, vmi_json, data).await?),
            None => None,
        };
        let spec = vm
            .preparation
            .network(self.vmi, self.options, self.spec)
            .await?;
        let credentials = vm.preparation.access_credentials(self.vmi).await?;
        let Disks {
            spec,
            cloud_init: path,
        } = vm.preparation.disks(self.vmi, spec).await?;
        let xml = domain::render::render(&spec);
        let xml = told(
            vm,
            vm.hooks
                .on_define_domain(&invocation, vmi_json, xml, self.plugins)
                .await,
        )?;
        Ok(Prepared {
            vmi: self.vmi,
            xml,
            cloud_init: cloud_init
                .zip(path)
                .map(|(data, path)| CloudInitImage { data, path }),
            credentials,
        })
    }
}

async fn hook_cloud_init(
    vm: &Vm,
    invocation: &Invocation,
    vmi_json: &str,
    data: CloudInitData,
) -> Result<CloudInitData, OpError> {
    let documents = CloudInitDocuments {
        data_source: data.data_source.name().to_owned(),
        cloud_init_data_json: data.to_json(),
    };
    let hooked = told(
        vm,
        vm.hooks
            .pre_cloud_init_iso(invocation, vmi_json, documents)
            .await,
    )?;
    let hooked = data.with_hooked(&hooked.cloud_init_data_json);
    Ok(hooked.map_err(PreparationError::from)?)
}

/// The VM's owner hears of a failing hook, once per cause: virt-handler repeats the sync for as long
/// as the VM is wanted.
fn told<T>(vm: &Vm, result: Result<T, HookError>) -> Result<T, OpError> {
    result.map_err(|error| {
        warn_once(vm, &error);
        error.into()
    })
}
