/*
 * What x.pekoe.h says of each message: its pk_message_type, which emit_pack.c defines, and the typed
 * functions that handlers call (new, done, read, write).
 */
#include "codegen/emit.h"

/* Map entries are read and written by the message that holds the map. */
static bool has_type(const struct gen_message *message)
{
    return !message->is_map_entry;
}

static void set_message(struct gen_printer *out, const struct gen_message *message)
{
    gen_set(out, "type", message->c_type);
    gen_set(out, "lower", message->c_lower);
    gen_set(out, "upper", message->c_upper);
    gen_set(out, "pekoe", message->c_pekoe);
    gen_set(out, "base", message->c_base);
    gen_set(out, "full", message->full_name);
}

void gen_emit_types_header(struct gen_run *run, const struct gen_file *file,
                           struct gen_printer *out)
{
    for (size_t i = 0; i < file->n_all_messages; i++) {
        const struct gen_message *message = file->all_messages[i];
        if (!has_type(message))
            continue;
        set_message(out, message);
        gen_print(out, "/* ---- $full$ ---- */\n"
                       "\n"
                       "extern const pk_message_type $pekoe$_type;\n"
                       "\n"
                       "/* An initialized message in the call. */\n"
                       "static inline $type$ *$pekoe$_new(pk_call *call)\n"
                       "{\n");
        gen_indent(out);
        gen_print(out, "static const $type$ initial = $upper$__INIT;\n"
                       "$type$ *message = ($type$ *) pk_call_alloc(call, sizeof *message);\n"
                       "if (message)\n"
                       "    *message = initial;\n"
                       "return message;\n");
        gen_outdent(out);
        gen_print(out, "}\n"
                       "\n"
                       "/* The reply, or a value of that type, is there: see pk_done. */\n"
                       "PK_NODISCARD static inline pk_future $pekoe$_done(const $type$ *message)\n"
                       "{\n"
                       "    return pk_done(message);\n"
                       "}\n"
                       "\n"
                       "/* Sends it on the stream: see pk_writer_write. */\n"
                       "PK_NODISCARD static inline pk_future $pekoe$_write(pk_writer *writer,\n"
                       "                                                  const $type$ *message)\n"
                       "{\n"
                       "    return pk_writer_write(writer, message);\n"
                       "}\n");
    }
}
