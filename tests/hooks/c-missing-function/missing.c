/* Lists a hook point whose function has a misspelt name. */
#include "sdk/virt_hook.h"

const char *hook_describe(void) {
    return "{\"name\": \"missing\", \"version\": \"0.1.0\", \"hookPoints\": [{\"name\": \"OnDefineDomain\"}]}";
}

bool hook_on_define_domian(text vmi, text *domain);

bool hook_on_define_domian(text vmi, text *domain) {
    (void)vmi, (void)domain;
    return true;
}
