//! Reads the downward API's files, which the kubelet replaces by renaming the link `..data`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

use super::{PodConfig, PodFact, PodPattern, network_status};

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
        parse(&text).map_err(|error| format!("{}: {error}", self.path_text(file)))
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

// The format of the downward API's files `annotations` and `labels`: a line `KEY="VALUE"` each, with the value quoted
// as Go's `strconv.Quote` does. See <https://kubernetes.io/docs/concepts/workloads/pods/downward-api/>.

/// Maximum number of lines. The API server permits 256 KiB of annotations; a pod has some tens.
const MAX_LINES: usize = 8192;

/// Parses the text of a file. The error names the line.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut facts = BTreeMap::new();
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.is_empty() {
        return Ok(facts);
    }
    for (index, line) in text.split('\n').enumerate() {
        let number = index + 1;
        if number > MAX_LINES {
            return Err(format!("it has more than {MAX_LINES} lines"));
        }
        let invalid = |reason: &str| format!("line {number}: {reason}");
        let (key, quoted) = line
            .split_once('=')
            .filter(|(key, _)| is_key(key))
            .ok_or_else(|| invalid("it is not KEY=\"VALUE\""))?;
        let value = unquote(quoted).map_err(|reason| invalid(&reason))?;
        if facts.insert(key.to_owned(), value).is_some() {
            return Err(invalid("its key is there twice"));
        }
    }
    Ok(facts)
}

/// The text of a file in the kubelet's format. Go's escapes for some invisible characters are not made; the text parses
/// to the same facts.
#[must_use]
pub fn render(facts: &BTreeMap<String, String>) -> String {
    let lines = facts
        .iter()
        .map(|(key, value)| format!("{key}={}", quote(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether a text is a key of annotations and labels, which have letters, digits, `-`, `_`, `.` and `/`.
fn is_key(key: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    !key.is_empty() && key.bytes().all(is_allowed)
}

fn unquote(quoted: &str) -> Result<String, String> {
    let Some(inner) = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .filter(|_| quoted.len() >= 2)
    else {
        return Err("its value is not in quotes".to_owned());
    };
    let mut value = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find(['\\', '"']) {
        value.extend_from_slice(&rest.as_bytes()[..at]);
        if rest.as_bytes()[at] == b'"' {
            return Err("its value ends before the end of the line".to_owned());
        }
        let escape = &rest[at + 1..];
        let length = unescape(escape, &mut value)
            .ok_or_else(|| format!("{:?} is not an escape of Go", first_characters(&rest[at..])))?;
        rest = &escape[length..];
    }
    value.extend_from_slice(rest.as_bytes());
    String::from_utf8(value).map_err(|_| "its value is not UTF-8".to_owned())
}

/// Appends the bytes that an escape stands for, and returns the length of the escape without its `\`.
fn unescape(escape: &str, value: &mut Vec<u8>) -> Option<usize> {
    let kind = escape.chars().next()?;
    let single = match kind {
        'a' => b'\x07',
        'b' => b'\x08',
        'f' => b'\x0c',
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => b'\x0b',
        '\\' | '"' => u8::try_from(kind).ok()?,
        _ => {
            let digits = match kind {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => return None,
            };
            let number = escape.get(1..=digits)?;
            let is_hex = number.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u32::from_str_radix(number, 16).ok().filter(|_| is_hex)?;
            match kind {
                'x' => value.push(u8::try_from(number).ok()?),
                _ => value.extend(char::from_u32(number)?.to_string().into_bytes()),
            }
            return Some(1 + digits);
        }
    };
    value.push(single);
    Some(1)
}

fn quote(value: &str) -> String {
    let mut quoted = String::from("\"");
    for c in value.chars() {
        let _ = match c {
            '\x07' => write!(quoted, "\\a"),
            '\x08' => write!(quoted, "\\b"),
            '\x0c' => write!(quoted, "\\f"),
            '\n' => write!(quoted, "\\n"),
            '\r' => write!(quoted, "\\r"),
            '\t' => write!(quoted, "\\t"),
            '\x0b' => write!(quoted, "\\v"),
            '\\' | '"' => write!(quoted, "\\{c}"),
            _ if c < ' ' || c == '\x7f' => write!(quoted, "\\x{:02x}", u32::from(c)),
            _ if c.is_control() => write!(quoted, "\\u{:04x}", u32::from(c)),
            _ => write!(quoted, "{c}"),
        };
    }
    quoted + "\""
}

fn first_characters(text: &str) -> String {
    text.chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lines that `fmt.Sprintf("%v=%q")` of Go 1.27 printed, as the kubelet writes them.
    const WRITTEN_BY_GO: &str = include_str!("../../tests/downward-api/annotations");

    #[test]
    fn lines_quoted_by_go_are_unquoted_exactly() {
        let facts = parse(WRITTEN_BY_GO).unwrap();
        let expected = [
            ("all-escapes", "\x07\x08\x0c\n\r\t\x0b\\\"'`"),
            ("controls", "\0\x1b\x7f\u{80}\u{feff}\u{e0001}"),
            ("empty", ""),
            ("example.com/json", "[{\n    \"name\": \"a\"\n}]"),
            ("replacement", "\u{fffd}"),
            ("unicode", "grün ☃ 🦀"),
            ("with-equals", "a=b=\"c\""),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(facts, BTreeMap::from(expected));
    }

    #[test]
    fn lines_that_go_does_not_write_are_invalid_and_named_by_number() {
        for (text, part) in [
            ("a", "line 1: it is not KEY="),
            ("=\"a\"", "not KEY="),
            ("a=b", "not in quotes"),
            ("a=\"", "not in quotes"),
            ("a=\"b", "not in quotes"),
            ("a=\"b\\\"", "not an escape"),
            ("a=\"b\" ", "not in quotes"),
            ("a=\"b\"c\"", "before the end"),
            ("a=\"\\q\"", "not an escape"),
            ("a=\"\\x1\"", "not an escape"),
            ("a=\"\\x+1\"", "not an escape"),
            ("a=\"\\ud800\"", "not an escape"),
            ("a=\"\\xff\"", "not UTF-8"),
            (
                "a=\"b\"\nc=\"d\"\na=\"e\"",
                "line 3: its key is there twice",
            ),
            ("a=\"b\"\n\nc=\"d\"", "line 2: it is not KEY="),
            ("a b=\"c\"", "not KEY="),
            ("a\rb=\"c\"", "not KEY="),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let many: String = (0..9000).map(|n| format!("k{n}=\"\"\n")).collect();
        assert!(parse(&many).unwrap_err().contains("8192 lines"));
    }

    #[test]
    fn an_empty_file_has_no_facts() {
        assert!(parse("").unwrap().is_empty());
        assert!(parse("\n").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn rendered_facts_are_parsed_back(facts in prop::collection::btree_map("[a-z./]{1,8}", any::<String>(), 0..6)) {
            prop_assert_eq!(parse(&render(&facts)).unwrap(), facts);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
