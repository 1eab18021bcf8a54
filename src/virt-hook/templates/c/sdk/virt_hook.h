/* The SDK for hooks in C.
 *
 * A hook defines hook_describe() and those of the hook points that it wants, which hook_describe()
 * lists. Every call gets a fresh sandbox, with memory that nobody has used:
 * nothing has to be freed, and nothing that is kept lives on.
 */
#ifndef VIRT_HOOK_H
#define VIRT_HOOK_H

#include <stdbool.h>
#include <stddef.h>

#include "bindings/hook.h"

/* A piece of text. It is UTF-8, and does not end in a zero byte. */
typedef struct {
    const char *bytes;
    size_t length;
} text;

/* ---- what a hook defines --------------------------------------------------------------------- */

/* The hook's description as JSON; docs/hook-description.md of virt-launcher has its members. It must be the same at
 * each call. */
const char *hook_describe(void);

/* Before anything is prepared. `vmi` is the VirtualMachineInstance as JSON, here and below. */
bool hook_pre_start(text vmi);

/* Documents of cloud-init by name: user-data, network-data, meta-data. */
typedef exports_virt_hook_hooks_handler_list_document_t cloud_init_documents;

/* Before the cloud-init image is written; `data_source` is noCloud or configDrive. Documents are changed in place. */
bool hook_pre_cloud_init_iso(text vmi, text data_source, cloud_init_documents *documents);

/* Finds a document; false if there is none of this name. */
bool cloud_init_document(const cloud_init_documents *documents, const char *name, text *content);

/* Replaces a document, or adds it. */
void cloud_init_set_document(cloud_init_documents *documents, const char *name, text content);

/* Before the domain is defined. `*domain` is the XML, to be replaced by the changed one. */
bool hook_on_define_domain(text vmi, text *domain);

/* Before a device is attached to the running virtual machine. `*device` is the XML of one <disk>, <interface> or
 * <hostdev>, to be replaced by the changed one. */
bool hook_on_attach_device(text vmi, text *device);

/* A parameter of a migration: a number in decimal digits, or true or false. */
typedef struct {
    text name, value;
} migration_parameter;

typedef struct {
    migration_parameter *items;
    size_t count;
} migration_parameters;

/* Before the virtual machine is migrated to another node. Values are changed in place; a veto ends the migration. */
bool hook_pre_migration_source(text vmi, migration_parameters *migration);

/* The value of a parameter (bandwidth, max-downtime, ...), to read and to replace; NULL for one that there is not. */
text *migration_value(const migration_parameters *migration, const char *name);

/* When the launcher ends. */
bool hook_shutdown(void);

/* ---- how a hook ends without having done its work: `return hook_veto(...)` --------------------- */

/* The virtual machine must not go on; its owner reads the words. Gives false, which the hook returns. */
__attribute__((warn_unused_result)) bool hook_veto(text words);

/* The hook could not do what it should. Gives false, which the hook returns. A hook that returns false without either of
 * these has failed, too. */
__attribute__((warn_unused_result)) bool hook_fail(text words);

/* ---- what the host tells ----------------------------------------------------------------------- */

/* What `hook.yaml` configures for a key that the hook declares; false when there is nothing. */
bool hook_config(const char *key, text *value);

/* A fact about this call: reason, hook-point, namespace, name, uid, domain, host. */
bool hook_invocation(const char *key, text *value);

/* A line for the log. The level is VIRT_HOOK_HOOKS_HOST_LEVEL_DEBUG, _INFO, _WARN or _ERROR. */
void hook_log(virt_hook_hooks_host_level_t level, text line);

/* ---- facts about the pod ------------------------------------------------------------------------
 *
 * A hook names what it reads in the member "pod" of its wishes: annotations/KEY, labels/KEY,
 * network-status/NAMESPACE/NAME, default-network, network-info, with * for any characters. With `wait`, the host
 * waits for a fact that is not there yet, some seconds at most. */

typedef enum {
    POD_FACT,       /* the fact is given */
    POD_NONE,       /* it is not there, and was not waited for */
    POD_DENIED,     /* the hook does not declare it, or a policy does not allow it; the text says so */
    POD_ABSENT,     /* it was waited for; the text names it */
    POD_UNREADABLE, /* the host cannot see the facts of the pod; the text says why */
} pod_answer;

/* A network of the pod. */
typedef struct {
    text name, pod_interface;
    const text *ips;
    size_t ip_count;
    text mac;
    bool is_default;
    text json; /* the whole entry of the network status */
} pod_network;

/* `*value` is the fact, or why it is not given. */
pod_answer pod_annotation(const char *key, bool wait, text *value);
pod_answer pod_label(const char *key, bool wait, text *value);
/* KubeVirt's annotation kubevirt.io/network-info, JSON. */
pod_answer pod_network_info(bool wait, text *value);

/* The networks with a name: NAMESPACE/NAME of a NetworkAttachmentDefinition, without NAMESPACE that of the virtual
 * machine. `*why` is set if there are none. */
pod_answer pod_networks(const char *name, bool wait, const pod_network **networks, size_t *count, text *why);
pod_answer pod_default_network(bool wait, pod_network *network, text *why);

/* ---- text -------------------------------------------------------------------------------------- */

text text_of(const char *terminated);
text text_part(text whole, size_t from, size_t to);
bool text_is(text one, const char *other);
bool text_equal(text one, text other);
text text_of_number(size_t number);
/* Whether it has at least one character, and only these. */
bool text_consists_of(text one, const char *characters);
/* What stands before the first separator, and what behind; false without one. */
bool text_cut(text whole, const char *separator, text *before, text *behind);
/* Writes a code point, and gives the place behind it. */
char *text_put_utf8(char *to, unsigned point);

/* All of them, one after the other; the last is TEXT_END. */
#define text_join(...) text_join_all((const text[]){__VA_ARGS__, TEXT_END})
#define TEXT_END ((text){NULL, 0})
text text_join_all(const text *pieces);

/* A path with parts that are texts, for the functions below. */
#define path_join(...) (text_join(__VA_ARGS__).bytes)

/* `whole` with the bytes between `from` and `to` replaced. */
text text_replace(text whole, size_t from, size_t to, text by);

/* ---- the VMI ----------------------------------------------------------------------------------- */

/* The value at a path of member names, which ends in NULL. A string comes without quotes and
 * escapes; anything else as it stands. False when there is none, or when it is null. */
bool json_find(text json, const char *const *path, text *value);

/* The items of a list one after the other, each as it stands: `for (text item = {0}; json_next(list, &item);)`. */
bool json_next(text list, text *item);

/* An annotation or a label of the virtual machine. */
bool vmi_annotation(text vmi, const char *name, text *value);
bool vmi_label(text vmi, const char *name, text *value);

/* How many vCPUs the guest starts with: sockets, cores and threads, each 1 by default. */
size_t vmi_vcpus(text vmi);

/* ---- the domain -------------------------------------------------------------------------------- */

/* Where an element stands: the byte of its `<`, its content, the byte after its end. */
typedef struct {
    size_t start, content, content_end, end;
} xml_element;

/* Paths begin with the root: "domain/devices/disk"; one that begins with another name is wrong. They can have predicates,
 * which all must hold:
 *   [@type='usb']  [target/@dev='vda']  [mac]  [text()='a']  [2], the second of its name
 * `*` is any name. Names are compared as they are written, prefixes included. Those that end in an attribute,
 * "domain/cpu/@mode", select the elements that have it. A path that is wrong is logged, and ends the call as a failure.
 */

/* The first element at a path. */
bool xml_find(text xml, const char *path, xml_element *found);

/* The next one: `for (xml_element at = {0}; xml_next(*domain, "domain/devices/disk", &at);)`. */
bool xml_next(text xml, const char *path, xml_element *at);

/* Puts an element in the place of one that xml_next() has found, and continues behind it. */
void xml_replace(text *xml, xml_element *at, text by);

/* The value of an attribute, or the element's own text. */
bool xml_value(text xml, const char *path, text *value);

/* Sets an attribute or a text, of the first element at the path. Missing elements are made, with what the predicates ask
 * for. A text leaves children and comments. */
void xml_set(text *xml, const char *path, text value);

/* The same, unless there is a value. Whether it was set. */
bool xml_set_if_absent(text *xml, const char *path, text value);

/* Adds an element, given as XML, to the one at `parent`: where libvirt's schema wants it. */
void xml_insert(text *xml, const char *parent, text element);

/* The same, unless the path selects an element. The path must select what is added. Whether it was added. */
bool xml_insert_if_absent(text *xml, const char *path, text element);

/* Removes all that a path selects, and gives their number. */
size_t xml_remove(text *xml, const char *path);

/* As text, or as the value of an attribute in either kind of quotes. */
text xml_escape(text plain);

#endif
