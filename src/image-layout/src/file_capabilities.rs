//! File capabilities, as Linux stores them in the attribute `security.capability`.

/// `CAP_NET_BIND_SERVICE`, from linux/capability.h.
pub const NET_BIND_SERVICE: u8 = 10;

/// `VFS_CAP_REVISION_2`.
const REVISION_2: u32 = 0x0200_0000;
/// `VFS_CAP_FLAGS_EFFECTIVE`.
const EFFECTIVE: u32 = 1;

/// Permitted capabilities that are effective from the start: `=ep` of setcap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// One capability by its number, below 64.
    #[must_use]
    pub fn effective_and_permitted(capability: u8) -> Self {
        Self(1 << (capability & 63))
    }

    /// The value of the attribute: `struct vfs_cap_data`, little endian.
    #[must_use]
    pub fn attribute(self) -> [u8; 20] {
        let mut value = [0; 20];
        value[0..4].copy_from_slice(&(REVISION_2 | EFFECTIVE).to_le_bytes());
        let bytes = self.0.to_le_bytes();
        value[4..8].copy_from_slice(&bytes[..4]);
        value[12..16].copy_from_slice(&bytes[4..]);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `getfattr -e hex -n security.capability` prints after `setcap cap_net_bind_service=ep`.
    #[test]
    fn attribute_equals_that_of_setcap() {
        let value = Capabilities::effective_and_permitted(NET_BIND_SERVICE).attribute();
        let mut expected = [0; 20];
        expected[..8].copy_from_slice(&[1, 0, 0, 2, 0, 4, 0, 0]);
        assert_eq!(value, expected);
    }
}
