//! Parses the pages of the documentation into prose and fenced blocks.

use std::fs;
use std::path::Path;

use tests::binaries::workspace;

/// A fenced block, with the language and the role in its info string.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) role: String,
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Block {
    pub(crate) fn is(&self, language: &str, role: &str) -> bool {
        self.language == language && self.role == role
    }

    /// Whether the page's session runs the block.
    pub(crate) fn is_run(&self) -> bool {
        self.is("sh", "") || self.is("sh", "fails") || self.language == "dockerfile"
    }
}

/// A parsed page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) blocks: Vec<Block>,
    /// The text between the blocks.
    pub(crate) prose: String,
}

impl Page {
    /// The inline code in the text.
    pub(crate) fn code(&self) -> impl Iterator<Item = &str> {
        self.prose.split('`').skip(1).step_by(2)
    }
}

/// The content of a file in the workspace.
pub(crate) fn source(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn page(path: &str) -> Page {
    let (mut blocks, mut prose) = (Vec::new(), String::new());
    let mut open_block: Option<Block> = None;
    for (index, line) in source(path).lines().enumerate() {
        match (&mut open_block, line.strip_prefix("```")) {
            (Some(_), Some("")) => blocks.extend(open_block.take()),
            (Some(block), _) => block.text.extend([line, "\n"]),
            (None, Some(info)) => open_block = Some(start_block(info, index + 1)),
            (None, None) => prose.extend([line, "\n"]),
        }
    }
    assert!(open_block.is_none(), "{path}: a fence is not closed");
    Page { blocks, prose }
}

/// Whether a block `LANGUAGE NAME` shows a part of a file in the workspace, and does not write a file.
pub(crate) fn shows_workspace_file(language: &str, name: &str) -> bool {
    match language {
        "rust" | "go" | "c" | "dockerfile" => !name.is_empty(),
        _ => language == "python" && name.starts_with("tests/"),
    }
}

fn start_block(info: &str, line: usize) -> Block {
    let mut words = info.split_whitespace().map(str::to_owned);
    Block {
        language: words.next().unwrap_or_default(),
        role: words.next().unwrap_or_default(),
        text: String::new(),
        line,
    }
}

/// The paths of all pages, relative to the workspace.
pub(crate) fn pages() -> Vec<String> {
    let other_pages = ["README.md", "CONTRIBUTING.md", "hooks-sdk/README.md"];
    let mut pages: Vec<_> = other_pages.map(str::to_owned).into();
    pages.extend(pages_in("docs"));
    for example in fs::read_dir(workspace().join("examples-hooks")).unwrap() {
        let name = example.unwrap().file_name().into_string().unwrap();
        let page = format!("examples-hooks/{name}/README.md");
        if Path::new(workspace()).join(&page).is_file() {
            pages.push(page);
        }
    }
    pages.sort();
    assert!(pages.len() > 20, "the documentation has moved");
    pages
}

fn pages_in(directory: &str) -> Vec<String> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(workspace().join(directory)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{directory}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            pages.extend(pages_in(&path));
        } else if path.ends_with(".md") {
            pages.push(path);
        }
    }
    pages
}
