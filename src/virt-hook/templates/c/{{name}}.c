/* Puts the title that an annotation names into the domain, where virt-manager and `virsh` show it. */
#include "sdk/virt_hook.h"

#define ANNOTATION "{{name}}.example.com/title"

/* What the hook is called, where it runs, and what it changes: anything else is refused. */
const char *hook_describe(void) {
    return "{\"name\": \"{{name}}\", \"version\": \"0.1.0\","
           " \"hookPoints\": [{\"name\": \"PreStart\"}, {\"name\": \"OnDefineDomain\"}],"
           " \"wishes\": {\"paths\": [\"/domain/title\"]}}";
}

/* Before anything is prepared: the place for a "no". */
bool hook_pre_start(text vmi) {
    text title, first, rest;
    bool given = vmi_annotation(vmi, ANNOTATION, &title);
    if (given && text_cut(title, "\n", &first, &rest)) return hook_veto(text_of("the title must be one line"));
    return true;
}

/* Before the domain is defined. Run again on its own work, it must change nothing more. */
bool hook_on_define_domain(text vmi, text *domain) {
    text title;
    if (vmi_annotation(vmi, ANNOTATION, &title)) xml_set(domain, "domain/title", title);
    return true;
}
