//! The two directory trees of an image: same files, other names.

/// The most of a name that the primary tree keeps. Only systems that read neither Rock Ridge nor
/// Joliet ever see these names.
const MAX_PRIMARY: usize = 28;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// ISO 9660's own names (capitals, digits, `_`), the true ones in Rock Ridge.
    Primary,
    /// UCS-2 names.
    Joliet,
}

impl View {
    /// A directory's identifier.
    pub(super) fn directory(self, name: &str) -> Vec<u8> {
        match self {
            Self::Primary => primary(name, false).into_bytes(),
            Self::Joliet => ucs2(name),
        }
    }

    /// A file's identifier, with its version.
    pub(super) fn file(self, name: &str) -> Vec<u8> {
        match self {
            Self::Primary => format!("{};1", primary(name, true)).into_bytes(),
            Self::Joliet => ucs2(&format!("{name};1")),
        }
    }

    /// A text of a descriptor, `width` bytes of it, filled up with blanks.
    pub(super) fn text(self, text: &str, width: usize) -> Vec<u8> {
        let (mut bytes, blank) = match self {
            Self::Primary => (text.as_bytes().to_vec(), vec![b' ']),
            Self::Joliet => (ucs2(text), vec![0, b' ']),
        };
        while bytes.len() < width {
            bytes.extend(&blank);
        }
        bytes.truncate(width);
        bytes
    }
}

/// At most one dot, and a file has exactly one.
fn primary(name: &str, file: bool) -> String {
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if file => (stem, extension),
        _ => (name, ""),
    };
    let plain = |text: &str| -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        };
        text.chars().map(plain).collect()
    };
    let extension: String = plain(extension).chars().take(8).collect();
    let stem: String = plain(stem)
        .chars()
        .take(MAX_PRIMARY - extension.len())
        .collect();
    if file {
        format!("{stem}.{extension}")
    } else {
        stem
    }
}

fn ucs2(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}
