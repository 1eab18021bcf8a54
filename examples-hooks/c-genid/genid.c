/* Gives a virtual machine the generation ID that its annotation names. */
#include "sdk/virt_hook.h"

#define ANNOTATION "genid.vm.example.com/generation-id"

const char *hook_describe(void) {
    return "{\"name\": \"genid\", \"version\": \"0.1.0\","
           " \"hookPoints\": [{\"name\": \"PreStart\"}, {\"name\": \"OnDefineDomain\"}],"
           " \"wishes\": {\"paths\": [\"/domain/genid\"]}}";
}

static bool is_uuid(text id) {
    for (size_t i = 0; i < id.length; i++) {
        char c = id.bytes[i];
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (dash ? c != '-' : !digit) return false;
    }
    return id.length == 36;
}

/* Before anything is prepared, so that a mistyped annotation costs nothing. */
bool hook_pre_start(text vmi) {
    text id;
    if (!vmi_annotation(vmi, ANNOTATION, &id) || is_uuid(id)) return true;
    return hook_veto(text_join(text_of("the annotation " ANNOTATION " must be a UUID, not \""), id,
                               text_of("\"")));
}

bool hook_on_define_domain(text vmi, text *domain) {
    text id;
    if (vmi_annotation(vmi, ANNOTATION, &id)) xml_set(domain, "domain/genid", id);
    return true;
}
