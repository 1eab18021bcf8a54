/* Replaces an attached device by the text of an annotation, and refuses one without it. At PreStart, refuses with facts
 * about the pod. */
#include "sdk/virt_hook.h"

const char *hook_describe(void) {
    return "{\"name\": \"attach\", \"version\": \"0.1.0\", \"hookPoints\": [{\"name\": \"OnAttachDevice\"},"
           " {\"name\": \"PreStart\"}], \"wishes\": {\"paths\": [\"/domain/devices/disk/driver/**\"],"
           " \"pod\": [\"annotations/a.example/*\", \"network-status/*\", \"default-network\", \"network-info\"]}}";
}

bool hook_on_attach_device(text vmi, text *device) {
    text by;
    if (!vmi_annotation(vmi, "device", &by)) return hook_veto(text_of("no device in C"));
    if (text_is(by, "fail")) return hook_fail(text_of("no luck in C"));
    *device = by;
    return true;
}

bool hook_pre_start(text vmi) {
    (void)vmi;
    text annotation, label, info, why;
    const pod_network *networks;
    size_t count;
    pod_network cluster;
    if (pod_annotation("a.example/b", true, &annotation) != POD_FACT) return hook_fail(annotation);
    if (pod_annotation("a.example/none", false, &why) != POD_NONE) return hook_fail(why);
    if (pod_networks("infra/lab", true, &networks, &count, &why) != POD_FACT) return hook_fail(why);
    if (pod_default_network(true, &cluster, &why) != POD_FACT || !cluster.is_default) return hook_fail(why);
    if (pod_network_info(true, &info) != POD_ABSENT) return hook_fail(info);
    if (pod_label("rack", true, &label) != POD_DENIED) return hook_fail(label);
    text space = text_of(" ");
    return hook_veto(text_join(annotation, space, networks[0].mac, space, networks[count - 1].mac, space,
                               networks[0].ips[networks[0].ip_count - 1], space, cluster.name));
}
