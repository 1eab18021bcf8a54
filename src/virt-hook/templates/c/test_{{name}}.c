/* Runs natively: make native. */
#include "sdk/native/native.h"

int main(void) {
    text domain = text_of("<domain>\n  <name>vm</name>\n</domain>\n");
    /* As the host calls it: a wish must cover each change. */
    CHECK(native_edit(hook_on_define_domain, text_of("{}"), &domain));
    CHECK_TEXT(domain, "<domain>\n  <name>vm</name>\n</domain>\n");

    text vmi = text_of("{\"metadata\": {\"annotations\": {\"{{name}}.example.com/title\": \"A & B\"}}}");
    CHECK(hook_pre_start(vmi) && native_edit(hook_on_define_domain, vmi, &domain));
    CHECK_TEXT(domain, "<domain>\n  <name>vm</name>\n  <title>A &amp; B</title>\n</domain>\n");

    vmi = text_of("{\"metadata\": {\"annotations\": {\"{{name}}.example.com/title\": \"A\\nB\"}}}");
    CHECK(!hook_pre_start(vmi) && native_vetoed());
    CHECK_TEXT(native_error(), "the title must be one line");
    return 0;
}
