//! `virt-hook serve` within the limits that KubeVirt gives a sidecar of a guaranteed VM: 64 MB and a fifth of a
//! processor. The tests need a cgroup in which groups can be created, which root has on most machines. Without one they
//! say so on standard error and test nothing.
#![allow(clippy::unwrap_used)]

#[path = "support/example_modules.rs"]
mod example_modules;
#[path = "support/limited_cgroup.rs"]
mod limited_cgroup;
#[path = "support/served_sidecar/mod.rs"]
mod served_sidecar;

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use example_modules::example;
use limited_cgroup::LimitedCgroup;
use proto::hooks::v1alpha3;
use served_sidecar::{Pod, XML, stock_launcher_client, vmi};

/// KubeVirt's `64M`, in bytes.
const MEMORY: u64 = 64_000_000;
/// KubeVirt's `200m`.
const CPU_PERCENT: u64 = 20;
/// The time in which a plugin's sidecar must be ready for a launcher; a hook sidecar has minutes.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

fn limited_cgroup(memory: u64, cpu_percent: u64) -> Option<LimitedCgroup> {
    match LimitedCgroup::new(memory, cpu_percent) {
        Ok(limited_cgroup) => Some(limited_cgroup),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            print_uncaptured(&format!(
                "*** NOT TESTED: virt-hook serve in {memory} bytes and {cpu_percent} % of a processor: \
                 {error} ***"
            ));
            None
        }
        Err(error) => panic!("making a cgroup: {error}"),
    }
}

/// Prints a line in spite of the capture of test output: it must be visible that a test has tested nothing.
#[allow(clippy::explicit_write)]
fn print_uncaptured(line: &str) {
    writeln!(std::io::stderr(), "{line}").unwrap();
}

#[tokio::test]
async fn two_modules_get_ready_and_are_called_within_the_limits_of_a_sidecar() {
    let modules = [&example("smbios-hook"), &example("cloud-init-hook")];
    let Some(limited_cgroup) = limited_cgroup(MEMORY, CPU_PERCENT) else {
        return;
    };
    let pod = Pod::new();
    let started = Instant::now();
    let command = limited_cgroup.command(env!("CARGO_BIN_EXE_virt-hook"));
    let mut served = pod.serve_as(command, &modules, &[]);
    served.wait_until_ready().await;
    let ready_after = started.elapsed();
    print_uncaptured(&format!(
        "cgroup v{}: two modules ready after {ready_after:?} at {CPU_PERCENT} % of a processor; peak {} of \
         {MEMORY} bytes",
        limited_cgroup.version,
        limited_cgroup.peak()
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
    print_uncaptured(&format!(
        "OnDefineDomain through a fresh connection: p50 {:?}",
        times[10]
    ));
    served.terminate();
    let stderr = served.wait_for_exit(0).await;
    assert!(
        stderr.contains("61 MiB of memory and 0.20 processors"),
        "{stderr}"
    );
    assert!(ready_after < READY_TIMEOUT, "{ready_after:?}");
    assert_eq!(limited_cgroup.oom_kills(), 0);
}

#[tokio::test]
async fn a_module_that_is_too_large_is_an_error_and_not_a_dead_container() {
    let module = example("smbios-hook");
    let Some(limited_cgroup) = limited_cgroup(36_000_000, CPU_PERCENT) else {
        return;
    };
    let pod = Pod::new();
    let command = limited_cgroup.command(env!("CARGO_BIN_EXE_virt-hook"));
    let stderr = pod
        .serve_as(command, &[&module], &[])
        .wait_for_exit(2)
        .await;
    assert!(
        stderr.contains("smbios_hook.wasm")
            && stderr.contains("this container has 34 MiB of memory")
            && stderr.contains("supportContainerResources"),
        "{stderr}"
    );
    assert_eq!(limited_cgroup.oom_kills(), 0);
    assert!(pod.everything().is_empty());
}

#[tokio::test]
async fn more_processors_do_not_need_more_memory() {
    let module = example("smbios-hook");
    let Some(limited_cgroup) = limited_cgroup(44_000_000, 200) else {
        return;
    };
    let pod = Pod::new();
    let command = limited_cgroup.command(env!("CARGO_BIN_EXE_virt-hook"));
    let mut served = pod.serve_as(command, &[&module], &[]);
    served.wait_until_ready().await;
    served.terminate();
    served.wait_for_exit(0).await;
}
