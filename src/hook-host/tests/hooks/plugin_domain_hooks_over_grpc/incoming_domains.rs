//! Sidecars and plugins that edit a domain that arrives by a migration.

use super::*;

#[tokio::test]
async fn sidecars_and_plugins_edit_an_incoming_domain_only_if_the_policy_allows_it() {
    const TITLE: &str = "<title>of the plugin</title>";
    let pod = PodDirs::new();
    let behaviour = || Behaviour {
        define: |xml| Ok(xml.replace("</domain>", "<description>s</description></domain>")),
        ..Behaviour::default()
    };
    let sidecar = Sidecar::serve(&pod.0.at("hook-sidecar-0", "s.sock"), behaviour());
    let add_title = |xml: String| xml.replace("</domain>", &format!("{TITLE}</domain>"));
    let plugin = pod.serve("a", Answer::Domain(Box::new(add_title)));
    let plugins = plugins(&[("a", vec![pod.hook("a")])]);
    let arrival = hook_host::Invocation {
        reason: hook_host::Reason::MigrationTarget,
        ..invocation()
    };
    let file = pod.0.hooks().with_file_name("policy.yaml");
    for (policy, called) in [
        ("{}", vec![]),
        (
            "sidecarsOnArrival: [hook-sidecar-0]",
            vec!["hook-sidecar-0"],
        ),
        (
            "sidecarsOnArrival: [a, hook-sidecar-0]",
            vec!["hook-sidecar-0", "plugin/a[0]"],
        ),
    ] {
        std::fs::write(&file, format!("{policy}\n")).unwrap();
        let config = CollectConfig {
            policy: PolicySource::File(file.clone()),
            ..pod.config(1)
        };
        let chain = collect(config).await.unwrap();
        let arrived = chain.on_incoming_domain(&arrival, "{}", XML.into(), &plugins);
        let (xml, runs) = arrived.await.unwrap();
        let names: Vec<_> = runs.iter().map(|run| run.hook.as_str()).collect();
        assert_eq!(names, called, "{policy}");
        assert_eq!(xml.contains("<description>"), !called.is_empty(), "{xml}");
        assert_eq!(xml.contains(TITLE), called.len() == 2, "{xml}");
    }
    assert_eq!((sidecar.calls().len(), plugin.calls().len()), (2, 1));
}

#[tokio::test]
async fn a_sidecars_change_that_libvirt_would_refuse_is_a_failure_of_the_sidecar() {
    let pod = PodDirs::new();
    let appends = Behaviour {
        define: |xml| {
            Ok(xml.replace(
                "</domain>",
                "<devices><rng model='virtio'/></devices></domain>",
            ))
        },
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&pod.0.at("hook-sidecar-0", "s.sock"), appends);
    let file = pod.0.hooks().with_file_name("policy.yaml");
    std::fs::write(&file, "sidecarsOnArrival: [hook-sidecar-0]\n").unwrap();
    let config = CollectConfig {
        policy: PolicySource::File(file),
        ..pod.config(1)
    };
    let chain = collect(config).await.unwrap();
    let refused = chain
        .on_incoming_domain(&invocation(), "{}", XML.into(), &Plugins::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("hook-sidecar-0") && refused.contains("/domain/devices"),
        "{refused}"
    );
}
