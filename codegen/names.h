/*
 * Every generated name is made here: of files, types, functions, constants, members, guards.
 * Called by the model, which stores the results beside what they name (the c_... members of
 * model.h), and by emitters that need a name with a suffix.
 *
 * Messages are spelt as protoc-gen-c spells them: pieces of the full name joined by "__", types
 * in CamelCase, functions in lower case with '_' before each capital that follows a small letter
 * or digit, fields in plain lower case. What pekoe adds is spelt with single underscores, so that
 * it never meets protobuf-c's own.
 *
 * Members that could not compile get a '_' behind: fields named like a keyword of C or C++, like
 * a macro that compilers predefine (linux, unix, i386), like errno, or like a member that the
 * generator itself makes (base, n_x beside a repeated x, has_x, x_case). With messages=none the
 * structs are protoc-gen-c's, so its own, shorter, list of keywords holds.
 *
 * Two things that would get the same C name are reported with both proto names; see
 * gen_names_check.
 */
#ifndef PEKOE_CODEGEN_NAMES_H
#define PEKOE_CODEGEN_NAMES_H

#include "codegen/model.h"

/*
 * The spellings, for one piece or for a dotted name. All results live in `memory`.
 *                              my_pkg.HTTPReq2
 *   gen_name_type              MyPkg__HTTPReq2
 *   gen_name_lower             my_pkg__httpreq2
 *   gen_name_upper             MY_PKG__HTTPREQ2
 *   gen_name_pekoe             my_pkg_httpreq2
 */
const char *gen_name_type(struct gen_memory *memory, const char *full_name);
const char *gen_name_lower(struct gen_memory *memory, const char *full_name);
const char *gen_name_upper(struct gen_memory *memory, const char *full_name);
const char *gen_name_pekoe(struct gen_memory *memory, const char *full_name);

/* A struct member for a proto name that is in lower case already. */
const char *gen_name_member(struct gen_memory *memory, const char *name, bool messages);

/* "demo/greeter.proto" -> "demo/greeter": ".protodevel" or ".proto" is cut off. */
const char *gen_name_stem(struct gen_memory *memory, const char *file_name);
/* Letters and digits stay, the rest becomes '_' and two hex digits: different files never get
 * the same identifier. It may start with a digit: always put something before it. */
const char *gen_name_identifier(struct gen_memory *memory, const char *file_name);

/*
 * What stands behind #include, quotes or angle brackets included, where the output of `file`
 * includes that of `import` (or its own): the import's stem with `ending`, ".pb-c.h" or ".pekoe.h".
 *
 * The path counts from the root of the outputs. In quotes it is tried in the folder of the
 * including file first, where Bar/Foo.proto that imports Foo.proto would find itself; so a file in
 * a folder has angle brackets for what is not below that same top folder.
 */
const char *gen_name_include(struct gen_memory *memory, const struct gen_file *file,
                             const struct gen_file *import, const char *ending);

/*
 * What pekoe's own names for a message and a service end in, as in demo_hello_reply_new and
 * demo_greeter_serve; lists that NULL ends. An emitter that makes a new one adds it there.
 */
extern const char *const gen_message_endings[];
extern const char *const gen_service_endings[];

/* Fills the c_... members of the whole model. Reports members of one struct that would collide,
 * and names that are no C identifiers. */
void gen_names_assign(struct gen_model *model, const struct gen_parameters *parameters,
                      struct gen_report *report);

/*
 * Reports each C name outside of structs that two things would share, of the files that are
 * generated and everything that they import. What exists only in protobuf-c's service code is
 * not reported: such a service goes without that code (gen_service.protobuf_c).
 */
void gen_names_check(struct gen_model *model, const struct gen_parameters *parameters,
                     struct gen_report *report);

#endif
