use super::command_result_of_job_start;
use crate::jobs::MemoryDumpRequest;
use crate::manager::CommandSuccess;
use crate::manager::error::OpError;
use crate::manager::vm_context::VmContext;

/// Starts a memory dump, unless one runs or the last one was the same. virt-handler reads its result in the domain's
/// metadata.
pub(in crate::manager) fn start_memory_dump(
    vm: &VmContext,
    request: MemoryDumpRequest,
) -> Result<CommandSuccess, OpError> {
    command_result_of_job_start::effect_of(vm.jobs.start_memory_dump(request))
}
