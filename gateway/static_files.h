/*
 * The files of a folder to GET: for a page and its scripts, not for a web site.
 *
 * Nothing outside the folder is reached: no "..", no symbolic link is followed, names that begin
 * with a dot are not there. Files of any size are read as their clients take them.
 */
#ifndef PEKOE_GATEWAY_STATIC_FILES_H
#define PEKOE_GATEWAY_STATIC_FILES_H

#include <pekoe/http.h>

/* Whether the folder is there and can be read. 0, or PK_ERR_SYSTEM: errno says why. */
PK_NODISCARD int gateway_static_check(const char *folder);

void gateway_static_serve(const char *folder, pk_http *http);

#endif
