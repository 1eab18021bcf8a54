//! Reads the downward API's files, which the kubelet replaces by renaming the link `..data`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

use super::{PodConfig, PodFact, PodPattern, downward_api_format, network_status};

/// Maximum size of a file in bytes: the 256 KiB of annotations that the API server permits, each byte escaped as four,
/// and keys.
const MAX_FILE_BYTES: u64 = 2 << 20;
/// How often a file is opened before it counts as missing: opening fails while the kubelet replaces `..data`.
const OPEN_ATTEMPTS: usize = 10;

/// The annotation in which KubeVirt publishes the pod's networks.
const NETWORK_INFO_ANNOTATION: &str = "kubevirt.io/network-info";
/// The file in which KubeVirt mounts that annotation.
const NETWORK_INFO_FILE: &str = "network-info";
const ANNOTATIONS_FILE: &str = "annotations";
const LABELS_FILE: &str = "labels";

/// The error of a question about the pod when `virt-hook` was given no facts.
pub(super) const NO_FACTS_GIVEN: &str =
    "there are no facts about a pod here: give some with --pod FILE, or a case a pod.yaml";

/// The files of a downward API volume.
#[derive(Debug, Clone)]
pub(crate) struct DownwardApiFiles {
    dir: Option<PathBuf>,
    pub(super) wait: Duration,
}

impl DownwardApiFiles {
    pub(crate) fn new(config: PodConfig) -> Self {
        Self {
            dir: config.dir,
            wait: config.wait,
        }
    }

    /// The text of a fact; `None` if the pod does not have the fact. Networks are a JSON list. The error names the
    /// file.
    pub(super) fn read(&self, fact: &PodFact) -> Result<Option<String>, String> {
        match fact {
            PodFact::Annotation(key) => Ok(self.map(ANNOTATIONS_FILE)?.remove(key)),
            PodFact::Label(key) => Ok(self.map(LABELS_FILE)?.remove(key)),
            PodFact::Network(name) => self.networks(|network| network.name == *name),
            PodFact::DefaultNetwork => self.networks(|network| network.is_default),
            PodFact::NetworkInfo => self.network_info(),
        }
    }

    /// The reason why no fact that the pattern names can be read: the file that would have it is not mounted.
    fn missing_mount(&self, pattern: &PodPattern) -> Option<String> {
        let files: &[&str] = match pattern.as_str() {
            NETWORK_INFO_FILE => &[ANNOTATIONS_FILE, NETWORK_INFO_FILE],
            labels if labels.starts_with("labels/") => &[LABELS_FILE],
            _ => &[ANNOTATIONS_FILE],
        };
        let is_mounted = files
            .iter()
            .any(|file| matches!(self.text(file), Ok(Some(_))));
        (!is_mounted).then(|| self.missing_file_reason(files[0]))
    }

    /// The wishes whose files are not mounted, by the error text.
    pub(crate) fn wishes_without_mount<'a>(
        &self,
        wishes: &'a [PodPattern],
    ) -> BTreeMap<String, Vec<&'a PodPattern>> {
        let mut without_mount: BTreeMap<String, Vec<&PodPattern>> = BTreeMap::new();
        for wish in wishes {
            if let Some(reason) = self.missing_mount(wish) {
                without_mount.entry(reason).or_default().push(wish);
            }
        }
        without_mount
    }

    fn networks(
        &self,
        matches: impl Fn(&network_status::Network) -> bool,
    ) -> Result<Option<String>, String> {
        let Some(text) = self
            .map(ANNOTATIONS_FILE)?
            .remove(network_status::ANNOTATION)
        else {
            return Ok(None);
        };
        let all = network_status::parse(&text)
            .map_err(|error| format!("the annotation {}: {error}", network_status::ANNOTATION))?;
        let matching: Vec<_> = all.into_iter().filter(matches).collect();
        Ok((!matching.is_empty()).then(|| network_status::to_json(&matching)))
    }

    /// Network info from the annotations, or from the file that KubeVirt itself mounts.
    fn network_info(&self) -> Result<Option<String>, String> {
        if self.text(ANNOTATIONS_FILE)?.is_some() {
            return Ok(self.map(ANNOTATIONS_FILE)?.remove(NETWORK_INFO_ANNOTATION));
        }
        let text = self.text(NETWORK_INFO_FILE)?;
        let text = text.ok_or_else(|| self.missing_file_reason(ANNOTATIONS_FILE))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn map(&self, file: &str) -> Result<BTreeMap<String, String>, String> {
        let text = self
            .text(file)?
            .ok_or_else(|| self.missing_file_reason(file))?;
        downward_api_format::parse(&text)
            .map_err(|error| format!("{}: {error}", self.path_text(file)))
    }

    /// The text of a file; `None` if the file does not exist.
    fn text(&self, file: &str) -> Result<Option<String>, String> {
        let Some(dir) = &self.dir else {
            return Ok(None);
        };
        for _ in 0..OPEN_ATTEMPTS {
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

    fn missing_file_reason(&self, file: &str) -> String {
        match self.dir {
            Some(_) => format!(
                "{} is not there: mount the pod's {file} with a downward API volume (deploy/admission has a policy)",
                self.path_text(file)
            ),
            None => NO_FACTS_GIVEN.to_owned(),
        }
    }

    fn path_text(&self, file: &str) -> String {
        let dir = self.dir.clone().unwrap_or_default();
        dir.join(file).display().to_string()
    }
}

fn open(dir: &Dir, file: &str) -> io::Result<File> {
    // Opening a pipe without a writer would block.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    Ok(dir.open_with(file, &options)?.into_std())
}

fn read(file: File) -> io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let reason =
            format!("it has more than the {MAX_FILE_BYTES} bytes that the facts of a pod may have");
        return Err(io::Error::other(reason));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}
