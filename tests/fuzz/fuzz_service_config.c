/*
 * handlers/service_config.c: any text is a config or a problem; what was read keeps its promises to
 * those who look it up.
 */
#include "handlers/service_config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool right)
{
    if (!right)
        abort();
}

static void check_config(const pk_method_config *config)
{
    require(!(config->retries && config->hedges));
    if (config->retries)
        require(config->retry.max_attempts >= 2 && config->retry.initial_backoff_ms > 0 &&
                config->retry.max_backoff_ms > 0 && config->retry.backoff_multiplier > 0 &&
                config->retry.codes != 0);
    if (config->hedges)
        require(config->hedging.max_attempts >= 2 && config->hedging.codes != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char problem[64] = "";
    pk_service_config *config = NULL;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    int r = pk_service_config_new(&config, text, problem, sizeof problem);
    free(text);
    if (r < 0) {
        require(!config && problem[0] != '\0' && strlen(problem) < sizeof problem);
        return 0;
    }
    for (size_t i = 0; i < config->config_count; i++)
        check_config(&config->configs[i]);
    for (size_t i = 0; i < config->name_count; i++)
        require(pk_service_config_find(config, config->names[i].path) != NULL);
    (void) pk_service_config_find(config, "/a.B/C");
    require(config->throttling.max_tokens == 0 || config->throttling.token_ratio > 0);
    pk_service_config_free(config);
    return 0;
}
