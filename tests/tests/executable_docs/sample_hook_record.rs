//! A sample record: a run of the smbios example, recorded as a launcher does.

use std::path::Path;

use hooks_sdk_testing::hook_host::record::RecordConfig;
use hooks_sdk_testing::hook_host::{CollectConfig, Compiler, Invocation, collect};
use tests::build_and_install_hooks as hooks;

const VMI: &str = r#"{"metadata": {"name": "web", "namespace": "default", "annotations":
    {"smbios.vm.kubevirt.io/baseBoardManufacturer": "ACME"}}, "spec": {"domain": {"devices": {}}}}"#;
const XML: &str = "<domain type='kvm'>\n  <name>default_web</name>\n  <os>\n    <type>hvm</type>\n  </os>\n  \
    <sysinfo type='smbios'>\n    <baseBoard/>\n  </sysinfo>\n</domain>\n";

/// Writes the record into this directory.
pub(crate) fn write(dir: &Path) {
    let hooks_dir = tempfile::tempdir().unwrap();
    let artifacts = tempfile::tempdir().unwrap();
    let module = hooks::example("smbios-hook").unwrap();
    hooks::install(hooks_dir.path(), "smbios", &module).unwrap();
    let config = CollectConfig {
        hooks_dir: hooks_dir.path().to_owned(),
        expected: 1,
        artifacts_dir: artifacts.path().join("compiled"),
        compiler: Compiler::InProcess,
        record: Some(RecordConfig {
            dir: dir.to_owned(),
            secrets: false,
        }),
        ..CollectConfig::default()
    };
    let invocation = Invocation {
        namespace: "default".into(),
        name: "web".into(),
        domain: "default_web".into(),
        ..Invocation::default()
    };
    let run = async {
        let chain = collect(config).await.unwrap();
        let defined = chain.on_define_domain(&invocation, VMI, XML.into()).await;
        defined.unwrap();
    };
    tokio::runtime::Runtime::new().unwrap().block_on(run);
}
