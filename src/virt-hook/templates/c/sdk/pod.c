/* The interface pod of 0.1.1, which the bindings of 0.1.0 do not have, as the canonical ABI lays it out. */
#include "virt_hook.h"

#define IMPORT(name) \
    __attribute__((import_module("virt-hook:hooks/pod@0.1.1"), import_name(name))) extern

/* result<option<string>, error>: both cases have a tag and a text. */
typedef struct {
    unsigned char failed;
    unsigned tag;
    text words;
} fact;

/* result<list<network>, error> */
typedef struct {
    unsigned char failed;
    union {
        struct {
            const pod_network *first;
            size_t count;
        } list;
        struct {
            unsigned tag;
            text words;
        } error;
    } value;
} network_list;

/* result<option<network>, error> */
typedef struct {
    unsigned char failed;
    unsigned tag;
    union {
        pod_network network;
        text words;
    } value;
} network_option;

_Static_assert(sizeof(pod_network) == 44, "a network has the layout of the canonical ABI");

IMPORT("annotation") void import_annotation(const char *, size_t, int, fact *);
IMPORT("label") void import_label(const char *, size_t, int, fact *);
IMPORT("network-info") void import_network_info(int, fact *);
IMPORT("network-status") void import_network_status(const char *, size_t, int, network_list *);
IMPORT("default-network") void import_default_network(int, network_option *);

/* A tag is one byte; the others are not written. */
static pod_answer failure(unsigned tag) { return POD_DENIED + (tag & 0xff); }

static pod_answer answer(const fact *found, text *value) {
    bool some = found->failed || (found->tag & 0xff);
    *value = some ? found->words : text_of("");
    if (found->failed) return failure(found->tag);
    return some ? POD_FACT : POD_NONE;
}

pod_answer pod_annotation(const char *key, bool wait, text *value) {
    fact found = {0};
    text name = text_of(key);
    import_annotation(name.bytes, name.length, wait, &found);
    return answer(&found, value);
}

pod_answer pod_label(const char *key, bool wait, text *value) {
    fact found = {0};
    text name = text_of(key);
    import_label(name.bytes, name.length, wait, &found);
    return answer(&found, value);
}

pod_answer pod_network_info(bool wait, text *value) {
    fact found = {0};
    import_network_info(wait, &found);
    return answer(&found, value);
}

pod_answer pod_networks(const char *name, bool wait, const pod_network **networks, size_t *count, text *why) {
    network_list found = {0};
    text wanted = text_of(name);
    *count = 0;
    *why = text_of("");
    import_network_status(wanted.bytes, wanted.length, wait, &found);
    if (found.failed) {
        *why = found.value.error.words;
        return failure(found.value.error.tag);
    }
    *networks = found.value.list.first;
    *count = found.value.list.count;
    return *count ? POD_FACT : POD_NONE;
}

pod_answer pod_default_network(bool wait, pod_network *network, text *why) {
    network_option found = {0};
    *why = text_of("");
    import_default_network(wait, &found);
    if (found.failed) {
        *why = found.value.words;
        return failure(found.tag);
    }
    if (!(found.tag & 0xff)) return POD_NONE;
    *network = found.value.network;
    return POD_FACT;
}
