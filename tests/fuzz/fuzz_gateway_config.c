/* gateway/config.c: whatever a file holds is a configuration or an error that names its place. */
#include "gateway/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gateway_error error = {.text = ""};
    gateway_config *config = NULL, *again = NULL;
    const char *bytes = (const char *) data;
    if (gateway_config_parse(&config, "file", bytes, size, &error) < 0) {
        if (config || error.text[0] == '\0' || strchr(error.text, '\n') != NULL)
            abort();
        return 0;
    }
    if (config->listen.count + config->listen_tls.count == 0 || config->upstreams.count == 0 ||
        config->threads == 0)
        abort();
    for (size_t i = 0; i < config->upstreams.count; i++) {
        gateway_upstream_rule rule;
        if (gateway_parse_upstream(config->upstreams.items[i], &rule))
            abort();
        if (rule.prefix[0] != '/' || rule.targets.count == 0)
            abort();
        gateway_upstream_rule_done(&rule);
    }
    if (gateway_config_parse(&again, "file", bytes, size, &error) < 0 ||
        gateway_config_fixed_change(config, again))
        abort();
    gateway_config_unref(config);
    gateway_config_unref(again);
    return 0;
}
