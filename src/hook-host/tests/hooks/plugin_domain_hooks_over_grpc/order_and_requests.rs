//! The order of plugins, and the requests that they receive.

use super::*;

#[tokio::test]
async fn plugins_run_after_the_hooks_in_order_of_name() {
    let pod = PodDirs::new();
    pod.0.put_hook("hook-sidecar-1");
    let hook = Behaviour {
        hook_points: vec![("OnDefineDomain", -7)],
        define: |xml| Ok(xml.replace("</domain>", "<description>s</description></domain>")),
        ..Behaviour::default()
    };
    let _hook = Sidecar::serve(&pod.0.at("hook-sidecar-0", "s.sock"), hook);
    let (b, a) = (
        pod.serve("b", add_element("b")),
        pod.serve("a", add_element("a")),
    );
    let chain = pod.chain(2).await;
    let plugins = plugins(&[
        ("b", vec![pod.hook("b"), pod.hook("b")]),
        ("a", vec![pod.hook("a")]),
    ]);
    chain.check_plugins("{}", &plugins).unwrap();
    let (xml, runs) = define(&chain, &plugins).await.unwrap();
    let end = "<title>odd</title><description>s</description><a/><b/><b/></domain>";
    assert!(xml.contains(end), "{xml}");
    let order: Vec<_> = runs.iter().map(|run| run.hook.as_str()).collect();
    let expected = [
        "hook-sidecar-1",
        "hook-sidecar-0",
        "plugin/a[0]",
        "plugin/b[0]",
        "plugin/b[1]",
    ];
    assert_eq!(order, expected);
    assert_eq!(runs[2].changes[0].path, "/domain/a");
    assert_eq!(
        chain.last_touched("/domain/a").as_deref(),
        Some("plugin/a[0]")
    );
    assert_eq!(
        chain.last_touched("/domain/title").as_deref(),
        Some("hook-sidecar-1")
    );
    assert_eq!((a.calls().len(), b.calls().len()), (1, 2));
    let call = &a.calls()[0];
    assert_eq!(
        (call.domain_type.as_str(), call.context.as_str()),
        ("libvirt", "Boot")
    );
    assert_eq!(call.vmi, "{}");
    assert!(call.domain.contains("<description>"), "{}", call.domain);
}

#[tokio::test]
async fn launcher_hooks_call_the_service_of_v1_10() {
    let pod = PodDirs::new();
    let (a, b) = (pod.socket("a"), pod.socket("b"));
    let new = PluginServer::serve_launcher_hooks(&a, add_element("a"));
    let old = PluginServer::serve(&b, add_element("b"));
    let chain = pod.chain(0).await;
    let plugin = |name: &str, socket: &Path, strategy: &str| {
        let points = ["GuestDefinition", "PreBoot"];
        let sidecar = json!({"socketPath": socket, "permittedHooks": points});
        let hook = json!({"sidecar": sidecar, "failureStrategy": strategy});
        json!({"metadata": {"name": name}, "spec": {"launcherHooks": [hook]}})
    };
    let parse = |list: Value| Plugins::parse(list.to_string().as_bytes()).unwrap();
    let plugins = parse(json!([plugin("a", &a, "Fail"), plugin("b", &b, "Ignore")]));
    let (xml, runs) = define(&chain, &plugins).await.unwrap();
    assert!(xml.contains("<a/>") && !xml.contains("<b/>"), "{xml}");
    assert_eq!(
        (runs[0].hook.as_str(), &runs[0].outcome),
        ("plugin/a[0]", &Outcome::Ok)
    );
    assert_eq!(runs[0].uncalled_points, ["PreBoot"]);
    assert_eq!((new.calls().len(), old.calls().len()), (1, 0));
    let call = &new.calls()[0];
    assert_eq!(
        (
            call.domain_type.as_str(),
            call.context.as_str(),
            call.vmi.as_str()
        ),
        ("libvirt", "Boot", "{}")
    );
    // The sidecar of `b` only has the service of v1.9.
    let error = define(&chain, &parse(json!([plugin("b", &b, "Fail")]))).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("GuestDefinition RPC to b failed with Unimplemented"),
        "{error}"
    );
}

#[tokio::test]
async fn plugins_run_without_any_hook() {
    let pod = PodDirs::new();
    let _a = pod.serve("a", add_element("a"));
    let chain = pod.chain(0).await;
    let plugins = plugins(&[("a", vec![pod.hook("a")])]);
    let (xml, runs) = define(&chain, &plugins).await.unwrap();
    assert!(xml.contains("<a/></domain>") && runs.len() == 1, "{xml}");
    let (xml, runs) = define(&chain, &Plugins::default()).await.unwrap();
    assert_eq!(
        (xml.as_str(), runs.len()),
        (XML, 0),
        "without plugins the domain is unchanged"
    );
}

#[tokio::test]
async fn the_reason_of_a_migration_target_is_passed() {
    let pod = PodDirs::new();
    let a = pod.serve("a", add_element("a"));
    let chain = pod.chain(0).await;
    let plugins = plugins(&[("a", vec![pod.hook("a")])]);
    let arrival = hook_host::Invocation {
        reason: hook_host::Reason::MigrationTarget,
        ..invocation()
    };
    chain
        .on_define_domain_with_plugins(&arrival, "{}", XML.into(), &plugins)
        .await
        .unwrap();
    assert_eq!(a.calls()[0].context, "MigrationTarget");
}
