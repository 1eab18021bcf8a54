use super::job_start_result;
use crate::jobs::MemoryDumpRequest;
use crate::manager::CommandSuccess;
use crate::manager::error::OpError;
use crate::manager::vm_context::VmContext;

/// Starts a memory dump, unless a dump is running or the last one had the same file. virt-handler reads its result in
/// the domain's metadata.
pub(in crate::manager) fn start_memory_dump(
    vm: &VmContext,
    request: MemoryDumpRequest,
) -> Result<CommandSuccess, OpError> {
    job_start_result::command_result(vm.jobs.start_memory_dump(request))
}
