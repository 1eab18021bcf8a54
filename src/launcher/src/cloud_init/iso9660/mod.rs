//! ISO 9660 images with Rock Ridge (Linux reads these names) and Joliet (Windows reads these).
//! Small ones: everything is in memory.
//!
//! ```text
//! sector 16 primary descriptor   17 Joliet descriptor   18 terminator
//!        19 path tables (primary, Joliet; each little- and big-endian)
//!           directories (primary with Rock Ridge, Joliet)
//!           Rock Ridge's continuation, file contents
//! ```
//!
//! ECMA-119 for the format, IEEE P1281/P1282 (SUSP, RRIP) for Rock Ridge.

mod descriptor;
mod directory;
mod fields;
mod rock_ridge;
mod tree;
mod view;

use descriptor::{descriptor, terminator};
use directory::{directories, path_table};
use tree::Tree;
use view::View;

/// Bytes of a sector.
const SECTOR: usize = 2048;
/// The first sectors are the boot loader's.
const FIRST_DESCRIPTOR: u32 = 16;
const FIRST_FREE: u32 = FIRST_DESCRIPTOR + 3;

/// Content that fits no image.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FormatError {
    /// A path with an empty part, `.` or `..`, a part beyond 64 characters, or one that two files share.
    #[error("{0:?} is no path that the image can hold")]
    Path(String),
    /// A volume label of more than 16 characters (what Joliet has room for), or not ASCII.
    #[error("{0:?} is no volume label: at most 16 ASCII characters")]
    Label(String),
    /// More than the format, or this writer, has room for.
    #[error("the files have {0} bytes, more than the {max} an image may have", max = MAX_CONTENT)]
    TooLarge(usize),
}

/// The most that all files together may have, in bytes.
pub const MAX_CONTENT: usize = 64 * 1024 * 1024;

/// An image of these files (path without a leading slash, content), all dated `at`.
///
/// # Errors
/// [`FormatError`] for names and sizes that do not fit.
pub fn image(
    label: &str,
    files: &[(&str, &[u8])],
    at: jiff::Timestamp,
) -> Result<Vec<u8>, FormatError> {
    if label.len() > 16 || !label.is_ascii() {
        return Err(FormatError::Label(label.to_owned()));
    }
    let size = files.iter().map(|(_, content)| content.len()).sum();
    if size > MAX_CONTENT {
        return Err(FormatError::TooLarge(size));
    }
    let tree = Tree::new(files)?;
    let date = fields::date(at);
    let layout = Layout::new(&tree);
    let mut image = Vec::with_capacity(layout.sectors as usize * SECTOR);
    image.resize(FIRST_DESCRIPTOR as usize * SECTOR, 0);
    for plan in &layout.plans {
        image.extend(descriptor(plan, label, layout.sectors, date));
    }
    image.extend(terminator());
    for plan in &layout.plans {
        let [little, big] = path_table(&tree, plan);
        image.extend(padded(little));
        image.extend(padded(big));
    }
    for plan in &layout.plans {
        image.extend(directories(&tree, plan, &layout, date));
    }
    image.extend(padded(rock_ridge::continuation()));
    for file in &tree.files {
        image.extend(padded(file.content.to_vec()));
    }
    Ok(image)
}

/// Where everything lies, in sectors.
struct Layout {
    plans: [Plan; 2],
    continuation: u32,
    /// By file.
    contents: Vec<u32>,
    sectors: u32,
}

/// Where one view's tables and directories lie.
struct Plan {
    view: View,
    /// Directories in the order of the path table; the root is first.
    order: Vec<usize>,
    table_bytes: u32,
    little_table: u32,
    big_table: u32,
    /// By directory: first sector and bytes.
    extents: Vec<(u32, u32)>,
}

impl Layout {
    fn new(tree: &Tree<'_>) -> Self {
        let mut next = FIRST_FREE;
        let mut plans = [View::Primary, View::Joliet].map(|view| Plan::new(tree, view));
        for plan in &mut plans {
            plan.little_table = take(&mut next, plan.table_bytes);
            plan.big_table = take(&mut next, plan.table_bytes);
        }
        for plan in &mut plans {
            for index in &plan.order {
                let bytes = directory::bytes(tree, *index, plan.view);
                plan.extents[*index] = (take(&mut next, bytes), bytes);
            }
        }
        let continuation = take(&mut next, 1);
        // Sizes were checked: all contents together have less than 2^26 bytes.
        let size = |content: &[u8]| u32::try_from(content.len()).unwrap_or(u32::MAX);
        let contents = tree
            .files
            .iter()
            .map(|file| take(&mut next, size(file.content)))
            .collect();
        Self {
            plans,
            continuation,
            contents,
            sectors: next,
        }
    }
}

impl Plan {
    fn new(tree: &Tree<'_>, view: View) -> Self {
        let order = tree.breadth_first(view);
        let table_bytes = directory::path_table_bytes(tree, view);
        let extents = vec![(0, 0); tree.directories.len()];
        Self {
            view,
            order,
            table_bytes,
            little_table: 0,
            big_table: 0,
            extents,
        }
    }

    fn root(&self) -> (u32, u32) {
        self.extents[0]
    }
}

fn take(next: &mut u32, bytes: u32) -> u32 {
    let first = *next;
    *next += bytes.div_ceil(SECTOR as u32);
    first
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

#[cfg(test)]
mod tests;
