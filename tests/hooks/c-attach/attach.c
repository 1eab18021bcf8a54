/* Replaces an attached device by the text of an annotation, and refuses one without it. */
#include "sdk/virt_hook.h"

const char *hook_describe(void) {
    return "{\"name\": \"attach\", \"version\": \"0.1.0\", \"hookPoints\": [{\"name\": \"OnAttachDevice\"}],"
           " \"wishes\": {\"paths\": [\"/domain/devices/disk/driver/**\"]}}";
}

bool hook_on_attach_device(text vmi, text *device) {
    text by;
    if (!vmi_annotation(vmi, "device", &by)) return hook_veto(text_of("no device in C"));
    if (text_is(by, "fail")) return hook_fail(text_of("no luck in C"));
    *device = by;
    return true;
}
