/* What a hook in C is written with.
 *
 * A hook defines hook_describe() and those of the hook points that it wants; the others are
 * there already and do nothing. Every call gets a fresh sandbox, with memory that nobody has used:
 * nothing has to be freed, and nothing that is kept lives on.
 */
#ifndef VIRT_HOOK_H
#define VIRT_HOOK_H

#include <stdbool.h>
#include <stddef.h>

#include "hook.h"

/* A piece of text. It is UTF-8, and does not end in a zero byte. */
typedef struct {
    const char *bytes;
    size_t length;
} text;

/* ---- what a hook defines --------------------------------------------------------------------- */

/* What the hook says of itself, as JSON: see README.md. The same each time. */
const char *hook_describe(void);

/* Before anything is prepared. `vmi` is the VirtualMachineInstance as JSON, here and below. */
bool hook_pre_start(text vmi);

/* Before the cloud-init image is written; `data_source` is noCloud or configDrive. Documents are changed in
 * place: f0 is the name (user-data, network-data, meta-data), f1 the text. */
bool hook_pre_cloud_init_iso(text vmi, text data_source,
                             exports_virt_hook_hooks_handler_list_document_t *documents);

/* Before the domain is defined. `*domain` is the XML, to be replaced by the changed one. */
bool hook_on_define_domain(text vmi, text *domain);

/* Before a device is attached to the running virtual machine. `*device` is the XML of one <disk>, <interface> or
 * <hostdev>, to be replaced by the changed one. */
bool hook_on_attach_device(text vmi, text *device);

/* When the launcher ends. */
bool hook_shutdown(void);

/* ---- how a hook ends without having done its work: `return hook_veto(...)` --------------------- */

/* The virtual machine must not go on; its owner reads the words. Gives false. */
bool hook_veto(text words);

/* The hook could not do what it should. Gives false. */
bool hook_fail(text words);

/* ---- what the host tells ----------------------------------------------------------------------- */

/* What `hook.yaml` configures for a key that the hook wishes for; false when there is nothing. */
bool hook_config(const char *key, text *value);

/* A fact about this call: reason, hook-point, namespace, name, uid, domain, host. */
bool hook_invocation(const char *key, text *value);

/* A line for the log. The level is VIRT_HOOK_HOOKS_HOST_LEVEL_DEBUG, _INFO, _WARN or _ERROR. */
void hook_log(virt_hook_hooks_host_level_t level, text line);

/* ---- text -------------------------------------------------------------------------------------- */

text text_of(const char *terminated);
text text_part(text whole, size_t from, size_t to);
bool text_is(text one, const char *other);

/* All of them, one after the other; the last is TEXT_END. */
#define text_join(...) text_join_all((const text[]){__VA_ARGS__, TEXT_END})
#define TEXT_END ((text){NULL, 0})
text text_join_all(const text *pieces);

/* `whole` with the bytes between `from` and `to` replaced. */
text text_replace(text whole, size_t from, size_t to, text by);

/* ---- the VMI ----------------------------------------------------------------------------------- */

/* The value at a path of member names, which ends in NULL. A string comes without quotes and
 * escapes; anything else as it stands. False when there is none, or when it is null. */
bool json_find(text json, const char *const *path, text *value);

/* An annotation of the virtual machine. */
bool vmi_annotation(text vmi, const char *name, text *value);

/* ---- the domain -------------------------------------------------------------------------------- */

/* Where an element stands: the byte of its `<`, its content, the byte after its end. */
typedef struct {
    size_t start, content, content_end, end;
} xml_element;

/* The first element at a path of names, as "domain/devices/disk"; of several parents of one name only
 * the first is looked into. Names are compared as they are written, prefixes included. */
bool xml_find(text xml, const char *path, xml_element *found);

/* As text, or as the value of an attribute in either kind of quotes. */
text xml_escape(text plain);

#endif
