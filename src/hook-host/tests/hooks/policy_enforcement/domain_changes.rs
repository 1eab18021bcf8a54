//! Which changes of the domain are granted.

use super::*;

#[tokio::test]
async fn an_ungranted_change_is_refused_with_the_line_that_would_allow_it() {
    let chain =
        chain_of_misbehaving_hook("# narrow\nallow:\n  paths: ['/domain/description']\n").await;
    let error = define(&chain, "facts").await;
    assert!(error.is_ok(), "{error:?}");
    let error = define(&chain, "title").await.unwrap_err();
    let HookError::Denied {
        hook,
        point,
        path,
        before,
        after,
        remedy,
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!((hook.as_str(), *point), ("h", HookPoint::OnDefineDomain));
    assert_eq!((path.as_str(), before), ("/domain/title", &None));
    assert!(after.as_deref().unwrap().contains("odd"));
    assert!(
        remedy.contains("h/hook.yaml:3:10") && remedy.contains("\"/domain/title\""),
        "{remedy}"
    );
    assert_eq!(
        (error.kind(), error.event_reason()),
        ("denied", "HookDenied")
    );
}

#[tokio::test]
async fn a_value_that_does_not_meet_the_condition_is_refused_with_the_line_and_the_remedy() {
    let yaml = "allow:\n  paths:\n    - {path: /domain/cputune/shares, at-most: 4}\n";
    let chain = chain_of_misbehaving_hook(yaml).await;
    let write = |shares: &str| format!("replace\n<uuid>\n<cputune>{shares}</cputune><uuid>");
    for granted in ["<shares>4</shares>", "<shares><![CDATA[4]]></shares>"] {
        let result = define(&chain, &write(granted)).await;
        assert!(result.is_ok(), "{granted}: {result:?}");
    }
    for (refused, part) in [
        ("<shares>5</shares>", "5 is more than 4; let the hook write"),
        ("<shares>+4</shares>", "is not a number as at-most reads it"),
        ("<shares>1<!-- -->6</shares>", "16 is more than 4"),
        (
            "<shares>0x4</shares>",
            "h/hook.yaml:3:5 would have to widen `/domain/cputune/shares (at-most: 4)`",
        ),
        (
            "<shares>4</shares><quota>1</quota>",
            "would have to contain",
        ),
    ] {
        let error = define(&chain, &write(refused)).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.event_reason()),
            ("denied", "HookDenied"),
            "{refused}: {error}"
        );
        assert!(error.to_string().contains(part), "{refused}: {error}");
    }
}

#[tokio::test]
async fn cdata_prefixes_and_wrappers_do_not_hide_a_change() {
    let chain = chain_of_misbehaving_hook("allow: {paths: ['/domain/description/**']}\n").await;
    for (what, from, to) in [
        (
            "CDATA",
            "<uuid>5a9f</uuid>",
            "<uuid>5a9f</uuid><title><![CDATA[x]]></title>",
        ),
        (
            "a prefix",
            "<uuid>",
            "<d:description xmlns:d='http://libvirt.org/schemas/domain/qemu/1.0'/><uuid>",
        ),
        ("an entity", "<uuid>", "<title>&#120;</title><uuid>"),
        (
            "a second key",
            "</metadata>",
            "</metadata><metadata><x/></metadata>",
        ),
        (
            "a wrapper",
            "<uuid>",
            "<description/><title><description/></title><uuid>",
        ),
    ] {
        let error = define(&chain, &format!("replace\n{from}\n{to}"))
            .await
            .unwrap_err();
        // A domain with two elements of which libvirt reads one is invalid, whatever is granted.
        let kind = match what {
            "a second key" => "bad-output",
            _ => "denied",
        };
        assert_eq!(error.kind(), kind, "{what}: {error}");
    }
    // libvirt's parser ignores these declarations, so it would read a command line of QEMU.
    let chain_of_all = chain_of_misbehaving_hook("allow: {paths: ['/domain/**']}\n").await;
    let qemu = "http://libvirt.org/schemas/domain/qemu/1.0";
    for (hidden, reason) in [
        (
            format!("<commandline xmlns='{qemu}' xmlns:='urn:x'/>"),
            "not a name",
        ),
        (
            format!("<description xmlns:q='{qemu}'><q:commandline xmlns:q=''/></description>"),
            "not a valid namespace declaration",
        ),
    ] {
        let vmi = format!("replace\n<uuid>\n{hidden}<uuid>");
        let error = define(&chain_of_all, &vmi).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    // In libvirt's parser the colon belongs to the local name, so KubeVirt would not find the element any more.
    let with_metadata = XML.replace(
        "<uuid>",
        "<metadata><kubevirt xmlns='http://kubevirt.io'><uid>7</uid></kubevirt></metadata><uuid>",
    );
    for (from, to) in [
        ("<uid>7</uid>", "<:uid>7</:uid>"),
        ("<uid>7</uid>", "<uid:>7</uid:>"),
    ] {
        let vmi = format!("replace\n{from}\n{to}");
        let invocation = invocation();
        let defined = chain_of_all.on_define_domain(&invocation, &vmi, with_metadata.clone());
        let error = defined.await.unwrap_err();
        assert!(error.to_string().contains("not a name"), "{error}");
    }
    // Reordered elements are a change of their parent.
    let xml = XML.replace(
        "</domain>",
        "<os><boot dev='hd'/><boot dev='network'/></os></domain>",
    );
    let vmi =
        "replace\n<boot dev='hd'/><boot dev='network'/>\n<boot dev='network'/><boot dev='hd'/>";
    let error = chain
        .on_define_domain(&invocation(), vmi, xml)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, HookError::Denied { path, .. } if path.starts_with("/domain/os")),
        "{error}"
    );
    // Equivalent XML is not a change.
    for (from, to) in [
        ("<uuid>5a9f</uuid>", "<uuid><![CDATA[5a9f]]></uuid>"),
        ("type='kvm'", "type=\"kvm\""),
    ] {
        define(&chain, &format!("replace\n{from}\n{to}"))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn the_dangerous_set_must_be_granted_by_the_operator() {
    let emulator = "replace\n</domain>\n<devices><emulator>/bin/sh</emulator></devices></domain>";
    let chain =
        chain_of_misbehaving_hook("allow: {paths: ['/domain/**', '/domain/devices/emulator']}\n")
            .await;
    let error = define(&chain, emulator).await.unwrap_err().to_string();
    assert!(error.contains("/domain/devices/emulator"), "{error}");

    let dirs = HookDirs::new();
    let module = misbehaving_hook_wishing(
        r#"["/domain/**","/domain/devices/emulator"]"#,
        PATHS_PLACEHOLDER,
    );
    dirs.put_modified_an_hour_ago("h", "odd.wasm", &module);
    let refused = collect(dirs.config(1)).await.err().unwrap().to_string();
    assert!(
        refused.contains("/domain/devices/emulator") && refused.contains("allow.dangerous"),
        "{refused}"
    );
    let policy = "rules:\n- namespaces: [ns]\n  allow: {dangerous: [/domain/devices/emulator]}\n";
    let policy = PolicySource::File(write_policy(&dirs, "p.yaml", policy));
    let namespace = |namespace: &str| CollectConfig {
        policy: policy.clone(),
        namespace: namespace.to_owned(),
        ..dirs.config(1)
    };
    assert!(collect(namespace("other")).await.is_err());
    let chain = collect(namespace("ns")).await.unwrap();
    assert!(define(&chain, emulator).await.unwrap().contains("/bin/sh"));
}

#[tokio::test]
async fn module_without_wishes_may_not_change_the_domain() {
    let without_wishes = crate::fixture::misbehaving_hook_with("\"wishes\"", "\"future\"");
    let dirs = HookDirs::new();
    dirs.put_modified_an_hour_ago("h", "odd.wasm", &without_wishes);
    let chain = collect(dirs.config(1)).await.unwrap();
    assert_eq!(define(&chain, "keep").await.unwrap(), XML);
    let error = define(&chain, "title").await.unwrap_err().to_string();
    assert!(
        error.contains("`describe` declares") && error.contains("hook.yaml"),
        "{error}"
    );
    let chain = collect_with_hook_yaml(&without_wishes, "allow: {paths: [/domain/title]}\n")
        .await
        .unwrap();
    assert!(define(&chain, "title").await.is_ok());
}

#[tokio::test]
async fn ignored_failures_and_dry_runs_leave_the_domain_unchanged() {
    for word in ["veto", "fail", "panic", "malformed", "rename"] {
        let chain = chain_of_misbehaving_hook("failurePolicy: Ignore\n").await;
        let (xml, runs) = chain
            .on_define_domain(&invocation(), word, XML.into())
            .await
            .unwrap();
        assert_eq!(xml, XML, "{word}");
        assert!(matches!(runs[0].outcome, Outcome::Failed(_)), "{word}");
    }
    let chain = chain_of_misbehaving_hook(
        "failurePolicy: Ignore\ndeadline: 100ms\nallow: {paths: [/domain/description]}\n",
    )
    .await;
    for word in ["loop", "title"] {
        let (xml, runs) = chain
            .on_define_domain(&invocation(), word, XML.into())
            .await
            .unwrap();
        assert!(
            xml == XML && matches!(runs[0].outcome, Outcome::Failed(_)),
            "{word}"
        );
    }
    assert!(
        define(&chain, "facts")
            .await
            .unwrap()
            .contains("<description>")
    );
    let chain = chain_of_misbehaving_hook("failurePolicy: DryRun\n").await;
    let (xml, runs) = chain
        .on_define_domain(&invocation(), "title", XML.into())
        .await
        .unwrap();
    assert_eq!((xml.as_str(), runs[0].changes.len()), (XML, 1));
    assert_eq!(chain.last_touched("/domain/title"), None);
    assert!(chain.pre_start(&invocation(), "veto").await.is_ok());
}

#[tokio::test]
async fn a_node_that_two_hooks_changed_is_attributed_to_the_last() {
    let dirs = HookDirs::new();
    dirs.put_hook("one");
    dirs.put_hook("two");
    let chain = collect(dirs.config(2)).await.unwrap();
    let vmi = "replace\n<uuid>\n<sysinfo type='smbios'/><uuid>";
    define(&chain, vmi).await.unwrap();
    assert_eq!(
        chain.last_touched("/domain/sysinfo").as_deref(),
        Some("two")
    );
    assert_eq!(chain.last_touched("/domain/devices"), None);
    let provenance = chain.provenance();
    assert_eq!(
        provenance
            .hook_of_refusal("unknown element 'sysinfo'")
            .unwrap()
            .0,
        "two"
    );
}
