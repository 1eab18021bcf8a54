//! Reads facts from a downward API volume, and answers the questions of a call.

mod grants_and_replay;
mod waiting;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use super::{MAX_KEY_BYTES, PodFact};

const STATUS: &str = r#"[{"name": "cbr0", "default": true}, {"name": "ns/a", "mac": "1"}, {"name": "ns/a", "mac": "2"}]"#;

/// A downward API volume in the layout that the kubelet uses.
struct DownwardApiVolume(tempfile::TempDir);

impl DownwardApiVolume {
    fn new() -> Self {
        let volume = Self(tempfile::tempdir().unwrap());
        volume.write(&[]);
        for file in ["annotations", "labels"] {
            symlink(format!("..data/{file}"), volume.at(file)).unwrap();
        }
        volume
    }

    fn at(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// Replaces all annotations, as the kubelet does.
    fn write(&self, annotations: &[(&str, &str)]) {
        let facts = annotations.iter();
        let facts = facts.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let data = tempfile::Builder::new()
            .prefix("..")
            .tempdir_in(&self.0)
            .unwrap()
            .keep();
        fs::write(
            data.join("annotations"),
            render_downward_api(&facts.collect()),
        )
        .unwrap();
        fs::write(data.join("labels"), "rack=\"7\"\n").unwrap();
        symlink(data.file_name().unwrap(), self.at("..data_tmp")).unwrap();
        let old = fs::canonicalize(self.at("..data"));
        fs::rename(self.at("..data_tmp"), self.at("..data")).unwrap();
        if let Ok(old) = old {
            fs::remove_dir_all(old).unwrap();
        }
    }

    fn files(&self, wait: Duration) -> DownwardApiFiles {
        DownwardApiFiles::new(PodConfig {
            dir: Some(self.0.path().to_owned()),
            wait,
        })
    }

    fn read(&self, fact: PodFact) -> Result<Option<String>, String> {
        self.files(Duration::ZERO).read(&fact)
    }

    fn reader(&self, wait: Duration, clock: CallDeadline) -> PodFactReader {
        let all = ["annotations/*", "labels/*", "network-status/*"];
        let access = PodAccess {
            facts: PodFactSource::Files(Arc::new(self.files(wait))),
            grant: Arc::new(grant_of(&all)),
        };
        PodFactReader::new(access, clock)
    }
}

fn grant_of(patterns: &[&str]) -> PodGrant {
    let patterns = patterns.iter().map(|text| PodPattern::parse(text).unwrap());
    PodGrant {
        layers: vec![PodLayer {
            patterns: patterns.collect(),
            origin: "p.yaml:1:1".to_owned(),
        }],
        recorded: Vec::new(),
    }
}

fn annotation(key: &str) -> PodFact {
    PodFact::Annotation(key.to_owned())
}

fn clock_of_an_hour() -> CallDeadline {
    CallDeadline::new(Instant::now() + Duration::from_secs(3600), None)
}

#[test]
fn facts_are_read_again_after_the_kubelet_switches_its_symlink() {
    let volume = DownwardApiVolume::new();
    assert_eq!(volume.read(annotation("a")).unwrap(), None);
    volume.write(&[("a", "1\n2")]);
    assert_eq!(volume.read(annotation("a")).unwrap().unwrap(), "1\n2");
    volume.write(&[("a", "3")]);
    assert_eq!(volume.read(annotation("a")).unwrap().unwrap(), "3");
    let rack = volume.read(PodFact::Label("rack".to_owned()));
    assert_eq!(rack.unwrap().unwrap(), "7");
}

#[test]
fn facts_can_be_read_while_the_kubelet_replaces_them() {
    let volume = DownwardApiVolume::new();
    volume.write(&[("a", "0")]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..200).for_each(|n| volume.write(&[("a", &n.to_string())])));
        while !writer.is_finished() {
            assert!(volume.read(annotation("a")).is_ok());
        }
    });
}

#[test]
fn a_network_query_lists_the_networks_of_the_name() {
    let volume = DownwardApiVolume::new();
    volume.write(&[(network_status::ANNOTATION, STATUS)]);
    let networks = |fact| {
        let text = volume.read(fact).unwrap()?;
        Some(network_status::parse(&text).unwrap())
    };
    let both = networks(PodFact::Network("ns/a".to_owned())).unwrap();
    let macs: Vec<_> = both.iter().map(|network| network.mac.as_str()).collect();
    assert_eq!(macs, ["1", "2"]);
    assert_eq!(networks(PodFact::Network("ns/b".to_owned())), None);
    assert_eq!(networks(PodFact::DefaultNetwork).unwrap()[0].name, "cbr0");
    volume.write(&[(network_status::ANNOTATION, "no JSON")]);
    let error = volume.read(PodFact::DefaultNetwork).unwrap_err();
    assert!(
        error.contains("network-status: it is not a JSON list"),
        "{error}"
    );
}

#[test]
fn network_info_is_an_annotation_or_kubevirts_own_file() {
    let volume = DownwardApiVolume::new();
    assert_eq!(volume.read(PodFact::NetworkInfo).unwrap(), None);
    volume.write(&[("kubevirt.io/network-info", "{}")]);
    assert_eq!(volume.read(PodFact::NetworkInfo).unwrap().unwrap(), "{}");
    let of_kubevirt = DownwardApiVolume(tempfile::tempdir().unwrap());
    let missing = of_kubevirt.read(PodFact::NetworkInfo).unwrap_err();
    assert!(
        missing.contains("/annotations is not there: mount"),
        "{missing}"
    );
    fs::write(of_kubevirt.at("network-info"), "").unwrap();
    assert_eq!(of_kubevirt.read(PodFact::NetworkInfo).unwrap(), None);
    fs::write(of_kubevirt.at("network-info"), "{\"interfaces\":[]}").unwrap();
    let network_info = of_kubevirt.read(PodFact::NetworkInfo).unwrap().unwrap();
    assert_eq!(network_info, "{\"interfaces\":[]}");
}

#[test]
fn files_that_are_not_regular_or_lead_out_of_the_volume_are_refused() {
    type CreateFile = fn(&Path);
    let cases: [(CreateFile, &str); 9] = [
        (|path| fs::create_dir(path).unwrap(), "not a regular file"),
        (
            |path| rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).unwrap(),
            "not a regular file",
        ),
        (
            |path| symlink("/etc/passwd", path).unwrap(),
            "within the directory",
        ),
        (
            |path| symlink("../outside", path).unwrap(),
            "within the directory",
        ),
        (
            |path| symlink("/dev/zero", path).unwrap(),
            "within the directory",
        ),
        (
            |path| fs::File::create(path).unwrap().set_len(3 << 20).unwrap(),
            "more than the 2097152 bytes",
        ),
        (|path| fs::write(path, b"a=\"\xff\"").unwrap(), "not UTF-8"),
        (|path| fs::write(path, "a=\"b").unwrap(), "line 1"),
        (|path| fs::write(path, "a\nb=\"c\"").unwrap(), "line 1"),
    ];
    for (create, part) in cases {
        let volume = DownwardApiVolume(tempfile::tempdir().unwrap());
        create(&volume.at("annotations"));
        let error = volume.read(annotation("a")).unwrap_err();
        assert!(
            error.contains(part) && error.contains("/annotations: "),
            "{error}"
        );
    }
}

#[test]
fn wishes_without_a_mounted_file_are_listed_by_file() {
    let wishes = [
        "labels/a",
        "annotations/b",
        "network-info",
        "default-network",
    ];
    let wishes = wishes.map(|wish| PodPattern::parse(wish).unwrap());
    let without_mount = |files: DownwardApiFiles| -> Vec<(String, usize)> {
        let reasons = files.wishes_without_mount(&wishes).into_iter();
        reasons
            .map(|(reason, facts)| (reason, facts.len()))
            .collect()
    };
    assert_eq!(
        without_mount(DownwardApiVolume::new().files(Duration::ZERO)),
        []
    );
    let empty = DownwardApiVolume(tempfile::tempdir().unwrap());
    let reasons = without_mount(empty.files(Duration::ZERO));
    assert_eq!(
        (reasons.len(), reasons[0].1, reasons[1].1),
        (2, 3, 1),
        "{reasons:?}"
    );
    let of_kubevirt = DownwardApiVolume(tempfile::tempdir().unwrap());
    fs::write(of_kubevirt.at("network-info"), "{}").unwrap();
    assert_eq!(without_mount(of_kubevirt.files(Duration::ZERO))[0].1, 2);
}

#[test]
fn keys_that_no_pattern_can_match_are_refused() {
    for key in [
        "a\nb",
        "*",
        "\u{85}",
        "a\u{202e}b",
        "a\u{2028}b",
        "a\u{200b}",
    ] {
        assert!(PodFact::Annotation(key.to_owned()).validated().is_err());
    }
    let label = |length| PodFact::Label("a".repeat(length)).validated();
    assert!(label(MAX_KEY_BYTES + 1).is_err());
    assert!(label(MAX_KEY_BYTES).is_ok());
    assert!(PodFact::Label("a.example/b".to_owned()).validated().is_ok());
}

#[test]
fn a_star_stands_for_any_characters() {
    for (pattern, text, expected) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("ab", "a", false),
        ("*", "", true),
        ("a*c", "abbc", true),
        ("a*c", "abcb", false),
        ("a*b*c", "a-b-b-c", true),
        ("*/net", "ns/net", true),
        ("a**", "a", true),
    ] {
        let is_match = matches(pattern.as_bytes(), text.as_bytes());
        assert_eq!(is_match, expected, "{pattern} {text}");
    }
    let slow = ("*a".repeat(200) + "b", "a".repeat(500));
    assert!(!matches(slow.0.as_bytes(), slow.1.as_bytes()));
}

#[test]
fn patterns_begin_with_a_kind_of_fact() {
    for known in [
        "annotations/a.example/b",
        "labels/*",
        "network-status/*/net",
        "default-network",
        "network-info",
    ] {
        assert_eq!(PodPattern::parse(known).unwrap().as_str(), known);
    }
    for invalid in [
        "",
        "*",
        "annotations",
        "annotations/",
        "env/X",
        "labels/a\nb",
    ] {
        let error = PodPattern::parse(invalid).unwrap_err().to_string();
        assert!(error.contains("annotations/KEY"), "{error}");
    }
    assert!(PodPattern::parse(&format!("labels/{}", "a".repeat(600))).is_err());
}

#[test]
fn the_name_of_a_fact_with_the_longest_key_is_a_pattern() {
    let key = "a".repeat(MAX_KEY_BYTES);
    for fact in [PodFact::Annotation(key.clone()), PodFact::Network(key)] {
        let name = fact.validated().unwrap().to_string();
        assert!(PodPattern::parse(&name).unwrap().matches(&name));
    }
}

#[test]
fn a_kind_is_not_matched_by_a_star_of_another() {
    let labels = PodPattern::parse("labels/*").unwrap();
    assert!(labels.matches("labels/a/b"));
    assert!(!labels.matches("annotations/a"));
    assert!(!labels.matches("network-info"));
}
