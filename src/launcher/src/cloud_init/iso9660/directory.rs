//! Directory records and path tables.

use super::fields::{Date, both16, both32, byte};
use super::tree::Tree;
use super::view::View;
use super::{Layout, Plan, SECTOR, rock_ridge};

/// One record.
pub(super) struct Entry {
    identifier: Vec<u8>,
    extent: (u32, u32),
    directory: bool,
    system_use: Vec<u8>,
}

impl Entry {
    pub(super) fn directory(identifier: Vec<u8>, extent: (u32, u32)) -> Self {
        Self {
            identifier,
            extent,
            directory: true,
            system_use: Vec::new(),
        }
    }
}

/// ECMA-119, 9.1.
pub(super) fn record(entry: &Entry, date: Date) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend(both32(entry.extent.0));
    bytes.extend(both32(entry.extent.1));
    bytes.extend(date);
    bytes.extend([if entry.directory { 2 } else { 0 }, 0, 0]);
    bytes.extend(both16(1));
    bytes.push(byte(entry.identifier.len()));
    bytes.extend(&entry.identifier);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    bytes.extend(&entry.system_use);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    bytes[0] = byte(bytes.len());
    bytes
}

/// All directories of one view, in the order of their extents.
pub(super) fn directories(tree: &Tree<'_>, plan: &Plan, layout: &Layout, date: Date) -> Vec<u8> {
    let extent = |index: usize| plan.extents[index];
    let content = |index: usize| {
        let bytes = u32::try_from(tree.files[index].content.len()).unwrap_or(u32::MAX);
        (layout.contents[index], bytes)
    };
    let listings = plan.order.iter().map(|index| {
        let entries = entries(
            tree,
            *index,
            plan.view,
            layout.continuation,
            extent,
            content,
        );
        listing(&entries, date)
    });
    listings.flatten().collect()
}

/// How long a directory is; the same for every extent and date.
pub(super) fn bytes(tree: &Tree<'_>, index: usize, view: View) -> u32 {
    let entries = entries(tree, index, view, 0, |_| (0, 0), |_| (0, 0));
    u32::try_from(listing(&entries, [0; 7]).len()).unwrap_or(u32::MAX)
}

/// Records never cross a sector's end.
fn listing(entries: &[Entry], date: Date) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for entry in entries {
        let record = record(entry, date);
        let left = bytes.len().next_multiple_of(SECTOR) - bytes.len();
        if record.len() > left && left > 0 {
            bytes.resize(bytes.len() + left, 0);
        }
        bytes.extend(record);
    }
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

/// Itself, its parent, then everything in it by identifier.
fn entries(
    tree: &Tree<'_>,
    index: usize,
    view: View,
    continuation: u32,
    extent: impl Fn(usize) -> (u32, u32),
    content: impl Fn(usize) -> (u32, u32),
) -> Vec<Entry> {
    let directory = &tree.directories[index];
    let links = |index: usize| 2 + u32::from(byte(tree.directories[index].directories.len()));
    let primary_only = |system_use: Vec<u8>| {
        if view == View::Primary {
            system_use
        } else {
            Vec::new()
        }
    };
    let itself = match index {
        0 => rock_ridge::root(links(0), continuation),
        _ => rock_ridge::own(links(index)),
    };
    let parent = rock_ridge::own(links(directory.parent));
    let mut entries = vec![
        Entry {
            system_use: primary_only(itself),
            ..Entry::directory(vec![0], extent(index))
        },
        Entry {
            system_use: primary_only(parent),
            ..Entry::directory(vec![1], extent(directory.parent))
        },
    ];
    entries.extend(directory.directories.iter().map(|child| {
        let name = &tree.directories[*child].name;
        let system_use = primary_only(rock_ridge::directory(name, links(*child)));
        Entry {
            system_use,
            ..Entry::directory(view.directory(name), extent(*child))
        }
    }));
    entries.extend(directory.files.iter().map(|child| {
        let name = tree.files[*child].name;
        let system_use = primary_only(rock_ridge::file(name));
        Entry {
            identifier: view.file(name),
            extent: content(*child),
            directory: false,
            system_use,
        }
    }));
    entries[2..].sort_by(|a, b| a.identifier.cmp(&b.identifier));
    entries
}

/// ECMA-119, 9.4: little-endian and big-endian.
pub(super) fn path_table(tree: &Tree<'_>, plan: &Plan) -> [Vec<u8>; 2] {
    let mut tables = [Vec::new(), Vec::new()];
    for index in &plan.order {
        let directory = &tree.directories[*index];
        let number = plan
            .order
            .iter()
            .position(|other| *other == directory.parent)
            .unwrap_or(0);
        let parent = u16::try_from(number + 1).unwrap_or(u16::MAX);
        let identifier = identifier(tree, *index, plan.view);
        let (extent, _) = plan.extents[*index];
        for (table, extent, parent) in [
            (0, extent.to_le_bytes(), parent.to_le_bytes()),
            (1, extent.to_be_bytes(), parent.to_be_bytes()),
        ] {
            let table: &mut Vec<u8> = &mut tables[table];
            table.extend([byte(identifier.len()), 0]);
            table.extend(extent);
            table.extend(parent);
            table.extend(&identifier);
            table.resize(table.len().next_multiple_of(2), 0);
        }
    }
    tables
}

pub(super) fn path_table_bytes(tree: &Tree<'_>, view: View) -> u32 {
    let entry = |index| 8 + identifier(tree, index, view).len().next_multiple_of(2);
    let bytes: usize = (0..tree.directories.len()).map(entry).sum();
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn identifier(tree: &Tree<'_>, index: usize, view: View) -> Vec<u8> {
    match index {
        0 => vec![0],
        _ => view.directory(&tree.directories[index].name),
    }
}
