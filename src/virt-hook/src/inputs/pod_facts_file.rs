//! Facts about a pod from a file, for hooks that read them on the author's machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use hook_host::{PodConfig, render_downward_api};
use kubevirt_api::strict_json_or_yaml;
use serde::Deserialize;
use serde_json::Value;

use super::input_file;
use crate::verb_failure::Failure;

/// Maximum size of the file in bytes. A pod has at most 256 KiB of annotations.
const MAX_BYTES: usize = 4 << 20;
const NETWORK_STATUS_ANNOTATION: &str = "k8s.v1.cni.cncf.io/network-status";
const NETWORK_INFO_ANNOTATION: &str = "kubevirt.io/network-info";

/// The facts of a file: of a Pod, as `kubectl get pod -o yaml` prints it, or written by hand.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PodFacts {
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    /// The value of Multus' annotation.
    network_status: Option<Value>,
    /// The value of KubeVirt's annotation.
    network_info: Option<Value>,
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Metadata {
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
}

/// The source of facts about the pod.
#[derive(Debug, Clone, Default)]
pub(crate) enum PodFactsInput {
    /// There are no facts.
    #[default]
    None,
    /// A file, on the author's machine.
    File(PathBuf),
    /// Files of the downward API.
    Mounted(PodConfig),
}

impl PodFactsInput {
    pub(crate) fn from_file(path: Option<&Path>) -> Self {
        path.map_or(Self::None, |path| Self::File(path.to_owned()))
    }

    /// The configuration of the hook host. The facts of a file are written below `directory`.
    pub(crate) fn config(self, directory: &Path) -> Result<PodConfig, Failure> {
        match self {
            Self::None => Ok(PodConfig::default()),
            Self::File(path) => write_as_mounted(&path, &directory.join("pod")),
            Self::Mounted(config) => Ok(config),
        }
    }
}

/// Writes the facts of a file into `directory`, in the kubelet's format. They do not change later, so that hooks need
/// not wait for them.
fn write_as_mounted(path: &Path, directory: &Path) -> Result<PodConfig, Failure> {
    let bytes = input_file::read(path, MAX_BYTES)?;
    let facts = parse(&bytes)
        .with_context(|| input_file::name(path))
        .map_err(Failure::Usage)?;
    write(&facts, directory).map_err(Failure::Internal)?;
    Ok(PodConfig {
        dir: Some(directory.to_owned()),
        wait: Duration::ZERO,
    })
}

fn write(facts: &PodFacts, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    for (name, facts) in [
        ("annotations", &facts.annotations),
        ("labels", &facts.labels),
    ] {
        let file = directory.join(name);
        fs::write(&file, render_downward_api(facts)).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn parse(bytes: &[u8]) -> Result<PodFacts> {
    std::str::from_utf8(bytes).context("it is not UTF-8")?;
    let documents = strict_json_or_yaml::documents(bytes);
    let documents =
        documents.map_err(|error| anyhow!("it is not {}: {}", error.format, error.message))?;
    let [value] = &documents[..] else {
        return Err(anyhow!(
            "it has {} documents, but must have one",
            documents.len()
        ));
    };
    let value = value.clone();
    let is_pod = value.get("kind").and_then(Value::as_str) == Some("Pod");
    let mut facts = if is_pod {
        let pod: Pod = serde_json::from_value(value).context("it is not a Pod")?;
        PodFacts {
            annotations: pod.metadata.annotations,
            labels: pod.metadata.labels,
            ..PodFacts::default()
        }
    } else {
        serde_json::from_value(value).context(
            "it is neither a Pod nor a map of annotations, labels, networkStatus, networkInfo",
        )?
    };
    for (key, value) in [
        (NETWORK_STATUS_ANNOTATION, facts.network_status.take()),
        (NETWORK_INFO_ANNOTATION, facts.network_info.take()),
    ] {
        let Some(value) = value else { continue };
        // A string is the text of the annotation, whatever it contains.
        let text = match value {
            Value::String(text) => text,
            value => value.to_string(),
        };
        if facts.annotations.insert(key.to_owned(), text).is_some() {
            return Err(anyhow!("the annotation {key} is there twice"));
        }
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_and_a_short_form_are_read() {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n  annotations: {a: '1'}\n  labels: {b: '2'}\nspec: {}\n";
        let short = "annotations: {a: '1'}\nlabels: {b: '2'}\n";
        let parsed = parse(pod.as_bytes()).unwrap();
        assert_eq!(parsed, parse(short.as_bytes()).unwrap());
        assert_eq!(parsed.annotations["a"], "1");
        let status = "networkStatus:\n- name: ns/a\n  ips: [192.0.2.1]\nnetworkInfo: '{}'\n";
        let parsed = parse(status.as_bytes()).unwrap();
        let expected = r#"[{"name":"ns/a","ips":["192.0.2.1"]}]"#;
        assert_eq!(parsed.annotations[NETWORK_STATUS_ANNOTATION], expected);
        assert_eq!(parsed.annotations[NETWORK_INFO_ANNOTATION], "{}");
    }

    #[test]
    fn errors_have_one_line() {
        let error = format!(
            "{:#}",
            parse(b"annotations: {a: b}\nannotations: {a: c}\n").unwrap_err()
        );
        assert!(
            error.contains("the key \"annotations\" is repeated"),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }

    #[test]
    fn files_that_are_neither_a_pod_nor_facts_are_refused() {
        for (text, part) in [
            ("annotation: {a: b}\n", "neither a Pod nor a map"),
            ("annotations: {a: [1]}\n", "neither a Pod nor a map"),
            ("kind: Pod\n", "not a Pod"),
            ("a: [\n", "not YAML"),
            (
                "annotations: {k8s.v1.cni.cncf.io/network-status: '[]'}\nnetworkStatus: []\n",
                "there twice",
            ),
        ] {
            let error = format!("{:#}", parse(text.as_bytes()).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
        assert!(parse(b"\xff").is_err());
    }
}
