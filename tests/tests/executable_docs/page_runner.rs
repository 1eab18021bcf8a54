//! Runs the blocks of a page, or checks those that cannot be run.

use crate::page_blocks::{Block, page, shows_workspace_file};
use crate::page_shell_session::PageSession;
use crate::{checks_of_blocks_not_run, dockerfile_image, output_comparison, sidecars_on_pages};

/// Runs the blocks of a page in their order.
pub(crate) fn run_page(path: &str) {
    let mut session = PageSession::start(path);
    let mut tested = 0;
    for block in page(path).blocks {
        let location = format!("{path}:{}", block.line);
        run_block(&mut session, &location, &block);
        tested += usize::from(block.is_run());
    }
    assert!(tested > 0, "{path} runs nothing");
}

/// Checks the commands of a page that runs nothing.
pub(crate) fn check_commands_of_page(path: &str) {
    let mut session = PageSession::without_files(path);
    for block in page(path).blocks {
        let location = format!("{path}:{}", block.line);
        if block.language == "sh" {
            checks_of_blocks_not_run::check_block(
                &location,
                &block.role,
                &block.text,
                &mut session,
            );
        }
    }
}

/// Runs or checks a block.
fn run_block(session: &mut PageSession, location: &str, block: &Block) {
    match (block.language.as_str(), block.role.as_str()) {
        ("sh", role @ ("" | "fails")) => session.run(location, &block.text, role.is_empty()),
        ("sh", role) => checks_of_blocks_not_run::check_block(location, role, &block.text, session),
        (_, "output") => assert!(
            output_comparison::matches(&block.text, &session.last_output),
            "{location}: it prints\n{}",
            session.last_output
        ),
        ("dockerfile", _) => {
            session.image = Some(dockerfile_image::build(location, &block.text, session))
        }
        ("yaml", "") => {
            let sidecars = sidecars_on_pages::sidecars(&block.text);
            if !sidecars.is_empty() && block.text.contains("kind: VirtualMachine\n") {
                session.vm = Some(block.text.clone());
            }
            for sidecar in sidecars {
                dockerfile_image::start(location, &sidecar, session);
            }
        }
        (language, name) if name.contains('.') && !shows_workspace_file(language, name) => {
            session.write(location, block)
        }
        _ => {}
    }
}
