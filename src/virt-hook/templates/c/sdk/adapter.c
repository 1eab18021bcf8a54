/* Implements the exports that the bindings of the WIT declare, by calling the functions that a hook defines. */
#include "virt_hook.h"

#include <stdlib.h>

/* What a hook failed with that returned false and nothing else. */
#define NO_REASON "it returned false without hook_veto() or hook_fail()"

static exports_virt_hook_hooks_handler_error_t error = {
    .tag = VIRT_HOOK_HOOKS_TYPES_ERROR_FAILED,
    .val.failed = {(uint8_t *)NO_REASON, sizeof NO_REASON - 1},
};

static hook_string_t given(text from) {
    return (hook_string_t){(uint8_t *)from.bytes, from.length};
}

static text taken(const hook_string_t *from) {
    return (text){(const char *)from->ptr, from->len};
}

/* ---- what a hook may leave out: the address of what it does not define is NULL ------------------ */

#pragma weak hook_pre_start
#pragma weak hook_pre_cloud_init_iso
#pragma weak hook_on_define_domain
#pragma weak hook_on_attach_device
#pragma weak hook_pre_migration_source
#pragma weak hook_shutdown

/* Where the description and the functions differ, or an empty text. A function that the host never calls, and a hook point
 * whose function has a misspelt name, would be mistakes that nobody notices. */
static text mismatch(const char *description) {
    const struct {
        bool is_defined;
        const char *point, *function;
    } points[] = {
        {hook_pre_start, "PreStart", "hook_pre_start"},
        {hook_pre_cloud_init_iso, "PreCloudInitIso", "hook_pre_cloud_init_iso"},
        {hook_on_define_domain, "OnDefineDomain", "hook_on_define_domain"},
        {hook_on_attach_device, "OnAttachDevice", "hook_on_attach_device"},
        {hook_pre_migration_source, "PreMigrationSource", "hook_pre_migration_source"},
        {hook_shutdown, "Shutdown", "hook_shutdown"},
    };
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        text point = text_of(points[i].point), before, behind;
        const char *quoted = path_join(text_of("\""), point, text_of("\""));
        bool is_listed = text_cut(text_of(description), quoted, &before, &behind);
        if (points[i].is_defined && !is_listed) {
            return text_join(point, text_of(" has a function, and hook_describe() does not list it"));
        }
        if (is_listed && !points[i].is_defined) {
            return text_join(text_of("hook_describe() lists "), point, text_of(", and there is no function "),
                             text_of(points[i].function));
        }
    }
    return text_of("");
}

/* ---- what the host calls ----------------------------------------------------------------------- */

/* The bindings free what they have given to the host, so that it must be a copy of its own. */
static void give(text from, hook_string_t *to) { hook_string_dup_n(to, from.bytes, from.length); }

static bool done(bool well, exports_virt_hook_hooks_handler_error_t *err) {
    if (well) return true;
    *err = error;
    give(taken(&error.val.failed), &err->val.failed);
    return false;
}

void exports_virt_hook_hooks_handler_describe(hook_string_t *ret) {
    const char *description = hook_describe();
    text mistake = mismatch(description);
    /* The host shows a member that is no list. */
    give(mistake.length == 0 ? text_of(description) : text_join(text_of("{\"hookPoints\": \""), mistake, text_of("\"}")), ret);
}

bool exports_virt_hook_hooks_handler_pre_start(hook_string_t *vmi,
                                               exports_virt_hook_hooks_handler_error_t *err) {
    return done(!hook_pre_start || hook_pre_start(taken(vmi)), err);
}

bool exports_virt_hook_hooks_handler_pre_cloud_init_iso(
    hook_string_t *vmi, hook_string_t *data_source,
    exports_virt_hook_hooks_handler_list_document_t *documents,
    exports_virt_hook_hooks_handler_list_document_t *ret,
    exports_virt_hook_hooks_handler_error_t *err) {
    bool well = !hook_pre_cloud_init_iso || hook_pre_cloud_init_iso(taken(vmi), taken(data_source), documents);
    if (well) {
        *ret = *documents;
        for (size_t i = 0; i < ret->len; i++) {
            give(taken(&ret->ptr[i].f0), &ret->ptr[i].f0);
            give(taken(&ret->ptr[i].f1), &ret->ptr[i].f1);
        }
    }
    return done(well, err);
}

bool exports_virt_hook_hooks_handler_on_define_domain(hook_string_t *vmi, hook_string_t *domain_xml,
                                                      hook_string_t *ret,
                                                      exports_virt_hook_hooks_handler_error_t *err) {
    text domain = taken(domain_xml);
    bool well = !hook_on_define_domain || hook_on_define_domain(taken(vmi), &domain);
    if (well) give(domain, ret);
    return done(well, err);
}

/* The optional interfaces of 0.1.1, which the bindings of 0.1.0 do not have. As the canonical ABI lays out
 * result<_, error>: 0 and the value, or 1, which error, and its text. The host takes a copy. */
static struct {
    size_t failed;
    union {
        text device;
        migration_parameters migration;
        struct {
            size_t tag;
            text words;
        } error;
    } value;
} optional;

static const void *optional_result(bool well) {
    optional.failed = !well;
    if (!well) {
        optional.value.error.tag = error.tag;
        optional.value.error.words = taken(&error.val.veto);
    }
    return &optional;
}

__attribute__((export_name("virt-hook:hooks/attach-device@0.1.1#on-attach-device"))) const void *
exports_virt_hook_hooks_attach_device_on_attach_device(const char *vmi, size_t vmi_length,
                                                       const char *xml, size_t xml_length) {
    optional.value.device = (text){xml, xml_length};
    return optional_result(!hook_on_attach_device || hook_on_attach_device((text){vmi, vmi_length}, &optional.value.device));
}

__attribute__((export_name("virt-hook:hooks/migration-source@0.1.1#pre-migration-source"))) const void *
exports_virt_hook_hooks_migration_source_pre_migration_source(const char *vmi, size_t vmi_length,
                                                              migration_parameter *parameters, size_t count) {
    optional.value.migration = (migration_parameters){parameters, count};
    return optional_result(!hook_pre_migration_source || hook_pre_migration_source((text){vmi, vmi_length}, &optional.value.migration));
}

bool exports_virt_hook_hooks_handler_shutdown(exports_virt_hook_hooks_handler_error_t *err) {
    return done(!hook_shutdown || hook_shutdown(), err);
}

/* ---- what a hook calls ------------------------------------------------------------------------- */

bool hook_veto(text words) {
    error.tag = VIRT_HOOK_HOOKS_TYPES_ERROR_VETO;
    error.val.veto = given(words);
    return false;
}

bool hook_fail(text words) {
    error.tag = VIRT_HOOK_HOOKS_TYPES_ERROR_FAILED;
    error.val.failed = given(words);
    return false;
}

bool hook_config(const char *key, text *value) {
    hook_string_t name = given(text_of(key)), found;
    if (!virt_hook_hooks_host_config(&name, &found)) return false;
    *value = taken(&found);
    return true;
}

bool hook_invocation(const char *key, text *value) {
    hook_string_t name = given(text_of(key)), found;
    if (!virt_hook_hooks_host_invocation(&name, &found)) return false;
    *value = taken(&found);
    return true;
}

void hook_log(virt_hook_hooks_host_level_t level, text line) {
    hook_string_t message = given(line);
    virt_hook_hooks_host_log(level, &message);
}
