/* Defines a hook point that its description does not list. */
#include "sdk/virt_hook.h"

const char *hook_describe(void) {
    return "{\"name\": \"unlisted\", \"version\": \"0.1.0\", \"hookPoints\": [{\"name\": \"OnDefineDomain\"}]}";
}

bool hook_on_define_domain(text vmi, text *domain) {
    (void)vmi, (void)domain;
    return true;
}

bool hook_on_attach_device(text vmi, text *device) {
    (void)vmi, (void)device;
    return true;
}
