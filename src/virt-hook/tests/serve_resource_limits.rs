//! `virt-hook serve` in what KubeVirt gives a sidecar of a guaranteed VM: 64 MB and a fifth of a
//! processor. Needs a cgroup to make groups in, which root has on most machines; without one these
//! tests say so on standard error and test nothing.
#![allow(clippy::unwrap_used)]

mod cgroup;
mod served_sidecar;

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use cgroup::Cgroup;
use proto::hooks::v1alpha3;
use served_sidecar::{Pod, XML, example, stock_launcher_client, vmi};

/// KubeVirt's `64M` and `200m`.
const MEMORY: u64 = 64_000_000;
const CPU_PERCENT: u64 = 20;
/// What a launcher gives a plugin's sidecar; a hook sidecar has minutes.
const READY: Duration = Duration::from_secs(30);

fn group(memory: u64, cpu_percent: u64) -> Option<Cgroup> {
    match Cgroup::new(memory, cpu_percent) {
        Ok(group) => Some(group),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            tell(&format!(
                "*** NOT TESTED: virt-hook serve in {memory} bytes and {cpu_percent} % of a processor: \
                 {error} ***"
            ));
            None
        }
        Err(error) => panic!("making a cgroup: {error}"),
    }
}

/// Past the capture of test output: a test that tests nothing must not look like one.
#[allow(clippy::explicit_write)]
fn tell(line: &str) {
    writeln!(std::io::stderr(), "{line}").unwrap();
}

#[tokio::test]
async fn it_gets_ready_and_works() {
    let modules = [&example("smbios-hook"), &example("cloud-init-hook")];
    let Some(group) = group(MEMORY, CPU_PERCENT) else {
        return;
    };
    let pod = Pod::new();
    let started = Instant::now();
    let command = group.command(env!("CARGO_BIN_EXE_virt-hook"));
    let mut served = pod.serve_as(command, &modules, &[]);
    served.ready().await;
    let ready = started.elapsed();
    tell(&format!(
        "cgroup v{}: two modules ready after {ready:?} at {CPU_PERCENT} % of a processor; peak {} of \
         {MEMORY} bytes",
        group.version,
        group.peak()
    ));

    let mut times = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        let channel = stock_launcher_client::dial(&pod.socket()).await;
        let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
        let params = v1alpha3::OnDefineDomainParams {
            domain_xml: XML.into(),
            vmi: vmi().into_bytes(),
        };
        let answer = client.on_define_domain(params).await.unwrap().into_inner();
        assert!(
            String::from_utf8(answer.domain_xml)
                .unwrap()
                .contains("Radical Edward")
        );
        times.push(started.elapsed());
    }
    times.sort();
    tell(&format!(
        "OnDefineDomain through a fresh connection: p50 {:?}",
        times[10]
    ));
    served.signal();
    let stderr = served.ended(0).await;
    assert!(
        stderr.contains("61 MiB of memory and 0.20 processors"),
        "{stderr}"
    );
    assert!(ready < READY, "{ready:?}");
    assert_eq!(group.killed(), 0);
}

#[tokio::test]
async fn a_module_that_is_too_large_is_an_error_and_not_a_dead_container() {
    let module = example("smbios-hook");
    let Some(group) = group(36_000_000, CPU_PERCENT) else {
        return;
    };
    let pod = Pod::new();
    let command = group.command(env!("CARGO_BIN_EXE_virt-hook"));
    let stderr = pod.serve_as(command, &[&module], &[]).ended(2).await;
    assert!(
        stderr.contains("smbios_hook.wasm")
            && stderr.contains("this container has 34 MiB of memory")
            && stderr.contains("supportContainerResources"),
        "{stderr}"
    );
    assert_eq!(group.killed(), 0);
    assert!(pod.everything().is_empty());
}

#[tokio::test]
async fn processors_that_it_has_cost_no_memory() {
    let module = example("smbios-hook");
    let Some(group) = group(44_000_000, 200) else {
        return;
    };
    let pod = Pod::new();
    let command = group.command(env!("CARGO_BIN_EXE_virt-hook"));
    let mut served = pod.serve_as(command, &[&module], &[]);
    served.ready().await;
    served.signal();
    served.ended(0).await;
}
