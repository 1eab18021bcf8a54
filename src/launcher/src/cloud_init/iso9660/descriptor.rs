//! Volume descriptors.

use super::directory::{self, Entry};
use super::fields::{Date, both16, both32, long_date};
use super::view::View;
use super::{Plan, SECTOR};

const MAGIC: &[u8] = b"CD001\x01";
const APPLICATION: &str = "VIRT-LAUNCHER";
/// UCS-2 level 3.
const JOLIET_ESCAPE: &[u8] = b"%/E";

/// ECMA-119, 8.4 and 8.5.
pub(super) fn descriptor(plan: &Plan, label: &str, sectors: u32, date: Date) -> Vec<u8> {
    let text = |text: &str, width| plan.view.text(text, width);
    let kind: u8 = if plan.view == View::Primary { 1 } else { 2 };
    let mut bytes = vec![kind];
    bytes.extend(MAGIC);
    bytes.push(0);
    bytes.extend(text("LINUX", 32));
    bytes.extend(text(label, 32));
    bytes.extend([0; 8]);
    bytes.extend(both32(sectors));
    let escapes = if plan.view == View::Joliet {
        JOLIET_ESCAPE
    } else {
        &[]
    };
    bytes.extend(escapes);
    bytes.resize(bytes.len() + 32 - escapes.len(), 0);
    bytes.extend(both16(1));
    bytes.extend(both16(1));
    bytes.extend(both16(SECTOR as u16));
    bytes.extend(both32(plan.table_bytes));
    bytes.extend(plan.little_table.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(plan.big_table.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(directory::record(
        &Entry::directory(vec![0], plan.root()),
        date,
    ));
    for field in ["", "", "", APPLICATION] {
        bytes.extend(text(field, 128));
    }
    for _ in 0..3 {
        bytes.extend(text("", 37));
    }
    let never = || [[b'0'; 16].as_slice(), &[0]].concat();
    for date in [long_date(date), long_date(date), never(), long_date(date)] {
        bytes.extend(date);
    }
    bytes.extend([1, 0]);
    bytes.resize(SECTOR, 0);
    bytes
}

/// The last descriptor.
pub(super) fn terminator() -> Vec<u8> {
    let mut bytes = vec![255];
    bytes.extend(MAGIC);
    bytes.resize(SECTOR, 0);
    bytes
}
