/*
 * The schema as the emitters see it: a checked tree in which every reference is a pointer. Built
 * once by model.c from protoc's CodeGeneratorRequest; read-only afterwards. Emitters see only
 * this, never a descriptor, and make no name themselves: all C names in here come from names.c.
 *
 * How to walk it. An emitter is called once per file that protoc was asked for (emit.h):
 *
 *   for (size_t i = 0; i < file->n_all_messages; i++)      every message of the file, nested
 *       emit(file->all_messages[i]);                       ones before their parents, as
 *                                                          protobuf-c orders its structs
 *   for (size_t i = 0; i < message->n_fields; i++)         in the order of the .proto
 *       switch (message->fields[i]->presence) ...
 *   for (size_t i = 0; i < message->n_fields; i++)         by ascending number: wire order
 *       message->by_number[i] ...
 *   field->message, field->enumeration                     the type, in whichever file it is
 *   message->file->generated                               whether that file is written now
 *
 * To reach all messages that a root needs, follow field->message with a visited set of your own:
 * the tree has cycles through recursive messages.
 *
 * What is in `presence` tells how a field's absence looks in the C struct, and which members
 * the field has there:
 *
 *   GEN_REQUIRED   c_name                       always written; a NULL pointer is an error
 *   GEN_HAS        c_has, c_name                written where the flag is set
 *   GEN_POINTER    c_name                       written where it is not NULL
 *   GEN_IMPLICIT   c_name                       written where it is not zero or empty
 *   GEN_ONEOF      c_name in an unnamed union   written where oneof->c_case == number
 *   GEN_REPEATED   c_count, c_name              an array (of pointers, for messages and strings)
 *
 * A default of a GEN_POINTER string may be the pointer to the static default text or
 * protobuf_c_empty_string: such a pointer is "absent" for protobuf-c, and must never be freed.
 */
#ifndef PEKOE_CODEGEN_MODEL_H
#define PEKOE_CODEGEN_MODEL_H

#include "codegen/parameters.h"
#include "codegen/report.h"

#include <google/protobuf/compiler/plugin.pb-c.h>

#include <stdint.h>

/* The numbers are those of FieldDescriptorProto.Type. */
enum gen_type {
    GEN_DOUBLE = 1,
    GEN_FLOAT = 2,
    GEN_INT64 = 3,
    GEN_UINT64 = 4,
    GEN_INT32 = 5,
    GEN_FIXED64 = 6,
    GEN_FIXED32 = 7,
    GEN_BOOL = 8,
    GEN_STRING = 9,
    GEN_GROUP = 10,
    GEN_MESSAGE = 11,
    GEN_BYTES = 12,
    GEN_UINT32 = 13,
    GEN_ENUM = 14,
    GEN_SFIXED32 = 15,
    GEN_SFIXED64 = 16,
    GEN_SINT32 = 17,
    GEN_SINT64 = 18,
};

enum gen_presence {
    GEN_REQUIRED,
    GEN_HAS,
    GEN_POINTER,
    GEN_IMPLICIT,
    GEN_ONEOF,
    GEN_REPEATED,
};

/* An option that may be absent. */
enum gen_choice { GEN_UNSET, GEN_NO, GEN_YES };

/* A comment of the .proto file, as protoc hands it over (lines end in '\n'); NULL = none. */
struct gen_comment {
    const char *leading;
    const char *trailing;
};

struct gen_default {
    bool present;
    int64_t integer;     /* the signed integers */
    uint64_t natural;    /* the unsigned ones and bool */
    double real;         /* float, double; may be infinite or NaN */
    const uint8_t *data; /* string, bytes; ends with a NUL that is not counted */
    size_t length;
    const struct gen_enum_value *value; /* enum */
};

struct gen_field {
    const char *name;      /* as in the .proto */
    const char *full_name; /* no leading dot */
    const char *json_name;
    int32_t number;
    enum gen_type type;
    enum gen_presence presence;
    bool packed;     /* repeated, written packed; readers take both forms whatever this says */
    bool packable;   /* repeated, of a type that may be packed */
    bool optional;   /* the word `optional` stands there in proto3 */
    bool required;   /* proto2 */
    bool is_map;     /* repeated, and message->is_map_entry */
    bool is_binary;  /* the member is a ProtobufCBinaryData: bytes, and strings so marked */
    bool check_utf8; /* a proto3 string: other than UTF-8 is refused */
    bool deprecated;
    struct gen_default initial;
    struct gen_message *parent;   /* for an extension: the message that it extends */
    struct gen_oneof *oneof;      /* never the synthetic one of a proto3 `optional` */
    struct gen_message *message;  /* of GEN_MESSAGE and GEN_GROUP */
    struct gen_enum *enumeration; /* of GEN_ENUM */
    struct gen_comment comment;
    struct gen_place place;
    /* names.c */
    const char *c_name;     /* the struct member */
    const char *c_has;      /* GEN_HAS: "has_..." */
    const char *c_count;    /* GEN_REPEATED: "n_..." */
    const char *c_constant; /* GEN_ONEOF: the case constant */
    const char *c_default;  /* with a default: its variable, "..__default_value" */
};

/* A oneof that the user wrote. */
struct gen_oneof {
    const char *name;
    const char *full_name;
    struct gen_message *parent;
    struct gen_field **fields; /* in the order of the .proto */
    size_t n_fields;
    struct gen_comment comment;
    struct gen_place place;
    const char *c_name;       /* "kind": what the case member and type are named for */
    const char *c_case;       /* the case member, "kind_case" */
    const char *c_case_type;  /* its type, "Demo__Value__KindCase" */
    const char *c_not_set;    /* its zero, "DEMO__VALUE__KIND__NOT_SET" */
    const char *c_case_upper; /* "DEMO__VALUE__KIND__CASE" */
};

struct gen_range { /* [start, end) */
    int32_t start;
    int32_t end;
};

struct gen_message {
    const char *name;
    const char *full_name;
    struct gen_file *file;
    struct gen_message *parent; /* NULL at the top of the file */
    unsigned index;             /* in file->all_messages */
    struct gen_field **fields;
    struct gen_field **by_number;
    size_t n_fields;
    struct gen_oneof **oneofs;
    size_t n_oneofs;
    struct gen_message **messages; /* nested, map entries too */
    size_t n_messages;
    struct gen_enum **enums;
    size_t n_enums;
    struct gen_range *extension_ranges;
    size_t n_extension_ranges;
    bool is_map_entry;
    bool has_group;   /* a field of its own is a group: protobuf-c cannot read or write it */
    bool message_set; /* message_set_wire_format */
    bool deprecated;
    enum gen_choice slab;      /* (pekoe.slab), else (vtproto.slab) */
    enum gen_choice zero_copy; /* (pekoe.zero_copy) */
    bool mempool;              /* (vtproto.mempool) */
    /* protobuf-c's own options */
    bool pack_helpers;        /* x__pack and the like are written */
    bool init_helpers;        /* x__init is written */
    bool nested_pack_helpers; /* what pack_helpers is for nested messages by default */
    struct gen_comment comment;
    struct gen_place place;
    /* names.c */
    const char *c_type;  /* "Demo__HelloReply" */
    const char *c_lower; /* "demo__hello_reply", first part of protobuf-c's functions */
    const char *c_upper; /* "DEMO__HELLO_REPLY" */
    const char *c_short; /* "HelloReply", protobuf-c's short_name */
    const char *c_pekoe; /* "demo_hello_reply", first part of pekoe's functions */
    const char *c_base;  /* the member that is the ProtobufCMessage, "base" */
};

struct gen_enum_value {
    const char *name;
    int32_t number;
    bool deprecated;
    struct gen_comment comment;
    struct gen_place place;
    const char *c_name; /* the constant, "DEMO__COLOUR__RED" */
};

struct gen_enum {
    const char *name;
    const char *full_name;
    struct gen_file *file;
    struct gen_message *parent; /* NULL at the top of the file */
    struct gen_enum_value *values;
    size_t n_values; /* at least 1 */
    bool closed;     /* proto2: a number that is not listed goes to the unknown fields */
    bool deprecated;
    struct gen_comment comment;
    struct gen_place place;
    const char *c_type;
    const char *c_lower;
    const char *c_upper;
};

struct gen_method {
    const char *name;
    const char *full_name;
    const char *path; /* "/demo.Greeter/SayHello": exact proto names, whatever the C name is */
    struct gen_service *service;
    struct gen_message *input;
    struct gen_message *output;
    bool client_streaming;
    bool server_streaming;
    bool deprecated;
    bool no_side_effects; /* idempotency_level */
    bool idempotent;      /* idempotency_level, also where no_side_effects */
    struct gen_comment comment;
    struct gen_place place;
    const char *c_name;   /* "say_hello": last part of function names */
    const char *c_member; /* the same where it can be a struct member, else with a '_' behind */
    /* "demo_greeter_say_hello", pekoe's function that calls it. A '_' is behind where the plain
     * name is one of pekoe's own for the service, as demo_greeter_serve is. */
    const char *c_function;
};

struct gen_service {
    const char *name;
    const char *full_name;
    struct gen_file *file;
    struct gen_method **methods;
    size_t n_methods;
    bool deprecated;
    struct gen_comment comment;
    struct gen_place place;
    const char *c_type;  /* "Demo__Greeter" */
    const char *c_lower; /* "demo__greeter" */
    const char *c_upper; /* "DEMO__GREETER" */
    const char *c_pekoe; /* "demo_greeter", first part of pekoe's names */
    /*
     * Whether protobuf-c's code for the service (a ProtobufCService) can be written: its names
     * collide for methods such as Init. Pekoe's own code does not need it.
     */
    bool protobuf_c;
};

struct gen_file {
    const char *name;    /* as protoc knows it, "demo/greeter.proto" */
    const char *package; /* "" where there is none */
    const Google__Protobuf__FileDescriptorProto *proto; /* borrowed from the request */
    bool generated;                                     /* protoc asked for its output */
    bool proto3;
    bool no_generate;       /* protobuf-c's option: there is no x.pb-c.h */
    bool code_size;         /* optimize_for = CODE_SIZE: descriptors without names */
    bool const_strings;     /* protobuf-c's option: members are const char * */
    bool oneof_field_names; /* protobuf-c's option: the oneof's name stands in field descriptors */
    bool deprecated;
    struct gen_file **imports; /* in the order of the .proto */
    size_t n_imports;
    struct gen_message **messages;
    size_t n_messages;
    struct gen_message **all_messages;
    size_t n_all_messages;
    struct gen_enum **enums;
    size_t n_enums;
    struct gen_service **services;
    size_t n_services;
    struct gen_field **extensions; /* of the file and of its messages */
    size_t n_extensions;
    struct gen_place place; /* no line */
    /* names.c */
    const char *c_stem;       /* "demo/greeter": what output names begin with */
    const char *c_identifier; /* "demo_2fgreeter_2eproto": unique, part of guards and symbols */
    const char *c_package;    /* what C names begin with instead of the package; often the same */
};

struct gen_model {
    struct gen_file **files; /* in protoc's order: imports before importers */
    size_t n_files;
};

/*
 * Builds the tree. Whatever is wrong with the request is reported; the tree is whole (and may be
 * handed to emitters) only where nothing was. The request must outlive the model.
 */
struct gen_model *gen_model_new(const Google__Protobuf__Compiler__CodeGeneratorRequest *request,
                                const struct gen_parameters *parameters, struct gen_report *report);

#endif
