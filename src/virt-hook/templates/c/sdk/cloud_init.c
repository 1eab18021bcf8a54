/* Documents of cloud-init, as texts. */
#include "virt_hook.h"

#include <stdlib.h>
#include <string.h>

/* The same bytes as a text, and as the bindings have them. */
static text as_text(hook_string_t from) { return (text){(const char *)from.ptr, from.len}; }
static hook_string_t as_string(text from) { return (hook_string_t){(uint8_t *)from.bytes, from.length}; }

static exports_virt_hook_hooks_handler_document_t *find(const cloud_init_documents *documents, const char *name) {
    for (size_t i = 0; i < documents->len; i++) {
        if (text_is(as_text(documents->ptr[i].f0), name)) return &documents->ptr[i];
    }
    return NULL;
}

bool cloud_init_document(const cloud_init_documents *documents, const char *name, text *content) {
    const exports_virt_hook_hooks_handler_document_t *found = find(documents, name);
    if (found) *content = as_text(found->f1);
    return found;
}

void cloud_init_set_document(cloud_init_documents *documents, const char *name, text content) {
    exports_virt_hook_hooks_handler_document_t *found = find(documents, name);
    if (!found) {
        /* The old list stays: whoever has it does not know that it moved. */
        exports_virt_hook_hooks_handler_document_t *longer = calloc(documents->len + 1, sizeof *longer);
        if (!longer) abort();
        if (documents->len) memcpy(longer, documents->ptr, documents->len * sizeof *longer);
        found = &longer[documents->len++];
        found->f0 = as_string(text_of(name));
        documents->ptr = longer;
    }
    found->f1 = as_string(content);
}
