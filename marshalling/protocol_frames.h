/*
 * Runs of whole frames, as raw calls pass them on: messages in one piece with their prefixes, all of
 * them flagged as compressed, or none.
 *
 * Read with a pk_body_reader, checked before they are written, and laid out by pk_protocol.frames.
 */
#ifndef PEKOE_MARSHALLING_PROTOCOL_FRAMES_H
#define PEKOE_MARSHALLING_PROTOCOL_FRAMES_H

#include "marshalling/protocol_body.h"

/* Bytes of a run of several frames: what one HTTP/2 DATA frame carries. A longer message is alone. */
#define PK_FRAMES_MOST 16384u

/*
 * The raw message that the reader has just given, and with it those that lie whole behind it in the
 * same chunk and are flagged alike, in a buffer that contains nothing else; each has passed the
 * reader's checks. A message that the reader has gathered is not copied. PK_ERR_NOMEM.
 */
PK_NODISCARD int pk_frames_collect(pk_body_reader *reader, const pk_body_message *first,
                                   size_t *ret_count, pk_buffer **ret_buffer);

/* A copy of one message behind its prefix. PK_ERR_NOMEM. */
PK_NODISCARD int pk_frames_copy_message(pk_buffer_pool *pool, pk_slice message, bool compressed,
                                        pk_buffer **ret_buffer);

/* A copy. PK_ERR_NOMEM. */
PK_NODISCARD int pk_frames_copy(pk_buffer_pool *pool, pk_slice frames, pk_buffer **ret_buffer);

/*
 * Whether these are exactly `count` frames, flagged so. 0, or with *ret_status PK_ERR_INVALID
 * (INTERNAL), PK_ERR_LIMIT where a message is above the send limit (RESOURCE_EXHAUSTED).
 */
PK_NODISCARD int pk_frames_check(const pk_encoding *encoding, pk_slice frames, size_t count,
                                 bool compressed, pk_status *ret_status);

/* Cuts the first message off frames that were checked. False: there is none. */
bool pk_frames_cut(pk_slice *frames, pk_slice *ret_message);

#endif
