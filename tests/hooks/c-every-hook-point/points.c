/* At PreStart, returns false without a reason. At PreCloudInitIso, writes a document that is configured. At Shutdown, logs. */
#include "sdk/virt_hook.h"

const char *hook_describe(void) {
    return "{\"name\": \"points\", \"version\": \"0.1.0\", \"hookPoints\": [{\"name\": \"PreStart\"},"
           " {\"name\": \"PreCloudInitIso\"}, {\"name\": \"Shutdown\"}], \"wishes\": {\"config\": [\"network\"]}}";
}

bool hook_pre_start(text vmi) {
    (void)vmi;
    return false;
}

bool hook_pre_cloud_init_iso(text vmi, text data_source, cloud_init_documents *documents) {
    /* The network of all VMs with user-data is a document in hook.yaml. */
    (void)vmi, (void)data_source;
    text user_data, network;
    if (!cloud_init_document(documents, "user-data", &user_data) || user_data.length == 0) return true;
    if (!hook_config("network", &network)) return hook_veto(text_of("hook.yaml configures no network"));
    cloud_init_set_document(documents, "network-data", network);
    return true;
}

bool hook_shutdown(void) {
    hook_log(VIRT_HOOK_HOOKS_HOST_LEVEL_INFO, text_of("farewell from C"));
    return true;
}
