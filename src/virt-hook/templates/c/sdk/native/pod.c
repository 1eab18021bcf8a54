/* The pod of native tests. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

#define MOST 16

static struct {
    const char *key, *value;
} annotations[MOST], labels[MOST];
static size_t annotation_count, label_count;
static pod_network networks[MOST];
static text addresses[MOST];
static size_t network_count;

void native_pod_annotation(const char *key, const char *value) {
    if (annotation_count == MOST) abort();
    annotations[annotation_count].key = key, annotations[annotation_count++].value = value;
}

void native_pod_label(const char *key, const char *value) {
    if (label_count == MOST) abort();
    labels[label_count].key = key, labels[label_count++].value = value;
}

void native_pod_network(const char *name, const char *ip, const char *mac, bool is_default) {
    if (network_count == MOST) abort();
    text *address = &addresses[network_count];
    *address = text_of(ip);
    networks[network_count++] = (pod_network){
        .name = text_of(name), .pod_interface = text_of(""), .ips = address, .ip_count = address->length > 0,
        .mac = text_of(mac), .is_default = is_default, .json = text_of("{}"),
    };
}

/* In a test no fact arrives later, so that waiting is an error. */
static pod_answer missing(const char *name, bool wait, text *why) {
    *why = wait ? text_join(text_of(name), text_of(" is not there: give the test a pod with it")) : text_of("");
    return wait ? POD_ABSENT : POD_NONE;
}

/* Whether the hook may not read a fact; `*why` says so. */
static bool is_denied(const char *list, text name, text *why) {
    text fact = text_join(text_of(list), name);
    if (native_is_declared("pod", fact)) return false;
    *why = text_join(fact, text_of(" is missing in \"pod\" of the wishes"));
    return true;
}

static pod_answer annotation(const char *key, bool wait, text *value) {
    for (size_t i = annotation_count; i-- > 0;) {
        if (text_is(text_of(key), annotations[i].key)) return *value = text_of(annotations[i].value), POD_FACT;
    }
    return missing(key, wait, value);
}

pod_answer pod_annotation(const char *key, bool wait, text *value) {
    return is_denied("annotations/", text_of(key), value) ? POD_DENIED : annotation(key, wait, value);
}

pod_answer pod_label(const char *key, bool wait, text *value) {
    if (is_denied("labels/", text_of(key), value)) return POD_DENIED;
    for (size_t i = label_count; i-- > 0;) {
        if (text_is(text_of(key), labels[i].key)) return *value = text_of(labels[i].value), POD_FACT;
    }
    return missing(key, wait, value);
}

pod_answer pod_network_info(bool wait, text *value) {
    if (is_denied("network-info", text_of(""), value)) return POD_DENIED;
    return annotation("kubevirt.io/network-info", wait, value);
}

pod_answer pod_networks(const char *name, bool wait, const pod_network **found, size_t *count, text *why) {
    pod_network *matching = calloc(MOST, sizeof *matching);
    if (!matching) abort();
    text full = text_of(name), namespace;
    if (!strchr(name, '/') && hook_invocation("namespace", &namespace)) full = text_join(namespace, text_of("/"), full);
    *found = matching, *count = 0, *why = text_of("");
    if (is_denied("network-status/", full, why)) return POD_DENIED;
    for (size_t i = 0; i < network_count; i++) {
        if (text_equal(networks[i].name, full)) matching[(*count)++] = networks[i];
    }
    return *count ? POD_FACT : missing(name, wait, why);
}

pod_answer pod_default_network(bool wait, pod_network *network, text *why) {
    *why = text_of("");
    if (is_denied("default-network", *why, why)) return POD_DENIED;
    for (size_t i = 0; i < network_count; i++) {
        if (networks[i].is_default) return *network = networks[i], POD_FACT;
    }
    return missing("default-network", wait, why);
}
