//! Numbers and dates as ISO 9660 writes them.

/// A date in a directory record: years since 1900, month, day, hour, minute, second, quarters of an
/// hour from Greenwich.
pub(super) type Date = [u8; 7];

pub(super) fn date(at: jiff::Timestamp) -> Date {
    let at = at.to_zoned(jiff::tz::TimeZone::UTC);
    let small = |number: i8| number.unsigned_abs();
    let year = u8::try_from(at.year() - 1900).unwrap_or(u8::MAX);
    [
        year,
        small(at.month()),
        small(at.day()),
        small(at.hour()),
        small(at.minute()),
        small(at.second()),
        0,
    ]
}

/// A date in a descriptor: digits, hundredths, offset.
pub(super) fn long_date(date: Date) -> Vec<u8> {
    let [year, month, day, hour, minute, second, _] = date;
    let year = 1900 + u32::from(year);
    let mut text =
        format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}00").into_bytes();
    text.push(0);
    text
}

/// Both byte orders.
pub(super) fn both32(number: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Both byte orders.
pub(super) fn both16(number: u16) -> [u8; 4] {
    let mut bytes = [0; 4];
    bytes[..2].copy_from_slice(&number.to_le_bytes());
    bytes[2..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// A length that checks on names have made small.
pub(super) fn byte(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}
