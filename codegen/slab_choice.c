/*
 * Which messages get a slab decoder, by options of the .proto and parameters of the plugin. Called
 * by the emitters, and by run.c for what cannot be.
 */
#include "codegen/closure.h"
#include "codegen/emit_slab.h"

#include <string.h>

static bool is_listed(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static bool is_used_by_service(const struct gen_message *message, const struct gen_file *file)
{
    for (size_t i = 0; i < file->n_services; i++) {
        for (size_t j = 0; j < file->services[i]->n_methods; j++) {
            const struct gen_method *method = file->services[i]->methods[j];

            if (method->input == message || method->output == message)
                return true;
        }
    }
    return false;
}

bool gen_slab_is_on(const struct gen_run *run, const struct gen_message *message,
                    const struct gen_file *file)
{
    const struct gen_parameters *parameters = run->parameters;

    if (message->is_map_entry)
        return false;
    if (gen_message_reaches_group(run->memory, message))
        return true;
    if (is_listed(message->full_name, parameters->slab_excluded, parameters->n_slab_excluded))
        return false;
    if (is_listed(message->full_name, parameters->slab_names, parameters->n_slab_names))
        return true;
    if (message->slab != GEN_UNSET)
        return message->slab == GEN_YES;
    if (message->zero_copy == GEN_YES)
        return true;
    if (parameters->slab == GEN_SLAB_ALL)
        return true;
    return parameters->slab == GEN_SLAB_SERVICES && is_used_by_service(message, file);
}

/* Whether it was asked for by name; gen_slab_check sees to it that there is a slab decoder. */
static bool names_zero_copy(const struct gen_parameters *parameters,
                            const struct gen_message *message)
{
    return message->zero_copy == GEN_YES ||
           is_listed(message->full_name, parameters->zero_copy_names,
                     parameters->n_zero_copy_names);
}

bool gen_zero_copy_is_on(const struct gen_run *run, const struct gen_message *message,
                         const struct gen_file *file)
{
    if (!gen_slab_is_on(run, message, file))
        return false;
    if (names_zero_copy(run->parameters, message))
        return true;
    return run->parameters->zero_copy_services && message->zero_copy == GEN_UNSET &&
           is_used_by_service(message, file);
}

static const struct gen_message *find_message(const struct gen_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_files; i++) {
        for (size_t j = 0; j < model->files[i]->n_all_messages; j++) {
            if (strcmp(model->files[i]->all_messages[j]->full_name, name) == 0)
                return model->files[i]->all_messages[j];
        }
    }
    return NULL;
}

static void check_names(struct gen_run *run, const char *key, const char *const *names,
                        size_t count)
{
    static const struct gen_place nowhere = {0};

    for (size_t i = 0; i < count; i++) {
        if (!find_message(run->model, names[i]))
            gen_fail(run->report, nowhere, "parameter %s=%s: there is no such message", key,
                     names[i]);
    }
}

void gen_slab_check(struct gen_run *run)
{
    const struct gen_parameters *parameters = run->parameters;

    check_names(run, "slab", parameters->slab_names, parameters->n_slab_names);
    check_names(run, "slab-exclude", parameters->slab_excluded, parameters->n_slab_excluded);
    check_names(run, "slab-zero-copy", parameters->zero_copy_names, parameters->n_zero_copy_names);
    for (size_t i = 0; i < run->model->n_files; i++) {
        const struct gen_file *file = run->model->files[i];

        for (size_t j = 0; file->generated && j < file->n_all_messages; j++) {
            const struct gen_message *message = file->all_messages[j];
            bool asked =
                message->slab == GEN_YES || message->zero_copy == GEN_YES ||
                is_listed(message->full_name, parameters->slab_names, parameters->n_slab_names);

            if (asked && message->mempool)
                gen_fail(run->report, message->place,
                         "%s: slab and (vtproto.mempool) exclude each other: a piece of a slab "
                         "cannot go back to a pool",
                         message->full_name);
            else if (names_zero_copy(parameters, message) && !gen_slab_is_on(run, message, file))
                gen_fail(run->report, message->place,
                         "%s: zero-copy needs a slab decoder, which the message has not",
                         message->full_name);
        }
    }
}
