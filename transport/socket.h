/*
 * Sockets: listen, accept, read, write. TCP over IPv4 and IPv6, and Unix sockets.
 *
 * Called by connections and listeners; knows no HTTP and no event loop. Every socket made here is
 * non-blocking and closed on exec, and no call here raises SIGPIPE.
 *
 * Addresses are text: "127.0.0.1:50051", "[::1]:0", "localhost:50051", ":50051" (every interface),
 * "unix:/run/greeter.sock". Port 0 lets the system choose.
 */
#ifndef PEKOE_TRANSPORT_SOCKET_H
#define PEKOE_TRANSPORT_SOCKET_H

#include <pekoe/base.h>

#include <sys/types.h>
#include <sys/uio.h>

#define PK_ADDRESS_TEXT 128u /* bytes that hold any address in text, its NUL included */

/*
 * Opens a listening socket. `ret_bound` gets the address with the real port, in the form above.
 * A Unix socket's path that is left over from a process that died is replaced; one that is alive
 * fails with PK_ERR_EXISTS. `reuse_port`: several sockets, of several loops, share a TCP port.
 * PK_ERR_INVALID (the text is no address), PK_ERR_EXISTS (in use), PK_ERR_SYSTEM (see errno).
 */
PK_NODISCARD int pk_socket_listen(const char *address, bool reuse_port, int backlog, int *ret_fd,
                                  char ret_bound[PK_ADDRESS_TEXT]);

/*
 * Takes one connection that waits. `ret_peer` gets "ipv4:127.0.0.1:5000", "ipv6:[::1]:5000" or
 * "unix:". PK_ERR_TOO_LATE: none waits. PK_ERR_LIMIT: the process or the system has no descriptor
 * or memory left for it; it goes on waiting. PK_ERR_SYSTEM: any other error.
 */
PK_NODISCARD int pk_socket_accept(int listener, int *ret_fd, char ret_peer[PK_ADDRESS_TEXT]);

/*
 * Begins to connect to one address (a name is resolved while this waits; channels give none): "127.0.0.1:50051",
 * "[::1]:50051", "localhost:50051", "unix:/path". `ret_peer` as for pk_socket_accept. The socket is
 * writable once the attempt has ended; pk_socket_connected tells how. PK_ERR_INVALID,
 * PK_ERR_SYSTEM (see errno).
 */
PK_NODISCARD int pk_socket_connect(const char *address, int *ret_fd,
                                   char ret_peer[PK_ADDRESS_TEXT]);

/* 0 where the attempt has succeeded, else the errno that it has failed with. */
PK_NODISCARD int pk_socket_connected(int fd);

/* Whether the host of an address is a number, or it is a Unix socket: there is nothing to resolve. */
bool pk_socket_address_numeric(const char *address);

/* Whether the text is an address for pk_socket_connect; nothing is resolved. */
bool pk_socket_address_valid(const char *address);

/* Makes a socket that came from elsewhere fit: non-blocking, closed on exec, no Nagle delay. */
PK_NODISCARD int pk_socket_prepare(int fd);

/* Bytes read, 0 when none are there now, PK_ERR_CLOSED at the end, PK_ERR_SYSTEM on error. */
PK_NODISCARD ssize_t pk_socket_read(int fd, void *ret_bytes, size_t length);

/* Bytes written, 0 when there is no room now, PK_ERR_CLOSED where the peer is gone. */
PK_NODISCARD ssize_t pk_socket_write(int fd, const struct iovec *pieces, int count);

/* Ends the sending direction: the peer reads what was sent and then the end. */
void pk_socket_end_writing(int fd);

void pk_socket_close(int fd);

#endif
