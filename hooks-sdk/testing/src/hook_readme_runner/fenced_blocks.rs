//! The fenced blocks of a README that have a role.

use serde_json::Value;

use super::CaseFailure;

/// A fenced block.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) role: String,
    pub(super) text: String,
    pub(super) line: usize,
}

/// The texts of a block of names and values.
pub(super) fn texts(block: &Block) -> Result<Vec<(String, String)>, CaseFailure> {
    let value = yaml(block)?;
    let Some(fields) = value.as_object() else {
        return Err((block.line, "it is not a list of parameters".to_owned()));
    };
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    Ok(fields
        .iter()
        .map(|(name, value)| (name.clone(), text(value)))
        .collect())
}

/// The fenced blocks with a role.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in text.lines().enumerate() {
        let fence = line.strip_prefix("```");
        match (&mut open, fence) {
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, Some(info)) => {
                let role = info.split_whitespace().nth(1).unwrap_or_default();
                open = Some(Block {
                    role: role.to_owned(),
                    text: String::new(),
                    line: at + 1,
                });
            }
            (None, None) => {}
        }
    }
    blocks.retain(|block| !block.role.is_empty());
    blocks
}

pub(super) fn yaml(block: &Block) -> Result<Value, CaseFailure> {
    serde_saphyr::from_str(&block.text).map_err(|error| (block.line, error.to_string()))
}

pub(super) fn json(block: &Block) -> Result<String, CaseFailure> {
    Ok(yaml(block)?.to_string())
}
