/* The recipes of docs/c-recipes.md, each called by its name in the annotation "recipe". */
#ifndef RECIPES_H
#define RECIPES_H

#include "sdk/virt_hook.h"

#define RECIPES(each)                                                                              \
    each(usb_device) each(pci_device) each(vgpu_display) each(shared_memory) each(watchdog)        \
    each(tpm) each(second_serial_port) each(vnc_keymap) each(pinning_and_numa) each(huge_pages)    \
    each(disk_queues_and_io_thread) each(interface_queues) each(interface_model)                   \
    each(cpu_features) each(hide_kvm) each(board_serial_number) each(firmware_configuration)       \
    each(qemu_arguments) each(not_on_a_migration_target) each(disk_limit_of_the_pod)

#define DECLARE(name) bool name(text vmi, text *domain);
RECIPES(DECLARE)

#endif
