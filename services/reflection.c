/*
 * Server reflection: see pekoe/reflection.h. An ordinary service on the public interface.
 *
 * v1 and v1alpha differ in their package only, so both are served by one handler on v1's messages.
 * A question that has no answer gets an error_response and the stream goes on, as the schema says.
 */
#include <pekoe/reflection.h>

#include "core/loop.h"
#include "grpc/reflection/v1/reflection.pekoe.h"
#include "grpc/reflection/v1alpha/reflection.pekoe.h"
#include "services/reflection_index.h"

#include <string.h>

typedef Grpc__Reflection__V1__ServerReflectionRequest request_message;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_message;

#define REQUEST(kind) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##kind
#define RESPONSE(kind) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##kind

struct pk_reflection {
    pk_router *router;
    pk_memory *memory;
    pk_reflection_index index;
    pk_method alpha_method; /* v1alpha's path, v1's messages */
    pk_service alpha;
};

/* One stream of questions; lives in the call. */
struct session {
    pk_reflection *reflection;
    pk_call *call;
    pk_reader *in;
    pk_writer *out;
    bool *sent; /* by place in the index: the peer has that file */
    size_t sent_count;
};

/* ---- Answers ---- */

/* One answer on the stack; its arrays last until the next question. */
struct answer {
    response_message response;
    Grpc__Reflection__V1__FileDescriptorResponse files;
    Grpc__Reflection__V1__ExtensionNumberResponse numbers;
    Grpc__Reflection__V1__ListServiceResponse services;
    Grpc__Reflection__V1__ErrorResponse error;
};

static void say_error(struct session *s, struct answer *a, pk_code code, const char *what,
                      const char *name)
{
    a->error = (Grpc__Reflection__V1__ErrorResponse) GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    a->error.error_code = (int32_t) code;
    a->error.error_message = pk_reader_printf(s->in, "%s: %s", what, name);
    a->response.message_response_case = RESPONSE(ERROR_RESPONSE);
    a->response.error_response = &a->error;
}

/* Services that were added meanwhile bring files: what was sent is noted afresh. */
static void know_files(struct session *s)
{
    size_t count = s->reflection->index.file_count;
    if (s->sent_count == count)
        return;
    s->sent = pk_call_alloc(s->call, count);
    s->sent_count = count;
}

/* Adds a file and those that it imports, unless they were sent before. It nests as imports do. */
static void add_file(struct session *s, struct answer *a, const pk_described_file *file)
{
    s->sent[file->place] = true;
    a->files.file_descriptor_proto[a->files.n_file_descriptor_proto++] =
        (ProtobufCBinaryData){file->file->length, (uint8_t *) (uintptr_t) file->file->bytes};
    for (size_t i = 0; i < file->import_count; i++) {
        if (!s->sent[file->imports[i]->place])
            add_file(s, a, file->imports[i]);
    }
}

/* The file that was asked for is sent each time. */
static void say_file(struct session *s, struct answer *a, const pk_described_file *file)
{
    know_files(s);
    a->files = (Grpc__Reflection__V1__FileDescriptorResponse)
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    a->files.file_descriptor_proto =
        pk_reader_alloc(s->in, s->sent_count * sizeof *a->files.file_descriptor_proto);
    add_file(s, a, file);
    a->response.message_response_case = RESPONSE(FILE_DESCRIPTOR_RESPONSE);
    a->response.file_descriptor_response = &a->files;
}

static void answer_symbol(struct session *s, struct answer *a, const char *name)
{
    const pk_described_symbol *symbol = pk_reflection_symbol(&s->reflection->index, name);
    if (symbol)
        say_file(s, a, symbol->file);
    else
        say_error(s, a, PK_NOT_FOUND, "unknown symbol", name);
}

static void answer_filename(struct session *s, struct answer *a, const char *name)
{
    const pk_described_file *file = pk_reflection_file(&s->reflection->index, name);
    if (file)
        say_file(s, a, file);
    else
        say_error(s, a, PK_NOT_FOUND, "unknown file", name);
}

static void answer_extension(struct session *s, struct answer *a,
                             const Grpc__Reflection__V1__ExtensionRequest *wanted)
{
    size_t count;
    const pk_described_extension *extensions =
        pk_reflection_extensions(&s->reflection->index, wanted->containing_type, &count);
    for (size_t i = 0; i < count; i++) {
        if (extensions[i].number == wanted->extension_number) {
            say_file(s, a, extensions[i].file);
            return;
        }
    }
    say_error(
        s, a, PK_NOT_FOUND, "unknown extension",
        pk_reader_printf(s->in, "%s, %d", wanted->containing_type, (int) wanted->extension_number));
}

static void answer_extension_numbers(struct session *s, struct answer *a, const char *name)
{
    const pk_described_symbol *type = pk_reflection_symbol(&s->reflection->index, name);
    if (!type || !type->message) {
        say_error(s, a, PK_NOT_FOUND, "unknown message type", name);
        return;
    }
    size_t count;
    const pk_described_extension *extensions =
        pk_reflection_extensions(&s->reflection->index, name, &count);
    a->numbers = (Grpc__Reflection__V1__ExtensionNumberResponse)
        GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;
    a->numbers.base_type_name = (char *) (uintptr_t) type->name;
    a->numbers.extension_number = pk_reader_alloc(s->in, (count + 1) * sizeof(int32_t));
    for (size_t i = 0; i < count; i++)
        a->numbers.extension_number[i] = extensions[i].number;
    a->numbers.n_extension_number = count;
    a->response.message_response_case = RESPONSE(ALL_EXTENSION_NUMBERS_RESPONSE);
    a->response.all_extension_numbers_response = &a->numbers;
}

static void answer_services(struct session *s, struct answer *a)
{
    const pk_reflection *reflection = s->reflection;
    size_t count = reflection->index.service_count;
    Grpc__Reflection__V1__ServiceResponse *services =
        pk_reader_alloc(s->in, count * sizeof *services);
    Grpc__Reflection__V1__ServiceResponse **places = pk_reader_alloc(s->in, count * sizeof *places);
    for (size_t i = 0; i < count; i++) {
        services[i] =
            (Grpc__Reflection__V1__ServiceResponse) GRPC__REFLECTION__V1__SERVICE_RESPONSE__INIT;
        services[i].name = (char *) (uintptr_t) pk_router_service(reflection->router, i)->name;
        places[i] = &services[i];
    }
    a->services = (Grpc__Reflection__V1__ListServiceResponse)
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    a->services.n_service = count;
    a->services.service = places;
    a->response.message_response_case = RESPONSE(LIST_SERVICES_RESPONSE);
    a->response.list_services_response = &a->services;
}

/* ---- The service ---- */

static bool up_to_date(pk_reflection *reflection)
{
    pk_reflection_index *index = &reflection->index;
    bool grown = pk_router_service(reflection->router, index->service_count) != NULL;
    return !grown || pk_reflection_index_build(index, reflection->router) == 0;
}

static pk_future answer_request(const void *value, void *arg)
{
    struct session *s = arg;
    const request_message *request = value;
    if (!up_to_date(s->reflection))
        return pk_failed(s->call, PK_INTERNAL, "the descriptors cannot be read");
    struct answer a;
    a.response = (response_message) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    a.response.valid_host = request->host;
    a.response.original_request = (request_message *) (uintptr_t) request;
    switch ((int) request->message_request_case) {
    case REQUEST(FILE_BY_FILENAME):
        answer_filename(s, &a, request->file_by_filename);
        break;
    case REQUEST(FILE_CONTAINING_SYMBOL):
        answer_symbol(s, &a, request->file_containing_symbol);
        break;
    case REQUEST(FILE_CONTAINING_EXTENSION):
        answer_extension(s, &a, request->file_containing_extension);
        break;
    case REQUEST(ALL_EXTENSION_NUMBERS_OF_TYPE):
        answer_extension_numbers(s, &a, request->all_extension_numbers_of_type);
        break;
    case REQUEST(LIST_SERVICES):
        answer_services(s, &a);
        break;
    default:
        return pk_failed(s->call, PK_INVALID_ARGUMENT, "the request asks for nothing");
    }
    return grpc_reflection_v1_server_reflection_response_write(s->out, &a.response);
}

static pk_future info(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    struct session *s =
        pk_call_new(call, struct session, .reflection = self, .call = call, .in = in, .out = out);
    return pk_reader_each(in, answer_request, s);
}

/* Adds both services, or none. */
static int route(pk_reflection *reflection, pk_loop *loop)
{
    static const grpc_reflection_v1_server_reflection_impl impl = {.server_reflection_info = info};
    pk_router *both;
    int r = pk_router_new(&both, loop, NULL);
    if (r < 0)
        return r;
    r = grpc_reflection_v1_server_reflection_route(both, &impl, reflection);
    if (r == 0)
        r = pk_router_add(both, &reflection->alpha, &impl, reflection);
    if (r == 0)
        r = pk_router_concat(reflection->router, both);
    pk_router_free(both);
    return r;
}

int pk_reflection_new(pk_reflection **ret_reflection, pk_loop *loop, pk_router *router)
{
    pk_assert_owner(loop);
    pk_reflection *reflection = pk_memory_get(&loop->memory, sizeof *reflection);
    if (!reflection)
        return PK_ERR_NOMEM;
    const pk_method *v1 = grpc_reflection_v1_server_reflection_service.methods;
    const pk_method *v1alpha = grpc_reflection_v1alpha_server_reflection_service.methods;
    *reflection = (pk_reflection){.router = router, .memory = &loop->memory, .alpha_method = *v1};
    reflection->alpha_method.path = v1alpha->path;
    reflection->alpha_method.path_length = v1alpha->path_length;
    reflection->alpha = grpc_reflection_v1alpha_server_reflection_service;
    reflection->alpha.methods = &reflection->alpha_method;
    pk_reflection_index_init(&reflection->index, &loop->memory);
    int r = route(reflection, loop);
    if (r < 0) {
        pk_reflection_free(reflection);
        return r;
    }
    *ret_reflection = reflection;
    return 0;
}

pk_reflection *pk_reflection_free(pk_reflection *reflection)
{
    if (!reflection)
        return NULL;
    pk_reflection_index_done(&reflection->index);
    pk_memory_put(reflection->memory, reflection, sizeof *reflection);
    return NULL;
}
