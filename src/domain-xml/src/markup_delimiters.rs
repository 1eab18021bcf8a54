//! The delimiters of CDATA sections, comments and processing instructions.

pub(crate) const CDATA: &[u8] = b"<![CDATA[";
pub(crate) const CDATA_END: &[u8] = b"]]>";
pub(crate) const COMMENT: &[u8] = b"<!--";
pub(crate) const COMMENT_END: &[u8] = b"-->";
pub(crate) const INSTRUCTION: &[u8] = b"<?";
pub(crate) const INSTRUCTION_END: &[u8] = b"?>";
