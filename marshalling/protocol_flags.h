/*
 * The flags in a frame's prefix. Sources: PROTOCOL-HTTP2.md, "Compressed-Flag"; PROTOCOL-WEB.md,
 * "the most significant bit of the gRPC frame". For the protocol files only.
 */
#ifndef PEKOE_MARSHALLING_PROTOCOL_FLAGS_H
#define PEKOE_MARSHALLING_PROTOCOL_FLAGS_H

#define PK_FRAME_COMPRESSED 0x01u
#define PK_FRAME_TRAILERS 0x80u

#endif
