//! Calls of sidecars that fail, and what the log has about elements that are lost between calls.

use std::fs;

use proto::hooks::v1alpha3;
use tonic::Code;

use crate::example_modules::{example, hook_at_every_point};
use crate::served_sidecar::{Pod, XML, stock_launcher_client, vmi, vmi_that_does};

#[tokio::test]
async fn vetoes_and_failures_have_different_status_codes() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&hook_at_every_point()], &[]);
    served.wait_until_ready().await;
    let define = async |what: &str| {
        let channel = stock_launcher_client::dial(&pod.socket()).await;
        let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
        let params = v1alpha3::OnDefineDomainParams {
            domain_xml: XML.into(),
            vmi: vmi_that_does(what).into_bytes(),
        };
        client.on_define_domain(params).await.unwrap_err()
    };
    assert_eq!(define("veto").await.code(), Code::FailedPrecondition);
    assert_eq!(define("fail").await.code(), Code::Internal);

    // The call succeeds although the shutdown hook fails, so that other sidecars are called too. Two calls are one
    // shutdown.
    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
    let mut other = client.clone();
    let (one, two) = tokio::join!(
        client.shutdown(v1alpha3::ShutdownParams {}),
        other.shutdown(v1alpha3::ShutdownParams {})
    );
    assert!(one.is_ok() && two.is_ok());
    let stderr = served.wait_for_exit(0).await;
    assert_eq!(
        stderr.matches("hooks were shut down").count(),
        1,
        "{stderr}"
    );
}

#[tokio::test]
async fn too_large_answers_are_reported() {
    let pod = Pod::new();
    // On a busy machine, checking four megabytes takes longer than the default deadline of a call.
    let hook = tempfile::tempdir().unwrap();
    let module = hook.path().join("smbios_hook.wasm");
    fs::copy(example("smbios-hook"), &module).unwrap();
    fs::write(hook.path().join("hook.yaml"), "deadline: 15s\n").unwrap();
    let mut served = pod.serve(&[&module], &[]);
    served.wait_until_ready().await;
    let define = async |bytes: usize| {
        let channel = stock_launcher_client::dial(&pod.socket()).await;
        let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
        let padding = format!("<!--{}--></domain>", "x".repeat(bytes - XML.len() - 7));
        let params = v1alpha3::OnDefineDomainParams {
            domain_xml: XML.replace("</domain>", &padding).into_bytes(),
            vmi: b"{}".to_vec(),
        };
        client.on_define_domain(params).await
    };
    let limit = 4 << 20;
    define(limit - 100).await.unwrap();
    let status = define(limit - 10).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let status = define(limit + 10).await.unwrap_err();
    assert!(status.message().contains("smbios_hook"), "{status:?}");
    assert_eq!(
        define(3 * limit).await.unwrap_err().code(),
        Code::OutOfRange
    );
    served.terminate();
    served.wait_for_exit(0).await;
}

/// KubeVirt v1.9.0 with any hook: the first define has `qemu:commandline`, the next ones have not.
#[tokio::test]
async fn an_element_that_the_launcher_loses_between_two_calls_is_logged() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &[]);
    served.wait_until_ready().await;
    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
    let namespace = "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'";
    let argument = "<qemu:commandline><qemu:arg value='-debugcon'/></qemu:commandline>";
    for more in [argument, "", ""] {
        let domain = format!(
            "<domain type='kvm' {namespace}><name>ns_vm</name><os/><sysinfo type='smbios'/>{more}</domain>"
        );
        let params = v1alpha3::OnDefineDomainParams {
            domain_xml: domain.into_bytes(),
            vmi: vmi().into_bytes(),
        };
        let answer = client.on_define_domain(params).await.unwrap().into_inner();
        let answer = String::from_utf8(answer.domain_xml).unwrap();
        assert_eq!(answer.contains("-debugcon"), !more.is_empty(), "{answer}");
    }
    served.terminate();
    let stderr = served.wait_for_exit(0).await;
    let lost_lines = stderr
        .lines()
        .filter(|line| line.contains("qemu:commandline"));
    let lost_lines: Vec<_> = lost_lines
        .filter(|line| line.contains("has lost an element"))
        .collect();
    assert_eq!(lost_lines.len(), 1, "{stderr}");
    assert!(
        lost_lines[0].contains("WARN") && lost_lines[0].contains("vm"),
        "{stderr}"
    );
}
