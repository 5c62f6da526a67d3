/*
 * The server's side of streaming calls: they are refused as not implemented.
 */
#include "core/status.h"
#include "handlers/call.h"

void pk_serve_streaming(pk_call *call, bool ended)
{
    pk_status status = PK_STATUS(PK_UNIMPLEMENTED, "streaming calls are not implemented");
    pk_call_answer_status(call, &status);
}
