//! Reads the downward API's files, which the kubelet replaces by renaming the link `..data`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

use super::{PodConfig, PodFact, PodPattern, downward_api_format, network_status};

/// The largest file in bytes: the 256 KiB of annotations that the API server permits, each byte escaped as four, and keys.
const MAX_BYTES: u64 = 2 << 20;
/// A file is opened again if the kubelet replaces `..data` meanwhile.
const ATTEMPTS: usize = 10;

/// KubeVirt's annotation, and the file of its own that KubeVirt mounts for it.
const NETWORK_INFO: &str = "kubevirt.io/network-info";
const NETWORK_INFO_FILE: &str = "network-info";
const ANNOTATIONS: &str = "annotations";
const LABELS: &str = "labels";

/// Why there are no facts when `virt-hook` runs a hook without them.
pub(super) const NONE_GIVEN: &str =
    "there are no facts about a pod here: give some with --pod FILE, or a case a pod.yaml";

/// The files of a downward API volume.
#[derive(Debug, Clone)]
pub(crate) struct PodFiles {
    dir: Option<PathBuf>,
    pub(super) wait: Duration,
}

impl PodFiles {
    pub(crate) fn new(config: PodConfig) -> Self {
        Self {
            dir: config.dir,
            wait: config.wait,
        }
    }

    /// The text of a fact; `None` if it is not there. Networks are a JSON list. The error names the file.
    pub(super) fn read(&self, fact: &PodFact) -> Result<Option<String>, String> {
        match fact {
            PodFact::Annotation(key) => Ok(self.map(ANNOTATIONS)?.remove(key)),
            PodFact::Label(key) => Ok(self.map(LABELS)?.remove(key)),
            PodFact::Network(name) => self.networks(|network| network.name == *name),
            PodFact::DefaultNetwork => self.networks(|network| network.is_default),
            PodFact::NetworkInfo => self.network_info(),
        }
    }

    /// Why the facts that a pattern names cannot be seen at all, whatever the pod has.
    fn unseen(&self, pattern: &PodPattern) -> Option<String> {
        let files: &[&str] = match pattern.as_str() {
            NETWORK_INFO_FILE => &[ANNOTATIONS, NETWORK_INFO_FILE],
            labels if labels.starts_with("labels/") => &[LABELS],
            _ => &[ANNOTATIONS],
        };
        let found = files
            .iter()
            .any(|file| matches!(self.text(file), Ok(Some(_))));
        (!found).then(|| self.missing(files[0]))
    }

    /// The declared facts that cannot be seen, by the reason.
    pub(crate) fn all_unseen<'a>(
        &self,
        wishes: &'a [PodPattern],
    ) -> BTreeMap<String, Vec<&'a PodPattern>> {
        let mut unseen: BTreeMap<String, Vec<&PodPattern>> = BTreeMap::new();
        for wish in wishes {
            if let Some(reason) = self.unseen(wish) {
                unseen.entry(reason).or_default().push(wish);
            }
        }
        unseen
    }

    fn networks(
        &self,
        wanted: impl Fn(&network_status::Network) -> bool,
    ) -> Result<Option<String>, String> {
        let Some(text) = self.map(ANNOTATIONS)?.remove(network_status::ANNOTATION) else {
            return Ok(None);
        };
        let all = network_status::parse(&text)
            .map_err(|error| format!("the annotation {}: {error}", network_status::ANNOTATION))?;
        let found: Vec<_> = all.into_iter().filter(wanted).collect();
        Ok((!found.is_empty()).then(|| network_status::to_json(&found)))
    }

    /// From the annotations, or from the file that KubeVirt itself mounts.
    fn network_info(&self) -> Result<Option<String>, String> {
        if self.text(ANNOTATIONS)?.is_some() {
            return Ok(self.map(ANNOTATIONS)?.remove(NETWORK_INFO));
        }
        let text = self.text(NETWORK_INFO_FILE)?;
        let text = text.ok_or_else(|| self.missing(ANNOTATIONS))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn map(&self, file: &str) -> Result<BTreeMap<String, String>, String> {
        let text = self.text(file)?.ok_or_else(|| self.missing(file))?;
        downward_api_format::parse(&text)
            .map_err(|error| format!("{}: {error}", self.path_text(file)))
    }

    /// The text of a file, if it is there.
    fn text(&self, file: &str) -> Result<Option<String>, String> {
        let Some(dir) = &self.dir else {
            return Ok(None);
        };
        for _ in 0..ATTEMPTS {
            let opened = Dir::open_ambient_dir(dir, ambient_authority())
                .and_then(|dir| dir.symlink_metadata(file).map(|_| dir))
                .and_then(|dir| open(&dir, file));
            match opened {
                Ok(opened) => {
                    let text = read(opened);
                    return text
                        .map(Some)
                        .map_err(|error| format!("{}: {error}", self.path_text(file)));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let file = self.path_text(file);
                    return Err(format!(
                        "{file}: {error} (links are followed within the directory only)"
                    ));
                }
            }
        }
        Ok(None)
    }

    fn missing(&self, file: &str) -> String {
        match self.dir {
            Some(_) => format!(
                "{} is not there: mount the pod's {file} with a downward API volume (deploy/admission has a policy)",
                self.path_text(file)
            ),
            None => NONE_GIVEN.to_owned(),
        }
    }

    fn path_text(&self, file: &str) -> String {
        let dir = self.dir.clone().unwrap_or_default();
        dir.join(file).display().to_string()
    }
}

fn open(dir: &Dir, file: &str) -> io::Result<File> {
    // Do not block on a pipe without a writer.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    Ok(dir.open_with(file, &options)?.into_std())
}

fn read(file: File) -> io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        let reason =
            format!("it has more than the {MAX_BYTES} bytes that the facts of a pod may have");
        return Err(io::Error::other(reason));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}
