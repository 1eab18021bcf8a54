//! Tests the files of the policies: both API versions, the recorded files, their rule for a launcher, the rows in
//! `docs/admission.md`, and the patch of the overlay `whole-cluster`.

use std::fs;

use serde_json::{Value as Json, json};
use tests::binaries::workspace;

use crate::policy_files::documents;
use crate::shipped_policies::policy_file;
use crate::virt_hook_deploy_manifests::deploy;

#[test]
fn both_api_versions_have_the_same_policies() {
    for (name, _) in ALL_POLICIES {
        let mut new = documents(&policy_file(name, "v1"));
        for document in &mut new {
            assert_eq!(
                document["apiVersion"], "admissionregistration.k8s.io/v1",
                "{name}"
            );
            // Validating policies are v1 in both.
            if document["kind"].as_str().unwrap().starts_with("Mutating") {
                document["apiVersion"] = "admissionregistration.k8s.io/v1beta1".into();
            }
        }
        assert_eq!(new, documents(&policy_file(name, "v1beta1")), "{name}");
    }
}

/// All policies, and the file in the corpus of recorded verdicts that must be the same, if there is one.
const ALL_POLICIES: &[(&str, Option<&str>)] = &[
    ("counted-hooks-from-image", Some("hooks-image")),
    ("standing-hooks-from-image", Some("standing-hooks")),
    ("launcher-canary", Some("launcher-image")),
    ("standing-hooks-from-config-map", None),
    ("standing-hooks-from-pvc", None),
    ("standing-hooks-by-namespace", None),
    ("standing-hooks-by-label", None),
    ("pod-info", None),
];

/// Also checks that `docs/admission.md` has a row for each policy.
#[test]
fn recorded_policies_are_the_ones_that_were_recorded() {
    let readme = fs::read_to_string(workspace().join("docs/admission.md")).unwrap();
    for (name, recorded) in ALL_POLICIES {
        let mut rows = readme.lines();
        assert!(
            rows.any(|line| line.starts_with(&format!("| [{name}.yaml]"))),
            "{name}"
        );
        if let Some(recorded) = recorded {
            assert_eq!(
                documents(&policy_file(name, "v1")),
                documents(&format!("tests/corpus/api-server-verdicts/{recorded}.yaml")),
                "{name}"
            );
        }
    }
    for version in ["v1", "v1beta1"] {
        let files = |directory: &str| {
            let directory = format!("deploy/{directory}/{version}");
            fs::read_dir(workspace().join(directory)).unwrap().count()
        };
        let kustomizations = 2;
        let found = files("admission") + files("canary");
        assert_eq!(found, ALL_POLICIES.len() + kustomizations, "{version}");
    }
}

/// A policy's expressions of this name, of `matchConditions` or `variables`, with blanks for line breaks.
fn expressions(objects: &[Json], list: &str, name: &str) -> Vec<String> {
    let lists = objects
        .iter()
        .filter_map(|object| object["spec"][list].as_array());
    let named = lists.flatten().filter(|item| item["name"] == name);
    let texts = named.map(|item| item["expression"].as_str().unwrap());
    texts
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// A policy that knows a launcher by another rule than the guard lets it start without its hooks.
#[test]
fn every_policy_and_the_guard_know_a_launcher_by_the_same_rule() {
    let mut sources: Vec<(String, Vec<Json>)> = ALL_POLICIES
        .iter()
        .map(|(name, _)| (policy_file(name, "v1"), documents(&policy_file(name, "v1"))))
        .collect();
    let plugin = ["--as", "plugin", "--image", "registry.example/hooks:1"];
    sources.push(("virt-hook deploy".to_owned(), deploy(&plugin)));
    let [rule, ..] = &expressions(&sources[0].1, "matchConditions", "starts-a-vm")[..] else {
        panic!("no rule");
    };
    for (source, objects) in &sources {
        let policies = objects.iter().filter(|object| {
            let kind = object["kind"].as_str().unwrap();
            kind.ends_with("AdmissionPolicy")
        });
        let rules = expressions(objects, "matchConditions", "starts-a-vm");
        assert_eq!(rules.len(), policies.count(), "{source}");
        for found in rules {
            assert_eq!(found, *rule, "{source}");
        }
    }
    let guard = documents("deploy/admission/guard/refuse-unusable-hook-annotations.yaml");
    let launchers = &expressions(&guard, "variables", "launchers")[0];
    let (_, shell) = rule.split_once("c.name == 'compute' && ").unwrap();
    let shell = shell.strip_suffix(')').unwrap();
    let expected = format!("filter(c, c.name == 'compute' && !({shell}))");
    assert!(launchers.ends_with(&expected), "{launchers}: {expected}");
}

/// virt-operator applies the patch to virt-controller's Deployment. The arguments here are those of KubeVirt v1.9.
#[test]
fn the_whole_clusters_patch_changes_the_launchers_image_only() {
    let [patch] = &documents("deploy/overlays/whole-cluster/kubevirt-patch.yaml")[..] else {
        panic!("one document");
    };
    let [patch] = &patch["spec"]["customizeComponents"]["patches"]
        .as_array()
        .unwrap()[..]
    else {
        panic!("one patch");
    };
    let operations: json_patch::Patch =
        serde_json::from_str(patch["patch"].as_str().unwrap()).unwrap();
    let deployment = |arguments: [&str; 4]| json!({"spec": {"template": {"spec": {"containers": [{"name": "virt-controller", "args": arguments}]}}}});
    let mut patched = deployment(["--launcher-image", "theirs", "--exporter-image", "e"]);
    json_patch::patch(&mut patched, &operations).unwrap();
    let launcher_image = "registry.example/virt-launcher:v1.9.0-wasm";
    assert_eq!(
        patched,
        deployment(["--launcher-image", launcher_image, "--exporter-image", "e"])
    );
    let mut other = deployment(["--exporter-image", "e", "--launcher-image", "theirs"]);
    json_patch::patch(&mut other, &operations).unwrap_err();
}
